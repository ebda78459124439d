//! Which document a sandbox gets, and its content.

use std::io;
use std::path::{Component, Path, PathBuf};

use linux_sys::rooted::Root;
use puller_config::MAX_DOCUMENT_BYTES;
use zeroize::Zeroizing;

use crate::document_pattern::{self, PatternFault};
use crate::host_file::{FileError, FileFault, HostFile};
use crate::sandbox_spec::ANNOTATION;
use crate::settings::Settings;

/// The longest path in an annotation: what the kernel accepts, without its final zero byte.
const MAX_PATH_BYTES: usize = 4095;

/// The file chosen for a sandbox: where it stands on the node and what it says, not yet parsed.
#[derive(Debug)]
pub struct DocumentFile {
    /// The file's path, for messages.
    pub path: PathBuf,
    /// The file's bytes, zeroed when dropped.
    pub text: DocumentText,
}

/// The bytes of a document. Holds secrets, so that its `Debug` says nothing of them.
#[derive(Clone)]
pub struct DocumentText(Zeroizing<Vec<u8>>);

impl std::ops::Deref for DocumentText {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.0
    }
}

impl From<Zeroizing<Vec<u8>>> for DocumentText {
    fn from(text: Zeroizing<Vec<u8>>) -> Self {
        Self(text)
    }
}

impl std::fmt::Debug for DocumentText {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "DocumentText([redacted], {} bytes)", self.len())
    }
}

/// Why the path in an annotation is not opened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PathFault {
    /// Relative, or not a path at all. The value is not repeated: it may be a whole document pasted
    /// in by mistake.
    #[error("its value is not an absolute path")]
    NotAbsolute,
    /// Longer than any path the kernel accepts.
    #[error("its value is longer than {MAX_PATH_BYTES} bytes")]
    TooLong,
    /// Line breaks and the like, which no honest path has.
    #[error("its value has control characters")]
    ControlCharacter,
    /// A part is `..`.
    #[error("its value has \"..\" in it")]
    ParentDirectory,
    /// Below no directory of the allow-list.
    #[error("{} is not below a directory of annotation-allow", path.display())]
    NotAllowed {
        /// The path.
        path: PathBuf,
    },
}

/// Why no document can be chosen, as a fragment that fits after "failed to".
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChoiceError {
    /// The annotation's value is refused for its form.
    #[error("use the annotation {ANNOTATION}: {0}")]
    AnnotationPath(#[from] PathFault),
    /// A directory of the allow-list cannot be opened.
    #[error("use the annotation {ANNOTATION}: open the allowed directory {}: {source}",
    directory.display())]
    AnnotationDirectory {
        /// The directory, as the settings name it.
        directory: PathBuf,
        /// What the kernel says.
        source: io::Error,
    },
    /// The file that the annotation names is refused.
    #[error("use the annotation {ANNOTATION}: {0}")]
    AnnotationFile(FileError),
    /// The node's own document is refused.
    #[error("read the node's document {0}")]
    NodeFile(FileError),
    /// The pattern for the node's own document does not stand for one file.
    #[error("find the node's document {}: {fault}", pattern.display())]
    NodePattern {
        /// The pattern, as the settings have it.
        pattern: PathBuf,
        /// Why it does not.
        fault: PatternFault,
    },
}

impl ChoiceError {
    /// Whether it is about what the pod's annotation says.
    #[must_use]
    pub const fn is_of_pod(&self) -> bool {
        match self {
            Self::AnnotationPath(_)
            | Self::AnnotationDirectory { .. }
            | Self::AnnotationFile(_) => true,
            Self::NodeFile(_) | Self::NodePattern { .. } => false,
        }
    }

    /// Whether the node's document is simply not there.
    #[must_use]
    pub fn is_absence(&self) -> bool {
        match self {
            Self::NodeFile(error) => error.fault.is_absent(),
            Self::NodePattern { fault, .. } => matches!(fault, PatternFault::NoMatch),
            Self::AnnotationPath(_)
            | Self::AnnotationDirectory { .. }
            | Self::AnnotationFile(_) => false,
        }
    }

    /// What the reader can do about it.
    #[must_use]
    pub const fn remedy(&self) -> &'static str {
        match self {
            Self::AnnotationPath(_) => {
                "name a file below a directory that annotation-allow in the wrapper's settings \
                lists, or leave the value empty for no configuration"
            }
            Self::AnnotationDirectory { .. } => {
                "create this directory on the node or take it off annotation-allow in the \
                wrapper's settings"
            }
            Self::AnnotationFile(_) | Self::NodeFile(_) => {
                "the document must be a regular file of root that nobody else can write, reached \
                without links"
            }
            Self::NodePattern { .. } => {
                "put one document where the pattern finds it, or name it by its path in the \
                wrapper's settings"
            }
        }
    }
}

impl DocumentFile {
    /// A document that says nothing, on whose behalf `path` speaks in messages.
    #[must_use]
    pub fn empty(path: &Path) -> Self {
        Self {
            path: path.into(),
            text: Zeroizing::new(Vec::new()).into(),
        }
    }
}

/// Chooses the document: the one that `annotation` names, else the node's, else none.
///
/// The node's path and the allow-list are the administrator's. The annotation is written by a less
/// trusted party: its path must lie below a directory of the allow-list, and the kernel resolves it
/// there without following links. An empty annotation asks for no disk. Where the node's document
/// is not there, [`Settings::missing_document`] may have words for the guest.
///
/// # Errors
///
/// [`ChoiceError`].
pub fn choose(
    settings: &Settings,
    annotation: Option<&str>,
) -> Result<Option<DocumentFile>, ChoiceError> {
    match (annotation, &settings.document) {
        (Some(""), _) | (None, None) => Ok(None),
        (Some(value), _) => of_pod(settings, value).map(Some),
        (None, Some(path)) => of_node(path)
            .or_else(|error| instead(settings, path, error))
            .map(Some),
    }
}

/// What the settings put in the place of the node's document where its file is not there. A file
/// that cannot be used is an error all the same: it would not become right by waiting.
fn instead(
    settings: &Settings,
    path: &Path,
    error: ChoiceError,
) -> Result<DocumentFile, ChoiceError> {
    match &settings.missing_document {
        Some(reason) if error.is_absence() => Ok(DocumentFile {
            path: path.into(),
            text: Zeroizing::new(reason.to_document().into_bytes()).into(),
        }),
        _ => Err(error),
    }
}

fn of_node(path: &Path) -> Result<DocumentFile, ChoiceError> {
    let path = resolve(path)?;
    let text = HostFile::open(&path)
        .and_then(read_document)
        .map_err(|fault| ChoiceError::NodeFile(fault.at(&path)))?;
    Ok(DocumentFile { path, text })
}

fn of_pod(settings: &Settings, value: &str) -> Result<DocumentFile, ChoiceError> {
    let (directory, rest) = place(&settings.annotation_allow, value)?;
    let root = Root::open(directory).map_err(|source| ChoiceError::AnnotationDirectory {
        directory: directory.into(),
        source,
    })?;
    let path = directory.join(rest);
    let text = HostFile::open_beneath(&root, rest)
        .and_then(read_document)
        .map_err(|fault| ChoiceError::AnnotationFile(fault.at(&path)))?;
    Ok(DocumentFile { path, text })
}

/// [`document_pattern::resolve`], for the node's document.
///
/// # Errors
///
/// [`ChoiceError::NodePattern`].
pub fn resolve(path: &Path) -> Result<PathBuf, ChoiceError> {
    document_pattern::resolve(path).map_err(|fault| ChoiceError::NodePattern {
        pattern: path.into(),
        fault,
    })
}

fn read_document(file: HostFile) -> Result<DocumentText, FileFault> {
    let text = file.require_administered()?.read(MAX_DOCUMENT_BYTES)?;
    Ok(text.into())
}

/// Splits `value` into the allowed directory it lies below, the longest where several fit, and the
/// path from there.
///
/// Only the form of the path is looked at; what the names lead to is the kernel's answer when it
/// opens them.
fn place<'a>(allowed: &'a [PathBuf], value: &'a str) -> Result<(&'a Path, &'a Path), PathFault> {
    let path = Path::new(value);
    if value.len() > MAX_PATH_BYTES {
        return Err(PathFault::TooLong);
    }
    if !path.is_absolute() {
        return Err(PathFault::NotAbsolute);
    }
    if value.chars().any(char::is_control) {
        return Err(PathFault::ControlCharacter);
    }
    if path.components().any(|part| part == Component::ParentDir) {
        return Err(PathFault::ParentDirectory);
    }
    allowed
        .iter()
        .filter_map(|directory| Some((directory.as_path(), path.strip_prefix(directory).ok()?)))
        .filter(|(_, rest)| !rest.as_os_str().is_empty())
        .min_by_key(|(_, rest)| rest.components().count())
        .ok_or_else(|| PathFault::NotAllowed { path: path.into() })
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown, symlink};
    use std::sync::atomic::{AtomicBool, Ordering};

    use rustix::fs::{CWD, FileType, Mode, RenameFlags, mknodat, renameat_with};
    use tempfile::TempDir;

    use super::*;

    fn write(path: &Path, text: impl AsRef<[u8]>) {
        std::fs::write(path, text).unwrap();
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o600)).unwrap();
    }

    /// An allowed directory beside one that is not, each with a document.
    fn node() -> (TempDir, Settings) {
        let dir = tempfile::tempdir().unwrap();
        let settings = Settings {
            document: Some(dir.path().join("node.toml")),
            annotation_allow: vec![dir.path().join("allowed")],
            ..Settings::default()
        };
        for folder in ["allowed", "allowed/team", "other"] {
            std::fs::create_dir(dir.path().join(folder)).unwrap();
        }
        write(&dir.path().join("node.toml"), "node");
        write(&dir.path().join("allowed/pod.toml"), "pod");
        write(&dir.path().join("allowed/team/pod.toml"), "team");
        write(&dir.path().join("other/secret.toml"), "hunter2");
        (dir, settings)
    }

    fn chosen(settings: &Settings, annotation: Option<&str>) -> Result<Option<String>, String> {
        choose(settings, annotation)
            .map(|choice| choice.map(|choice| String::from_utf8(choice.text.to_vec()).unwrap()))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn annotation_beats_node_default_and_empty_means_none() {
        let (dir, mut settings) = node();
        let below = |path: &str| format!("{}/{path}", dir.path().display());
        assert_eq!(chosen(&settings, None).unwrap().unwrap(), "node");
        assert_eq!(chosen(&settings, Some("")).unwrap(), None);
        for (path, text) in [
            ("allowed/pod.toml", "pod"),
            ("allowed//./team/pod.toml", "team"),
        ] {
            assert_eq!(
                chosen(&settings, Some(&below(path))).unwrap().unwrap(),
                text
            );
        }
        settings.document = None;
        assert_eq!(chosen(&settings, None).unwrap(), None);
        settings.document = Some(below("n*e.toml").into());
        assert_eq!(chosen(&settings, None).unwrap().unwrap(), "node");
        settings.document = Some(below("absent.toml").into());
        assert!(chosen(&settings, None).unwrap_err().contains("absent.toml"));

        settings.missing_document = Some(puller_config::NodeError::new("late"));
        for path in ["absent.toml", "absent/node.toml", "abs*.toml"] {
            settings.document = Some(below(path).into());
            let said = chosen(&settings, None).unwrap().unwrap();
            assert_eq!(said, "node-error = \"late\"\n");
        }
        // A pod's own choice stays its own, and what is there must be right.
        let absent = below("allowed/absent.toml");
        assert!(chosen(&settings, Some(&absent)).is_err());
        settings.document = Some(below("*/*.toml").into());
        assert!(
            chosen(&settings, None)
                .unwrap_err()
                .contains("more than one")
        );
        settings.document = Some(below("other").into());
        assert!(
            chosen(&settings, None)
                .unwrap_err()
                .contains("not a regular file")
        );
    }

    #[test]
    fn paths_are_placed_below_the_longest_allowed_directory() {
        let allowed = ["/etc/a".into(), "/etc/a/team/".into(), "/srv".into()];
        let placed = |value| place(&allowed, value).map_err(|fault| fault.to_string());
        let ok = |directory, rest| Ok((Path::new(directory), Path::new(rest)));
        assert_eq!(placed("/etc/a/x.toml"), ok("/etc/a", "x.toml"));
        assert_eq!(placed("/etc/a/team/x.toml"), ok("/etc/a/team", "x.toml"));
        assert_eq!(placed("/etc/./a//x.toml"), ok("/etc/a", "x.toml"));
        let refused = [
            ("x.toml", "absolute"),
            ("[registries]\npassword = \"hunter2\"", "absolute"),
            ("/etc/a/x\n.toml", "control"),
            ("/etc/a/x\0.toml", "control"),
            ("/etc/a/../../secret", ".."),
            ("/etc/a/team/../x.toml", ".."),
            ("/etc/a", "not below"),
            ("/etc/a/", "not below"),
            ("/etc/ab/x.toml", "not below"),
            ("/etc", "not below"),
            ("/", "not below"),
        ];
        for (value, rule) in refused {
            let message = placed(value).unwrap_err();
            assert!(message.contains(rule), "{value:?}: {message}");
            assert!(!message.contains("hunter2"), "{message}");
        }
        let long = format!("/etc/a/{}", "x/".repeat(2048));
        assert!(placed(&long).unwrap_err().contains("longer than 4095"));
        assert!(
            place(&[], "/etc/a/x.toml").is_err(),
            "an empty list allows nothing"
        );
    }

    #[test]
    fn links_and_things_that_are_no_files_are_refused() {
        let (dir, settings) = node();
        let allowed = dir.path().join("allowed");
        symlink(
            dir.path().join("other/secret.toml"),
            allowed.join("link.toml"),
        )
        .unwrap();
        symlink("pod.toml", allowed.join("inner.toml")).unwrap();
        symlink(dir.path().join("other"), allowed.join("dir")).unwrap();
        symlink("/proc/self/root", allowed.join("magic")).unwrap();
        mknodat(CWD, allowed.join("fifo"), FileType::Fifo, Mode::RUSR, 0).unwrap();
        write(&allowed.join("writable.toml"), "x");
        std::fs::set_permissions(
            allowed.join("writable.toml"),
            PermissionsExt::from_mode(0o666),
        )
        .unwrap();
        write(
            &allowed.join("large.toml"),
            vec![b'#'; MAX_DOCUMENT_BYTES + 1],
        );
        write(&allowed.join("fits.toml"), vec![b'#'; MAX_DOCUMENT_BYTES]);
        let refused = [
            ("link.toml", "symbolic link"),
            ("inner.toml", "symbolic link"),
            ("dir/secret.toml", "symbolic link"),
            ("magic/etc/hostname", "symbolic link"),
            ("fifo", "not a regular file"),
            ("team", "not a regular file"),
            ("absent.toml", "No such file"),
            ("pod.toml/x", "Not a directory"),
            ("writable.toml", "mode 0666"),
            ("large.toml", "more than 1048576 bytes"),
        ];
        for (name, rule) in refused {
            let path = allowed.join(name);
            let message = chosen(&settings, path.to_str()).unwrap_err();
            assert!(message.contains(rule), "{name}: {message}");
            assert!(
                message.contains(crate::sandbox_spec::ANNOTATION),
                "{message}"
            );
            assert!(!message.contains("hunter2"), "{message}");
        }
        chosen(&settings, allowed.join("fits.toml").to_str()).unwrap();
    }

    #[test]
    fn privileged_devices_and_files_of_others_are_refused() {
        let (dir, settings) = node();
        let allowed = dir.path().join("allowed");
        let device = allowed.join("zero");
        if mknodat(
            CWD,
            &device,
            FileType::CharacterDevice,
            Mode::RUSR,
            rustix::fs::makedev(1, 5),
        )
        .is_err()
        {
            test_command::skip("making a device node needs root");
            return;
        }
        let message = chosen(&settings, device.to_str()).unwrap_err();
        assert!(message.contains("not a regular file"), "{message}");
        for path in [allowed.join("pod.toml"), dir.path().join("node.toml")] {
            chown(&path, Some(65534), None).unwrap();
        }
        for annotation in [allowed.join("pod.toml").to_str(), None] {
            let message = chosen(&settings, annotation).unwrap_err();
            assert!(message.contains("owner is uid 65534"), "{message}");
        }
    }

    /// While one thread exchanges a directory with a link to a forbidden place, no read may ever
    /// come from there.
    #[test]
    fn exchanging_a_directory_underneath_gains_nothing() {
        let (dir, settings) = node();
        let team = dir.path().join("allowed/team");
        let decoy = dir.path().join("allowed/decoy");
        write(&dir.path().join("other/pod.toml"), "hunter2");
        symlink(dir.path().join("other"), &decoy).unwrap();
        let annotation = team.join("pod.toml");
        let stop = AtomicBool::new(false);
        let (mut read, mut refused) = (0, 0);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !stop.load(Ordering::Relaxed) {
                    renameat_with(CWD, &team, CWD, &decoy, RenameFlags::EXCHANGE).unwrap();
                }
            });
            let mut secrets = 0;
            for _ in 0..20_000 {
                match chosen(&settings, annotation.to_str()) {
                    Ok(Some(text)) if text == "team" => read += 1,
                    Ok(_) => secrets += 1,
                    Err(_) => refused += 1,
                }
            }
            stop.store(true, Ordering::Relaxed);
            assert_eq!(secrets, 0);
        });
        assert!(read > 0 && refused > 0, "{read} read, {refused} refused");
    }
}

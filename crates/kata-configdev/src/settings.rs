//! The wrapper's own configuration file, written by the node's administrator.

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

use serde::Deserialize;

use crate::host_file::HostFile;
use crate::{Error, lines};

/// Where the settings are unless [`SETTINGS_VARIABLE`] names another file.
pub const DEFAULT_PATH: &str = "/etc/kata-configdev/config.toml";

/// The environment variable that names another settings file, for tests and unusual installations.
///
/// Whoever sets the environment of Kata's shim starts programs as root anyway.
pub const SETTINGS_VARIABLE: &str = "KATA_CONFIGDEV_CONFIG";

/// The longest settings file; far more than the three keys need. Free to change.
const MAX_SETTINGS_BYTES: usize = 64 << 10;

/// What the wrapper does for every sandbox of the node.
///
/// All paths are absolute, and those of [`Settings::annotation_allow`] have no `.` or `..` in them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// The real QEMU.
    pub qemu: PathBuf,
    /// The document of sandboxes that name none; `None` gives them no disk.
    pub document: Option<PathBuf>,
    /// Directories whose documents a pod may name. Empty: pods may name none.
    pub annotation_allow: Vec<PathBuf>,
}

/// The file as it stands, before its paths are checked.
#[derive(Deserialize)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
struct RawSettings {
    #[serde(default = "default_qemu")]
    qemu: PathBuf,
    document: Option<PathBuf>,
    #[serde(default)]
    annotation_allow: Vec<PathBuf>,
}

fn default_qemu() -> PathBuf {
    "/usr/bin/qemu-system-x86_64".into()
}

impl Settings {
    /// The path of the settings file: `variable`, the value of [`SETTINGS_VARIABLE`], or [`DEFAULT_PATH`].
    #[must_use]
    pub fn path(variable: Option<OsString>) -> PathBuf {
        variable
            .filter(|value| !value.is_empty())
            .map_or_else(|| DEFAULT_PATH.into(), PathBuf::from)
    }

    /// Reads the settings file. An empty file is valid; a missing one is not, because a node whose settings got lost
    /// would otherwise pull anonymously and nobody would know why.
    ///
    /// # Errors
    ///
    /// [`Error::SettingsFile`], [`Error::SettingsText`].
    pub fn load(path: &Path) -> Result<Self, Error> {
        let text = HostFile::open(path)
            .and_then(HostFile::require_administered)
            .and_then(|file| file.read(MAX_SETTINGS_BYTES))
            .map_err(|fault| Error::SettingsFile {
                path: path.into(),
                fault,
            })?;
        Self::parse(&text).map_err(|(line, rule)| Error::SettingsText {
            path: path.into(),
            line,
            rule,
        })
    }

    /// Parses the text of a settings file; the error is a line (0 where the rule concerns no single one) and the rule.
    fn parse(text: &[u8]) -> Result<Self, (usize, String)> {
        let text = str::from_utf8(text).map_err(|error| {
            (
                lines::line_of(text, error.valid_up_to()),
                "not UTF-8".into(),
            )
        })?;
        let raw: RawSettings = toml::from_str(text).map_err(|error| {
            let start = error.span().map_or(0, |span| span.start);
            let line = lines::line_of(text.as_bytes(), start);
            (line, error.message().to_owned())
        })?;
        require_absolute("qemu", &raw.qemu)?;
        if let Some(document) = &raw.document {
            require_absolute("document", document)?;
        }
        for directory in &raw.annotation_allow {
            require_absolute("annotation-allow", directory)?;
            if directory
                .components()
                .any(|part| part == Component::ParentDir)
            {
                return Err((0, "annotation-allow: a directory has \"..\" in it".into()));
            }
        }
        Ok(Self {
            qemu: raw.qemu,
            document: raw.document,
            annotation_allow: raw.annotation_allow,
        })
    }
}

fn require_absolute(key: &str, path: &Path) -> Result<(), (usize, String)> {
    if path.is_absolute() {
        Ok(())
    } else {
        Err((0, format!("{key}: not an absolute path")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_keys_and_their_defaults() {
        let all = "qemu = \"/opt/kata/bin/qemu\"\ndocument = \"/etc/d.toml\"\n\
                   annotation-allow = [\"/etc/a\", \"/etc/b/\"]\n";
        assert_eq!(
            Settings::parse(all.as_bytes()).unwrap(),
            Settings {
                qemu: "/opt/kata/bin/qemu".into(),
                document: Some("/etc/d.toml".into()),
                annotation_allow: vec!["/etc/a".into(), "/etc/b".into()],
            }
        );
        assert_eq!(
            Settings::parse(b"").unwrap(),
            Settings {
                qemu: "/usr/bin/qemu-system-x86_64".into(),
                document: None,
                annotation_allow: vec![],
            }
        );
    }

    #[test]
    fn mistakes_are_refused_with_their_line() {
        let cases: [(&[u8], usize, &str); 8] = [
            (b"\ndocumnet = \"/x\"\n", 2, "unknown field `documnet`"),
            (b"annotation_allow = []\n", 1, "unknown field"),
            (b"# x\nqemu = 7\n", 2, "invalid type"),
            (b"qemu = \"/a\"\nqemu = \"/b\"\n", 2, "duplicate key"),
            (
                b"qemu = \"qemu-system-x86_64\"\n",
                0,
                "qemu: not an absolute path",
            ),
            (b"document = \"\"\n", 0, "document: not an absolute path"),
            (
                b"annotation-allow = [\"/a/../b\"]\n",
                0,
                "annotation-allow: a directory has",
            ),
            (b"qemu = \"/a\"\n\xff\n", 2, "not UTF-8"),
        ];
        for (text, line, rule) in cases {
            let (found_line, found_rule) = Settings::parse(text).unwrap_err();
            let text = text.escape_ascii();
            assert_eq!(found_line, line, "{text}: {found_rule}");
            assert!(found_rule.contains(rule), "{text}: {found_rule}");
        }
    }

    #[test]
    fn the_variable_names_another_file() {
        assert_eq!(Settings::path(None), Path::new(DEFAULT_PATH));
        assert_eq!(Settings::path(Some("".into())), Path::new(DEFAULT_PATH));
        assert_eq!(Settings::path(Some("/x".into())), Path::new("/x"));
    }
}

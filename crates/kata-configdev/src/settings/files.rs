//! The texts of a settings file and of its drop-ins, each read once.

use std::ffi::OsString;
use std::fs::File;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

use linux_sys::rooted::Root;
use node_installer::administered;
use node_installer::rules::SettingsFile;
use rustix::fs::OFlags;
use zeroize::Zeroizing;

use crate::host_file::{FileError, FileFault, HostFile, require_administered};

/// The longest settings file; far more than the keys need. Free to change.
pub const MAX_SETTINGS_BYTES: usize = 64 << 10;

/// The name of the directory of drop-ins.
pub const DROP_INS: &str = "config.d";

/// The most entries of the directory that are looked at. Free to change; a node has a handful.
const MAX_ENTRIES: usize = 1024;

/// The text of one file.
pub type Text = Zeroizing<Vec<u8>>;

/// A settings file and its drop-ins in the order in which later ones win, each with its text or
/// with why it has none.
#[derive(Debug)]
pub struct Files {
    texts: Vec<(PathBuf, Result<Text, FileError>)>,
    /// What is in `config.d` and is no drop-in.
    pub others: Vec<PathBuf>,
}

impl Files {
    /// Reads the settings file `path` and every `*.toml` of the directory `config.d` beside it,
    /// sorted by name as bytes. No directory is as good as an empty one. Hidden files and other
    /// endings are left alone: editors and package managers put copies there.
    ///
    /// Whoever can write to the directory of the settings could replace them, so that such a one is
    /// refused, as `config.d` is.
    #[must_use]
    pub fn read(path: &Path) -> Self {
        Self::read_seen(path, |path| Ok(path.to_owned()))
    }

    /// [`Files::read`], of a node whose files and directories are `seen` at other paths than they
    /// have there.
    #[must_use]
    pub fn read_seen(path: &Path, seen: impl Fn(&Path) -> Result<PathBuf, FileFault>) -> Self {
        let main = seen(path).and_then(|seen| HostFile::open(&seen).and_then(read));
        let mut files = vec![at(path.to_owned(), main)];
        let mut others = Vec::new();
        let parent = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent,
            _ => Path::new("."),
        };
        let kept = seen(parent).map_or(Ok(()), |seen| require_kept(&seen));
        if let Err(fault) = kept {
            files.push(at(parent.to_owned(), Err(fault)));
        }
        let directory = parent.join(DROP_INS);
        match seen(&directory).and_then(|seen| names(&seen)) {
            Ok((root, names)) => {
                for name in names {
                    let path = directory.join(&name);
                    if is_drop_in(name.as_bytes()) {
                        let file = HostFile::open_beneath(&root, name.as_ref()).and_then(read);
                        files.push(at(path, file));
                    } else {
                        others.push(path);
                    }
                }
            }
            Err(fault) if fault.is_absent() => {}
            Err(fault) => files.push(at(directory, Err(fault))),
        }
        Self { texts: files, others }
    }

    /// Files that somebody else has read, in the same order.
    #[must_use]
    pub fn given(files: &[SettingsFile<'_>]) -> Self {
        let files = files.iter().map(|file| {
            let administered = file.metadata.as_ref().map(require_administered);
            let text = administered.transpose().map(|_| Zeroizing::new(file.text.to_vec()));
            at(file.path.clone(), text)
        });
        Self { texts: files.collect(), others: Vec::new() }
    }

    /// The files that can be read.
    pub fn readable(&self) -> impl Iterator<Item = (&Path, &Text)> {
        let files = self.texts.iter();
        files.filter_map(|(path, text)| Some((path.as_path(), text.as_ref().ok()?)))
    }
}

impl IntoIterator for Files {
    type Item = (PathBuf, Result<Text, FileError>);
    type IntoIter = std::vec::IntoIter<Self::Item>;

    fn into_iter(self) -> Self::IntoIter {
        self.texts.into_iter()
    }
}

/// Whether a file of `config.d` with this name is a drop-in.
#[must_use]
pub fn is_drop_in(name: &[u8]) -> bool {
    name.ends_with(b".toml") && !name.starts_with(b".")
}

/// Requires that nobody else can replace the files in a directory. That it is missing is told of
/// the file.
fn require_kept(directory: &Path) -> Result<(), FileFault> {
    match directory.metadata() {
        Ok(metadata) => Ok(administered::require_kept(&metadata)?),
        Err(_) => Ok(()),
    }
}

fn at(path: PathBuf, text: Result<Text, FileFault>) -> (PathBuf, Result<Text, FileError>) {
    let text = text.map_err(|fault| fault.at(&path));
    (path, text)
}

fn read(file: HostFile) -> Result<Text, FileFault> {
    file.require_administered()?.read(MAX_SETTINGS_BYTES)
}

/// The directory held open, and the sorted names of what is in it.
fn names(directory: &Path) -> Result<(Root, Vec<OsString>), FileFault> {
    let root = Root::open(directory)?;
    // The same directory that the files are opened in, whatever its path means by now.
    let opened = root.open_file(".", OFlags::RDONLY | OFlags::DIRECTORY)?;
    require_administered(&opened.metadata()?)?;
    let mut names = list(&opened)?;
    names.sort();
    Ok((root, names))
}

fn list(directory: &File) -> Result<Vec<OsString>, FileFault> {
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::read_from(directory)? {
        if names.len() == MAX_ENTRIES {
            return Err(FileFault::TooManyEntries(MAX_ENTRIES));
        }
        let name = entry?.file_name().to_bytes().to_owned();
        if name != b"." && name != b".." {
            names.push(OsString::from_vec(name));
        }
    }
    Ok(names)
}

//! The file system of a node, which may be below a directory: files are read and directories listed
//! as if that were `/`.

use std::fs::{File, Metadata};
use std::path::{Path, PathBuf};

use credential_sources::node_files::{NodeFiles, Unread};
use linux_sys::rooted::Root;
use rustix::fs::{Dir, FileType, OFlags};
use zeroize::Zeroizing;

use crate::host_file::{FileError, FileFault, HostFile};

/// The most entries of a directory that are looked at: four times as many registries as a document
/// has.
const MAX_ENTRIES: usize = 4096;

/// A directory that stands for `/`. Symbolic links are followed, but never out of it.
#[derive(Debug)]
pub struct NodeRoot {
    root: Root,
    /// Where it is; `None` for the file system as it is, whose relative paths are the caller's own.
    given: Option<PathBuf>,
}

/// An entry of a directory.
#[derive(Debug)]
pub struct Listed {
    /// Its name; what is not UTF-8 in it is replaced.
    pub name: String,
    /// Whether it is a directory, or a link to one.
    pub is_directory: bool,
}

impl NodeRoot {
    /// Opens `root`, or the file system as it is.
    ///
    /// # Errors
    ///
    /// [`FileError`].
    pub fn open(root: Option<&Path>) -> Result<Self, FileError> {
        let given = root.map(Path::to_owned);
        let path = root.unwrap_or(Path::new("/"));
        let root = Root::open(path).map_err(|error| FileFault::from(error).at(path))?;
        Ok(Self { root, given })
    }

    /// Where it is here.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.given.as_deref().unwrap_or(Path::new("/"))
    }

    /// Whether it is the machine that this runs on, so that processes and logs are the node's too.
    #[must_use]
    pub fn is_here(&self) -> bool {
        self.path() == Path::new("/")
    }

    /// Reads a regular file of at most `limit` bytes.
    ///
    /// # Errors
    ///
    /// [`FileFault`], as for all that follow.
    pub fn read(&self, path: &Path, limit: usize) -> Result<Zeroizing<Vec<u8>>, FileFault> {
        self.open_file(path)?.read(limit)
    }

    /// Opens a regular file.
    ///
    /// # Errors
    ///
    /// [`FileFault`].
    pub fn open_file(&self, path: &Path) -> Result<HostFile, FileFault> {
        HostFile::regular(self.resolve(path, HostFile::FLAGS)?)
    }

    /// What is at a path, which is not opened for reading.
    ///
    /// # Errors
    ///
    /// [`FileFault`].
    pub fn metadata(&self, path: &Path) -> Result<Metadata, FileFault> {
        Ok(self.resolve(path, OFlags::PATH)?.metadata()?)
    }

    /// Opens a directory, links followed, below which untrusted paths may be opened.
    ///
    /// # Errors
    ///
    /// [`FileFault`].
    pub fn directory(&self, path: &Path) -> Result<Root, FileFault> {
        Ok(self.root.directory(self.absolute(path)?)?)
    }

    /// Whether a directory is at `path`, links followed.
    #[must_use]
    pub fn has_directory(&self, path: &Path) -> bool {
        self.metadata(path).is_ok_and(|found| found.is_dir())
    }

    /// The path of the same file or directory without a link in it, as the node has it.
    ///
    /// # Errors
    ///
    /// [`FileFault`].
    pub fn real(&self, path: &Path) -> Result<PathBuf, FileFault> {
        Ok(match self.given {
            Some(_) => self.root.real(self.absolute(path)?)?,
            // Where there is no /proc, too.
            None => path.canonicalize()?,
        })
    }

    /// Where `path` is, links followed, as seen from here.
    ///
    /// # Errors
    ///
    /// [`FileFault`].
    pub fn seen(&self, path: &Path) -> Result<PathBuf, FileFault> {
        let real = self.real(path)?;
        Ok(self.path().join(real.strip_prefix("/").unwrap_or(&real)))
    }

    /// The path on the node of what is `seen` at a path here.
    #[must_use]
    pub fn of_node(&self, seen: &Path) -> PathBuf {
        let relative =
            self.prefixes().find_map(|prefix| Some(seen.strip_prefix(prefix).ok()?.to_owned()));
        relative.map_or_else(|| seen.to_owned(), |relative| Path::new("/").join(relative))
    }

    /// A message with the paths that the node has for what is seen here.
    #[must_use]
    pub fn told(&self, message: &str) -> String {
        let prefixes = self.prefixes().filter(|prefix| *prefix != Path::new("/"));
        prefixes.fold(message.to_owned(), |message, prefix| {
            message.replace(&format!("{}/", prefix.display()), "/")
        })
    }

    /// By which paths the root is reached here: the one that was given, and the one without links.
    fn prefixes(&self) -> impl Iterator<Item = PathBuf> {
        // Its parts again, without a slash at the end.
        let given = self.path().iter().collect();
        [given].into_iter().chain(self.root.location().ok())
    }

    /// The entries of a directory by name. Hidden ones are left out: a Kubernetes volume keeps its
    /// data in such.
    ///
    /// # Errors
    ///
    /// [`FileFault`].
    pub fn list(&self, path: &Path) -> Result<Vec<Listed>, FileFault> {
        let mut entries = self.list_all(path)?;
        entries.retain(|entry| !entry.name.starts_with('.'));
        Ok(entries)
    }

    /// The entries of a directory by name, but for itself and its parent.
    ///
    /// # Errors
    ///
    /// [`FileFault`].
    pub fn list_all(&self, path: &Path) -> Result<Vec<Listed>, FileFault> {
        let listed = |(name, kind)| {
            let is_directory = match kind {
                FileType::Directory => true,
                FileType::Symlink | FileType::Unknown => self.has_directory(&path.join(&name)),
                _ => false,
            };
            Listed { name, is_directory }
        };
        Ok(self.entries(path, MAX_ENTRIES)?.into_iter().map(listed).collect())
    }

    /// The names in a directory of at most `limit` entries, but for itself and its parent, sorted.
    ///
    /// # Errors
    ///
    /// [`FileFault`].
    pub fn names(&self, path: &Path, limit: usize) -> Result<Vec<String>, FileFault> {
        Ok(self.entries(path, limit)?.into_iter().map(|(name, _)| name).collect())
    }

    fn entries(&self, path: &Path, limit: usize) -> Result<Vec<(String, FileType)>, FileFault> {
        let directory = self.resolve(path, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let mut entries = Vec::new();
        for entry in Dir::new(directory)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name == "." || name == ".." {
                continue;
            }
            if entries.len() == limit {
                return Err(FileFault::TooManyEntries(limit));
            }
            entries.push((name, entry.file_type()));
        }
        entries.sort_by(|one, other| one.0.cmp(&other.0));
        Ok(entries)
    }

    /// The fault of a file or directory, with the path at which it was looked for.
    #[must_use]
    pub fn at(&self, path: &Path, fault: FileFault) -> FileError {
        match &self.given {
            Some(given) => fault.at(given.join(path.strip_prefix("/").unwrap_or(path))),
            None => fault.at(path),
        }
    }

    /// Whether nothing is at a path.
    #[must_use]
    pub fn is_missing(&self, path: &Path) -> bool {
        let found = self.resolve(path, OFlags::PATH);
        found.is_err_and(|fault| fault.is_absent())
    }

    /// A path as the node has it: absolute.
    ///
    /// # Errors
    ///
    /// Those of finding the working directory.
    pub fn absolute(&self, path: &Path) -> std::io::Result<PathBuf> {
        match self.given {
            Some(_) => Ok(Path::new("/").join(path)),
            None => std::path::absolute(path),
        }
    }

    fn resolve(&self, path: &Path, flags: OFlags) -> Result<File, FileFault> {
        Ok(self.root.follow(self.absolute(path)?, flags)?)
    }
}

impl NodeFiles for &NodeRoot {
    fn read(&mut self, path: &Path, limit: usize) -> Result<Zeroizing<Vec<u8>>, Unread> {
        NodeRoot::read(self, path, limit).map_err(|fault| match fault {
            FileFault::NotRegular => Unread::NotRegular,
            fault if fault.is_absent() => Unread::Absent,
            fault => Unread::Other(fault.to_string()),
        })
    }

    fn list(&mut self, directory: &Path) -> Vec<String> {
        self.names(directory, MAX_ENTRIES).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_path_is_told_as_the_node_has_it() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("real")).unwrap();
        symlink("real", dir.path().join("link")).unwrap();
        let given = dir.path().join("link/");
        let root = NodeRoot::open(Some(&given)).unwrap();
        for name in ["link", "real"] {
            let seen = dir.path().canonicalize().unwrap().join(name).join("etc/x");
            let told = root.told(&format!("failed to read {}: x", seen.display()));
            if name == "real" || dir.path().canonicalize().unwrap() == dir.path() {
                assert_eq!(root.of_node(&seen), Path::new("/etc/x"));
                assert_eq!(told, "failed to read /etc/x: x");
            }
        }
        let here = NodeRoot::open(Some(Path::new("/"))).unwrap();
        assert_eq!(here.of_node(Path::new("/etc/x")), Path::new("/etc/x"));
        assert_eq!(here.told("and/or /etc/x"), "and/or /etc/x");
    }

    #[test]
    fn links_stay_in_the_root() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        std::fs::create_dir_all(root.join("etc/certs.d/reg.corp")).unwrap();
        std::fs::write(dir.path().join("outside"), "outside").unwrap();
        std::fs::write(root.join("inside"), "inside").unwrap();
        symlink("/inside", root.join("etc/link")).unwrap();
        symlink("/etc/certs.d", root.join("linked")).unwrap();
        symlink("reg.corp", root.join("etc/certs.d/same.corp")).unwrap();
        symlink("/inside", root.join("etc/certs.d/file")).unwrap();
        symlink("../../../outside", root.join("etc/out")).unwrap();
        let root = NodeRoot::open(Some(&root)).unwrap();
        let read = |path: &str| root.read(Path::new(path), 100);
        for path in ["/inside", "inside", "/etc/link", "/../inside"] {
            assert_eq!(read(path).unwrap().as_slice(), b"inside", "{path}");
        }
        assert!(read("/etc/out").is_err());
        assert!(matches!(read("/etc"), Err(FileFault::NotRegular)));
        assert!(matches!(root.read(Path::new("/inside"), 5), Err(FileFault::TooLong(5))));
        let names: Vec<_> = root
            .list(Path::new("/linked"))
            .unwrap()
            .into_iter()
            .map(|entry| (entry.name, entry.is_directory))
            .collect();
        let expected = [("file", false), ("reg.corp", true), ("same.corp", true)];
        assert_eq!(names, expected.map(|(name, is)| (name.to_owned(), is)));
        assert!(root.is_missing(Path::new("/etc/none")) && !root.is_missing(Path::new("/linked")));
    }
}

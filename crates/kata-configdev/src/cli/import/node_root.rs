//! The file system of a node, which may be below a directory: files are read and directories listed
//! as if that were `/`.

use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::Path;

use foreign_text::bounded::read_file;
use linux_sys::rooted::open_scoped;
use rustix::fs::{Dir, FileType, Mode, OFlags, ResolveFlags, open};
use zeroize::Zeroizing;

use crate::cli::CommandError;
use crate::host_file::FileFault;

/// The most entries of a directory that are looked at: four times as many registries as a document
/// has.
const MAX_ENTRIES: usize = 4096;

/// A directory that stands for `/`. Symbolic links are followed, but never out of it.
#[derive(Debug)]
pub struct NodeRoot {
    directory: OwnedFd,
    /// Whether relative paths are the caller's own, not the node's.
    is_own: bool,
}

/// An entry of a directory.
#[derive(Debug)]
pub struct Listed {
    pub name: String,
    /// Whether it is a directory, or a link to one.
    pub is_directory: bool,
}

impl NodeRoot {
    /// Opens `root`, or the file system as it is.
    pub fn open(root: Option<&Path>) -> Result<Self, CommandError> {
        let path = root.unwrap_or(Path::new("/"));
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory =
            open(path, flags, Mode::empty()).map_err(|errno| FileFault::from(errno).at(path))?;
        Ok(Self {
            directory,
            is_own: root.is_none(),
        })
    }

    /// Reads a regular file of at most `limit` bytes.
    pub fn read(&self, path: &Path, limit: usize) -> Result<Zeroizing<Vec<u8>>, FileFault> {
        // A FIFO without a writer must not hang the caller.
        let file = File::from(self.resolve(path, OFlags::RDONLY | OFlags::NONBLOCK)?);
        Ok(read_file(file, limit)?)
    }

    /// The entries of a directory by name. Hidden ones are left out: a Kubernetes volume keeps its
    /// data in such.
    pub fn list(&self, path: &Path) -> Result<Vec<Listed>, FileFault> {
        let directory = self.resolve(path, OFlags::RDONLY | OFlags::DIRECTORY)?;
        let mut entries = Vec::new();
        for entry in Dir::new(directory)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if name.starts_with('.') {
                continue;
            }
            if entries.len() == MAX_ENTRIES {
                return Err(FileFault::TooManyEntries(MAX_ENTRIES));
            }
            let is_directory = match entry.file_type() {
                FileType::Directory => true,
                FileType::Symlink | FileType::Unknown => {
                    let flags = OFlags::PATH | OFlags::DIRECTORY;
                    self.resolve(&path.join(&name), flags).is_ok()
                }
                _ => false,
            };
            entries.push(Listed { name, is_directory });
        }
        entries.sort_by(|one, other| one.name.cmp(&other.name));
        Ok(entries)
    }

    fn resolve(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, FileFault> {
        let absolute;
        let path = if self.is_own && path.is_relative() {
            absolute = std::path::absolute(path)?;
            &absolute
        } else {
            path
        };
        let flags = flags | OFlags::NOCTTY;
        let resolve = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        Ok(open_scoped(&self.directory, path, flags, resolve)?)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn links_stay_in_the_root() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("root");
        std::fs::create_dir_all(root.join("etc/certs.d/reg.corp")).unwrap();
        std::fs::write(dir.path().join("outside"), "outside").unwrap();
        std::fs::write(root.join("inside"), "inside").unwrap();
        symlink("/inside", root.join("etc/link")).unwrap();
        symlink("/etc/certs.d", root.join("linked")).unwrap();
        symlink("../../../outside", root.join("etc/out")).unwrap();
        let root = NodeRoot::open(Some(&root)).unwrap();
        let read = |path: &str| root.read(Path::new(path), 100);
        for path in ["/inside", "inside", "/etc/link", "/../inside"] {
            assert_eq!(read(path).unwrap().as_slice(), b"inside", "{path}");
        }
        assert!(read("/etc/out").is_err());
        assert!(matches!(read("/etc"), Err(FileFault::NotRegular)));
        assert!(matches!(
            root.read(Path::new("/inside"), 5),
            Err(FileFault::TooLong(5))
        ));
        let names: Vec<_> = root
            .list(Path::new("/linked"))
            .unwrap()
            .into_iter()
            .map(|entry| (entry.name, entry.is_directory))
            .collect();
        assert_eq!(names, [("reg.corp".to_owned(), true)]);
    }
}

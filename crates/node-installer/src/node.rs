//! Directories and files of the node, none of them reached through a symbolic link.
//!
//! The administrator's paths are trusted, but what stands there may have been put there by others.
//! Every directory is opened beneath the mount point by the kernel ([`linux_sys::rooted`]), and
//! files are opened, replaced and removed by name in an open directory.

use std::fs::{File, Metadata};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use foreign_text::bounded::{if_there, read_file, read_in};
use foreign_text::hex;
use linux_sys::replace::{Keep, Staged};
use linux_sys::rooted::Root;
use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, fchmod, fsync, mkdirat, openat, statat, unlinkat,
};
use rustix::io::Errno;
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use crate::administered::require_kept;
use crate::limits::{MAX_KATA_ENTRIES, MAX_WRAPPER_BYTES};
use crate::{Error, HostPath};

/// The node's directories as they are mounted in the container.
#[derive(Debug)]
pub(crate) struct Node {
    root: Root,
    is_read_only: bool,
}

/// A directory of the node, held open.
#[derive(Debug)]
pub(crate) struct Directory {
    file: File,
    path: HostPath,
    is_read_only: bool,
}

/// What has a name in a directory.
pub(crate) enum DirectoryEntry {
    Absent,
    /// A link, a directory, a device, or more bytes than anything of ours has.
    Foreign,
    File(FileState),
}

/// What stands where a program should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Program {
    /// Something that can be executed.
    There,
    /// A link to something that is not seen from here, or nowhere.
    Link,
    /// Nothing.
    Absent,
    /// Something that cannot be executed.
    NotExecutable,
}

/// A regular file, as far as it matters whether it has to be written.
pub(crate) struct FileState {
    /// SHA-256 in hexadecimal.
    pub(crate) digest: String,
    pub(crate) mode: u32,
    pub(crate) uid: u32,
}

impl Node {
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let root = Root::open(path).map_err(|source| Error::Host { path: path.into(), source })?;
        Ok(Self { root, is_read_only: false })
    }

    /// The same node, on which everything that would be written, made or removed stays as it is.
    pub(crate) fn read_only(self) -> Self {
        Self { is_read_only: true, ..self }
    }

    pub(crate) fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// Opens a directory; `None` if it is not there.
    pub(crate) fn directory(&self, path: &HostPath) -> Result<Option<Directory>, Error> {
        self.walk(path, |_, _| Ok(()))
    }

    /// Opens a directory in which nobody but the administrator can exchange a file, as nobody can
    /// exchange it or one above it, up to the mount point; `None` if it is not there.
    pub(crate) fn administered_directory(
        &self,
        path: &HostPath,
    ) -> Result<Option<Directory>, Error> {
        let judge = |shown: &str, metadata: &Metadata| {
            require_kept(metadata)
                .map_err(|fault| Error::Untrusted { path: shown.to_owned(), fault })
        };
        let root = self.root.open_file(".", OFlags::RDONLY | OFlags::DIRECTORY);
        let root = root.and_then(|root| root.metadata());
        judge("/", &root.map_err(|source| failed("open", path, source))?)?;
        self.walk(path, |part, metadata| judge(part.as_str(), metadata))
    }

    fn walk(
        &self,
        path: &HostPath,
        judge: impl Fn(&HostPath, &Metadata) -> Result<(), Error>,
    ) -> Result<Option<Directory>, Error> {
        // The uppermost first, because only the directory that was mounted itself shows that it was
        // deleted since.
        let mut last = None;
        for part in path.chain() {
            let opened = self.root.open_file(part.relative(), OFlags::RDONLY | OFlags::DIRECTORY);
            let file = match opened {
                Ok(file) => file,
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(source) => return Err(failed("open", &part, source)),
            };
            let metadata = file.metadata().map_err(|source| failed("open", &part, source))?;
            if metadata.nlink() == 0 {
                return Err(Error::DirectoryDeleted { path: part });
            }
            judge(&part, &metadata)?;
            last = Some(Directory { file, path: part, is_read_only: self.is_read_only });
        }
        Ok(last)
    }

    /// Opens a directory after making it and those above it where they are not there; `made` is
    /// told which. `None` where that is not done because the node is read-only.
    pub(crate) fn make_directory(
        &self,
        path: &HostPath,
        mode: u32,
        made: &mut Vec<HostPath>,
    ) -> Result<Option<Directory>, Error> {
        if self.is_read_only {
            return self.directory(path);
        }
        for part in path.chain() {
            if self.directory(&part)?.is_some() {
                continue;
            }
            // Only the directory itself may need to be closed to others.
            let mode = if part == *path { mode } else { 0o755 };
            self.make_one(&part, mode)?;
            made.push(part);
        }
        let opened = self.directory(path)?;
        let is_gone = || failed("open", path, Errno::NOENT.into());
        opened.ok_or_else(is_gone).map(Some)
    }

    fn make_one(&self, path: &HostPath, mode: u32) -> Result<(), Error> {
        let make = || -> io::Result<()> {
            let (above, name) = path.split();
            let above = above.as_ref().map_or(Path::new("."), HostPath::relative);
            let flags = OFlags::RDONLY | OFlags::DIRECTORY;
            let above = self.root.open_file(above, flags)?;
            mkdirat(&above, name, Mode::from_raw_mode(mode))?;
            // The mode at creation passed the umask.
            let directory =
                openat(&above, name, flags | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?;
            Ok(fchmod(&directory, Mode::from_raw_mode(mode))?)
        };
        make().map_err(|source| failed("make the directory", path, source))
    }

    /// Looks at the program at `path`, as the node would find it: links are followed.
    pub(crate) fn program(&self, path: &HostPath) -> io::Result<Program> {
        let found = match self.root.follow(path.relative(), OFlags::PATH) {
            Ok(found) => found.metadata()?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let flags = OFlags::PATH | OFlags::NOFOLLOW;
                return Ok(match self.root.follow(path.relative(), flags) {
                    Ok(_) => Program::Link,
                    Err(_) => Program::Absent,
                });
            }
            Err(error) => return Err(error),
        };
        let is_executable = found.is_file() && found.permissions().mode() & 0o111 != 0;
        Ok(match is_executable {
            true => Program::There,
            false => Program::NotExecutable,
        })
    }

    /// Removes a directory if it is empty; says whether it is gone.
    pub(crate) fn remove_directory(&self, path: &HostPath) -> Result<bool, Error> {
        if self.is_read_only {
            return Ok(false);
        }
        let (above, name) = path.split();
        let above = above.as_ref().map_or(Path::new("."), HostPath::relative);
        let remove = || -> io::Result<()> {
            let above = self.root.open_file(above, OFlags::RDONLY | OFlags::DIRECTORY)?;
            Ok(unlinkat(&above, name, AtFlags::REMOVEDIR)?)
        };
        let Err(source) = remove() else {
            return Ok(true);
        };
        match source.raw_os_error().map(Errno::from_raw_os_error) {
            Some(Errno::NOENT) => Ok(true),
            // Others use it, or it is a mount point of the container.
            Some(Errno::NOTEMPTY | Errno::EXIST | Errno::BUSY | Errno::NOTDIR) => Ok(false),
            _ => Err(failed("remove the directory", path, source)),
        }
    }
}

impl Directory {
    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// What is in the directory: names, which must be UTF-8, and types, sorted by name.
    pub(crate) fn entries(&self) -> Result<Vec<(String, FileType)>, Error> {
        let list = || -> io::Result<Vec<(String, FileType)>> {
            let mut entries = Vec::new();
            for entry in Dir::read_from(&self.file)? {
                let entry = entry?;
                let name = entry.file_name();
                if [c".", c".."].contains(&name) {
                    continue;
                }
                if entries.len() == MAX_KATA_ENTRIES {
                    let rule = format!("it has more than {MAX_KATA_ENTRIES} entries");
                    return Err(io::Error::other(rule));
                }
                // Not every file system tells the type along with the name.
                let kind = match statat(&self.file, name, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(found) => FileType::from_raw_mode(found.st_mode),
                    Err(Errno::NOENT) => continue,
                    Err(errno) => return Err(errno.into()),
                };
                let name = name.to_str().map_err(io::Error::other)?;
                entries.push((name.to_owned(), kind));
            }
            entries.sort_by(|one, other| one.0.cmp(&other.0));
            Ok(entries)
        };
        list().map_err(|source| failed("list", &self.path, source))
    }

    /// Whether anything has the name `name`.
    pub(crate) fn has(&self, name: &str) -> Result<bool, Error> {
        match statat(&self.file, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(_) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(failed("look at", &self.path.join(name), errno.into())),
        }
    }

    /// Looks at what has the name `name`, without following a link.
    pub(crate) fn find(&self, name: &str) -> Result<DirectoryEntry, Error> {
        let find = || -> io::Result<DirectoryEntry> {
            let flags = OFlags::RDONLY
                | OFlags::NONBLOCK
                | OFlags::NOFOLLOW
                | OFlags::CLOEXEC
                | OFlags::NOCTTY;
            let file: File = match openat(&self.file, name, flags, Mode::empty()) {
                Ok(file) => file.into(),
                Err(Errno::NOENT) => return Ok(DirectoryEntry::Absent),
                // A symbolic link, or a socket.
                Err(Errno::LOOP | Errno::NXIO) => return Ok(DirectoryEntry::Foreign),
                Err(errno) => return Err(errno.into()),
            };
            let metadata = file.metadata()?;
            if !metadata.is_file() {
                return Ok(DirectoryEntry::Foreign);
            }
            let Some(digest) = digest_of(file)? else {
                return Ok(DirectoryEntry::Foreign);
            };
            Ok(DirectoryEntry::File(FileState {
                digest,
                mode: metadata.permissions().mode() & 0o7777,
                uid: metadata.uid(),
            }))
        };
        find().map_err(|source| failed("read", &self.path.join(name), source))
    }

    /// Reads the file `name` of at most `limit` bytes; `None` if it is not there.
    pub(crate) fn read(&self, name: &str, limit: usize) -> io::Result<Option<Zeroizing<Vec<u8>>>> {
        Ok(if_there(read_in(&self.file, name, limit))?)
    }

    /// Reads the file `name` of at most `limit` bytes, and who may write it; `None` if it is not
    /// there.
    pub(crate) fn read_file(
        &self,
        name: &str,
        limit: usize,
    ) -> io::Result<Option<(Zeroizing<Vec<u8>>, Metadata)>> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file: File = match openat(&self.file, name, flags, Mode::empty()) {
            Ok(file) => file.into(),
            Err(Errno::NOENT) => return Ok(None),
            Err(errno) => return Err(errno.into()),
        };
        let metadata = file.metadata()?;
        Ok(Some((read_file(file, limit)?, metadata)))
    }

    /// Gives `name` the content and the mode, entirely or not at all.
    ///
    /// The new file is written in `staging`, which must be on the same file system: Kata reads
    /// everything in `config.d`, so that nothing unfinished may appear there. Its name is always
    /// the same: the lock keeps others away, and a process that was killed leaves one file at most,
    /// which the next pass [removes](Directory::remove_unfinished).
    pub(crate) fn replace(
        &self,
        name: &str,
        staging: &Directory,
        content: &[u8],
        mode: u32,
    ) -> Result<(), Error> {
        if self.is_read_only {
            return Ok(());
        }
        let unfinished = unfinished_name(name);
        let replace = || {
            staging.remove_if_there(&unfinished)?;
            let keep = Keep::AcrossCrash;
            Staged::write(&staging.file, unfinished, content, mode, None, keep)?
                .take_name(&self.file, name)
        };
        replace().map_err(|source| failed("write", &self.path.join(name), source))
    }

    /// Removes the file `name`.
    pub(crate) fn remove(&self, name: &str) -> Result<(), Error> {
        let remove = || -> io::Result<()> {
            self.remove_if_there(name)?;
            Ok(fsync(&self.file)?)
        };
        remove().map_err(|source| failed("remove", &self.path.join(name), source))
    }

    /// Removes what a killed process may have left here of the file `name`: it can hold a secret.
    pub(crate) fn remove_unfinished(&self, name: &str) -> Result<(), Error> {
        let unfinished = unfinished_name(name);
        let remove = || -> io::Result<()> {
            if self.remove_if_there(&unfinished)? {
                fsync(&self.file)?;
            }
            Ok(())
        };
        remove().map_err(|source| failed("remove", &self.path.join(&unfinished), source))
    }

    /// Removes the file `name`; says whether it was there.
    fn remove_if_there(&self, name: &str) -> io::Result<bool> {
        if self.is_read_only {
            return Ok(false);
        }
        match unlinkat(&self.file, name, AtFlags::empty()) {
            Ok(()) => Ok(true),
            Err(Errno::NOENT) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }
}

/// Looks at the program at `path` of the node below `host`, as the node would find it.
///
/// # Errors
///
/// [`Error::Host`], [`Error::Node`].
pub fn program(host: &Path, path: &HostPath) -> Result<Program, Error> {
    let found = Node::open(host)?.program(path);
    found.map_err(|source| failed("look at", path, source))
}

/// The name of a file that is not finished.
pub(crate) fn unfinished_name(name: &str) -> String {
    format!(".{name}.unfinished")
}

/// The SHA-256 of a file in hexadecimal; `None` if it is larger than anything of ours.
fn digest_of(file: File) -> io::Result<Option<String>> {
    let mut hash = Sha256::new();
    let mut content = file.take(MAX_WRAPPER_BYTES as u64 + 1);
    let length = io::copy(&mut content, &mut Hashing(&mut hash))?;
    Ok((length <= MAX_WRAPPER_BYTES as u64).then(|| hex::encode(&hash.finalize())))
}

struct Hashing<'a>(&'a mut Sha256);

impl Write for Hashing<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The SHA-256 of `bytes` in hexadecimal.
pub(crate) fn digest(bytes: &[u8]) -> String {
    hex::encode(&Sha256::digest(bytes))
}

fn failed(action: &'static str, path: &HostPath, source: io::Error) -> Error {
    Error::Node { action, path: path.clone(), source }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    fn path(text: &str) -> HostPath {
        HostPath::parse(text).unwrap()
    }

    #[test]
    fn links_lead_nowhere() {
        let outside = tempfile::tempdir().unwrap();
        let host = tempfile::tempdir().unwrap();
        symlink(outside.path(), host.path().join("link")).unwrap();
        let node = Node::open(host.path()).unwrap();
        let error = node.make_directory(&path("/link/below"), 0o755, &mut vec![]).unwrap_err();
        assert!(matches!(error, Error::Node { .. }), "{error}");
        assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);

        let directory = node.make_directory(&path("/real"), 0o700, &mut vec![]).unwrap().unwrap();
        std::fs::write(outside.path().join("victim"), "untouched").unwrap();
        for name in ["file", ".file.unfinished"] {
            symlink(outside.path().join("victim"), host.path().join("real").join(name)).unwrap();
        }
        assert!(matches!(directory.find("file").unwrap(), DirectoryEntry::Foreign));
        directory.replace("file", &directory, b"new", 0o600).unwrap();
        assert_eq!(std::fs::read(outside.path().join("victim")).unwrap(), b"untouched");
        assert!(!host.path().join("real/file").is_symlink());
    }

    #[test]
    fn a_directory_in_use_stays() {
        let host = tempfile::tempdir().unwrap();
        let node = Node::open(host.path()).unwrap();
        let mut made = vec![];
        node.make_directory(&path("/a/b/c"), 0o700, &mut made).unwrap();
        assert_eq!(made, [path("/a"), path("/a/b"), path("/a/b/c")]);
        let mode = |of: &str| host.path().join(of).metadata().unwrap().mode() & 0o7777;
        assert_eq!((mode("a/b"), mode("a/b/c")), (0o755, 0o700));
        assert!(!node.remove_directory(&path("/a/b")).unwrap());
        for gone in ["/a/b/c", "/a/b", "/a", "/a"] {
            assert!(node.remove_directory(&path(gone)).unwrap());
        }
    }
}

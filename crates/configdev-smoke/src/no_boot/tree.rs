//! Files below the root of an image.

use std::fs::{File, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use foreign_text::bounded::{ReadError, read_file};
use linux_sys::rooted::open_scoped;
use rustix::fs::{Dir, OFlags, ResolveFlags, readlinkat};
use rustix::io::Errno;

/// The most names of a directory that are looked at.
const MAX_NAMES: usize = 4096;

/// A directory that is `/` for every link below it.
#[derive(Debug)]
pub struct Tree(File);

impl Tree {
    /// Opens the directory.
    ///
    /// # Errors
    ///
    /// Where it is none, or cannot be read.
    pub fn open(root: &Path) -> io::Result<Self> {
        let root = File::open(root)?;
        if !root.metadata()?.is_dir() {
            return Err(Errno::NOTDIR.into());
        }
        Ok(Self(root))
    }

    /// Opens what is at `path`, if there is something.
    ///
    /// # Errors
    ///
    /// Those of the kernel, such as for a link that leads to itself.
    fn at(&self, path: &str, flags: OFlags) -> io::Result<Option<File>> {
        let inside = ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS;
        let path = path.trim_start_matches('/');
        match open_scoped(&self.0, if path.is_empty() { "." } else { path }, flags, inside) {
            Ok(fd) => Ok(Some(File::from(fd))),
            Err(error) => match Errno::from_io_error(&error) {
                Some(Errno::NOENT | Errno::NOTDIR) => Ok(None),
                _ => Err(error),
            },
        }
    }

    /// What is there, if there is something, once links are followed.
    fn metadata(&self, path: &str) -> io::Result<Option<Metadata>> {
        self.at(path, OFlags::PATH)?.map(|file| file.metadata()).transpose()
    }

    /// Opens a regular file. Opening another one could do something.
    fn file(&self, path: &str) -> io::Result<Option<File>> {
        match self.metadata(path)? {
            Some(stat) if !stat.is_file() => Err(io::Error::other("not a regular file")),
            Some(_) => self.at(path, OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY),
            None => Ok(None),
        }
    }

    /// Whether it is a link to `/dev/null`, be that node in the image or not.
    pub(super) fn is_masked(&self, path: &str) -> bool {
        // Without following the last part, which the scope alone would do.
        let link = self.at(path, OFlags::PATH | OFlags::NOFOLLOW).ok().flatten();
        let target = link.and_then(|link| readlinkat(link, "", Vec::new()).ok());
        target.is_some_and(|target| target.to_bytes().ends_with(b"/dev/null"))
    }

    pub(super) fn has(&self, path: &str) -> bool {
        matches!(self.metadata(path), Ok(Some(_)))
    }

    pub(super) fn is_program(&self, path: &str) -> bool {
        let stat = self.metadata(path).ok().flatten();
        stat.is_some_and(|stat| stat.is_file() && stat.mode() & 0o111 != 0)
    }

    /// The content of a file, if there is one.
    pub(super) fn bytes(&self, path: &str, limit: usize) -> Result<Option<Vec<u8>>, ReadError> {
        let Some(file) = self.file(path)? else {
            return Ok(None);
        };
        Ok(Some(read_file(file, limit)?.to_vec()))
    }

    /// The names in a directory, sorted; none where there is none.
    pub(super) fn names(&self, path: &str) -> Vec<String> {
        let directory = self.at(path, OFlags::RDONLY | OFlags::DIRECTORY);
        let entries = directory.ok().flatten().and_then(|file| Dir::new(file).ok());
        let names = entries.into_iter().flatten().filter_map(|entry| {
            let name = entry.ok()?.file_name().to_str().ok()?.to_owned();
            (!name.starts_with('.')).then_some(name)
        });
        let mut names: Vec<_> = names.take(MAX_NAMES).collect();
        names.sort_unstable();
        names
    }
}

//! Files below the root of an image.

use std::fs::{File, Metadata};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use foreign_text::bounded::{ReadError, read_file};
use linux_sys::rooted::open_scoped;
use rustix::fs::{Dir, OFlags, ResolveFlags, readlinkat};
use rustix::io::Errno;
use zeroize::Zeroizing;

/// The most names of a directory that are looked at.
const MAX_NAMES: usize = 4096;

/// How much of a program is looked at at a time, and how much of it once more with the next part.
const STEP_BYTES: usize = 1 << 20;
const OVERLAP_BYTES: usize = 128;

/// The longest program that is searched; an agent has some 60 MiB.
const MAX_PROGRAM_BYTES: u64 = 1 << 30;

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
    pub fn at(&self, path: &str, flags: OFlags) -> io::Result<Option<File>> {
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
    pub(super) fn text(
        &self,
        path: &str,
        limit: usize,
    ) -> Result<Option<Zeroizing<Vec<u8>>>, ReadError> {
        self.file(path)?.map(|file| read_file(file, limit)).transpose()
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

    /// Which of `words` a program has in it; `None` where there is no program.
    pub(super) fn words<const N: usize>(
        &self,
        path: &str,
        words: [&str; N],
    ) -> io::Result<Option<[bool; N]>> {
        let Some(file) = self.file(path)? else {
            return Ok(None);
        };
        let mut file = file.take(MAX_PROGRAM_BYTES);
        let mut found = [false; N];
        let mut part = Vec::with_capacity(STEP_BYTES + OVERLAP_BYTES);
        while (&mut file).take(STEP_BYTES as u64).read_to_end(&mut part)? > 0 {
            for (found, word) in found.iter_mut().zip(words) {
                *found |= part.windows(word.len()).any(|at| at == word.as_bytes());
            }
            part.drain(..part.len().saturating_sub(OVERLAP_BYTES));
        }
        Ok(Some(found))
    }
}

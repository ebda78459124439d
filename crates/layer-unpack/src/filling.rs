//! The second half of making regular files: content, owner, mode, attributes and time.
//!
//! Making files is the longest part of a layer with many of them, so it is divided. The thread that
//! reads the archive makes everything that has a name, in the order of the archive, and opens each
//! regular file as it makes it. What is left to do goes here, in a thread of its own where a layer
//! is worth one. An open file is the same file whatever later entries do to its name: replace it,
//! link it, remove the directory around it. So no entry waits for another one, and paths are
//! resolved in one place.

use std::fs::File;
use std::io::{self, Seek as _, SeekFrom, Write as _};
use std::sync::mpsc::SyncSender;

use bytes::Bytes;
use rustix::fs::{Mode, fchmod, fchown, futimens};

use super::archive::Entry;
use super::archive_error::ArchiveError;
use super::attributes;
use super::chunks::Share;
use super::creation::{Created, Owner};
use super::pax::{Time, Xattr};
use super::unpack_error::{SET_ATTRIBUTE, UnpackError, failed_at, shown_part};

/// The most steps in a batch. Each may hold a file open and some bytes of a buffer.
const MAX_STEPS: usize = 128;

/// How many batches may wait for the other thread. One more is made and one is worked on. Files
/// that take long to name and those that take long to fill follow each other in runs, and with
/// fewer one of the threads waits for the other. More would hold more files open. The pipeline's
/// buffers bound their bytes.
pub(crate) const BATCHES: usize = 4;

/// From which size of its content on a file is filled by the thread that made it: for large ones
/// the bytes count, and handing them over costs more than it wins.
const LARGE_BYTES: u64 = 64 << 10;

/// Something to be done, to the file that was begun last.
enum Step {
    /// A new file, and how many bytes its path has in the batch.
    Begin(File, usize),
    /// Goes on there; what lies between is a hole.
    Seek(u64),
    Write(Bytes),
    End(Ending),
}

/// What a file gets when its content is complete, as far as it does not have it.
struct Ending {
    size: Option<u64>,
    owner: Option<Owner>,
    mode: Option<Mode>,
    xattrs: Vec<Xattr>,
    mtime: Time,
}

/// Does what is to be done.
#[derive(Debug, Default)]
pub(crate) struct Filler {
    file: Option<File>,
    /// What it is called in messages.
    path: Vec<u8>,
    skipped_xattrs: u64,
}

impl Filler {
    /// Does everything that comes.
    ///
    /// # Errors
    ///
    /// [`UnpackError`] of the first entry that fails; nothing more is taken then.
    pub(crate) fn run(
        mut self,
        batches: impl IntoIterator<Item = Batch>,
    ) -> Result<(), UnpackError> {
        let done = batches.into_iter().try_for_each(|batch| self.take(batch.steps, &batch.paths));
        self.tell();
        done
    }

    fn take(
        &mut self,
        steps: impl IntoIterator<Item = Step>,
        mut paths: &[u8],
    ) -> Result<(), UnpackError> {
        for step in steps {
            match step {
                Step::Begin(file, path_bytes) => {
                    let (path, others) = paths.split_at(path_bytes);
                    self.path.clear();
                    self.path.extend_from_slice(path);
                    paths = others;
                    self.file = Some(file);
                    Ok(())
                }
                Step::Seek(offset) => self.write(|file| file.seek(SeekFrom::Start(offset))),
                Step::Write(piece) => self.write(|file| file.write_all(&piece)),
                Step::End(ending) => self.end(ending),
            }?;
        }
        Ok(())
    }

    fn write<T>(
        &mut self,
        write: impl FnOnce(&mut File) -> io::Result<T>,
    ) -> Result<(), UnpackError> {
        #[cfg(test)]
        tests::may_fill(&self.path);
        let written = self.file.as_mut().map(write).transpose();
        written.map(drop).map_err(failed_at("write", &self.path))
    }

    /// Owner first, for it clears set-uid and capabilities, as writing does; then the mode and the
    /// attributes; and then the time.
    fn end(&mut self, ending: Ending) -> Result<(), UnpackError> {
        let path = &self.path;
        let Some(file) = &self.file.take() else {
            return Ok(());
        };
        if let Some(size) = ending.size {
            file.set_len(size).map_err(failed_at("write", path))?;
        }
        if let Some((uid, gid)) = ending.owner {
            fchown(file, uid, gid).map_err(failed_at("set the owner of", path))?;
        }
        if let Some(mode) = ending.mode {
            fchmod(file, mode).map_err(failed_at("set the mode of", path))?;
        }
        let skipped = attributes::set(file, &ending.xattrs);
        self.skipped_xattrs += skipped.map_err(failed_at(SET_ATTRIBUTE, path))?;
        let times = ending.mtime.timestamps();
        futimens(file, &times).map_err(failed_at("set the time of", path))
    }

    fn tell(&self) {
        attributes::tell_skipped(self.skipped_xattrs);
    }
}

/// Where the steps go.
pub(crate) enum Files {
    /// They are done at once.
    Here(Filler),
    /// To the thread that has the other end.
    There(Batches),
}

/// What is handed over at once. All of it is made of few allocations: each is given back by another
/// thread than had it, which is slow.
pub(crate) struct Batch {
    steps: Vec<Step>,
    /// Of the files that are begun in it.
    paths: Vec<u8>,
}

/// Steps on their way to another thread, which is not woken for each of them.
pub(crate) struct Batches {
    next: SyncSender<Batch>,
    batch: Batch,
    /// The chunk that the bytes in the batch are of.
    chunk: u64,
    /// For large files, one of which may be in work.
    large: Filler,
    is_large: bool,
}

impl Files {
    pub(crate) fn there(next: SyncSender<Batch>) -> Self {
        Self::There(Batches {
            next,
            batch: Batch::new(),
            chunk: 0,
            large: Filler::default(),
            is_large: false,
        })
    }

    /// Gives a new file what its entry says and the content that comes next.
    ///
    /// # Errors
    ///
    /// What is wrong with the content. If the other thread ended early, an error of no meaning: the
    /// reason is that thread's.
    pub(crate) fn fill(
        &mut self,
        created: Created,
        mut entry: Entry,
        content: &mut impl Share,
    ) -> Result<(), UnpackError> {
        if let Self::There(batches) = self {
            batches.is_large = entry.stored >= LARGE_BYTES;
        }
        let path = shown_part(&entry.path);
        let begin = Step::Begin(created.file, path.len());
        self.push(begin, path, content.chunk())?;
        match &entry.holes {
            None => self.copy(&entry, content, u64::MAX)?,
            Some(sparse) => {
                for region in sparse.regions() {
                    self.push(Step::Seek(region.offset), b"", content.chunk())?;
                    self.copy(&entry, content, region.length)?;
                }
            }
        }
        let ending = Ending {
            size: entry.holes.as_ref().map(|sparse| sparse.size()),
            owner: created.owner,
            mode: created.mode,
            xattrs: std::mem::take(&mut entry.xattrs),
            mtime: entry.mtime,
        };
        self.push(Step::End(ending), b"", content.chunk())
    }

    /// Hands the content over in the buffers that it came in.
    fn copy(
        &mut self,
        entry: &Entry,
        content: &mut impl Share,
        length: u64,
    ) -> Result<(), UnpackError> {
        let mut left = length;
        while left > 0 {
            let piece = content.share(usize::try_from(left).unwrap_or(usize::MAX));
            let piece =
                piece.map_err(|error| ArchiveError::read(error).of(entry.number, &entry.path))?;
            if piece.is_empty() {
                break;
            }
            left -= piece.len() as u64;
            self.push(Step::Write(piece), b"", content.chunk())?;
        }
        Ok(())
    }

    fn push(&mut self, step: Step, path: &[u8], chunk: u64) -> Result<(), UnpackError> {
        match self {
            Self::Here(filler) => filler.take([step], path),
            Self::There(batches) if batches.is_large => batches.large.take([step], path),
            Self::There(batches) => batches.push(step, path, chunk),
        }
    }

    /// Hands over what is left. The other thread may still be at work then.
    ///
    /// # Errors
    ///
    /// As of [`Files::fill`].
    pub(crate) fn finish(&mut self) -> Result<(), UnpackError> {
        match self {
            Self::Here(filler) => filler.tell(),
            Self::There(batches) => {
                batches.large.tell();
                batches.flush()?;
            }
        }
        Ok(())
    }
}

impl Batch {
    fn new() -> Self {
        Self { steps: Vec::with_capacity(MAX_STEPS), paths: Vec::new() }
    }
}

impl Batches {
    /// A batch has bytes of one chunk only. The buffers of chunks are counted: a batch that kept
    /// all of them while it waits for the next chunk would wait for ever.
    fn push(&mut self, step: Step, path: &[u8], chunk: u64) -> Result<(), UnpackError> {
        if self.chunk != chunk || self.batch.steps.len() == MAX_STEPS {
            self.flush()?;
            self.chunk = chunk;
        }
        self.batch.steps.push(step);
        self.batch.paths.extend_from_slice(path);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), UnpackError> {
        if self.batch.steps.is_empty() {
            return Ok(());
        }
        let batch = std::mem::replace(&mut self.batch, Batch::new());
        self.next.send(batch).map_err(|_| {
            let error = io::Error::other("the thread that fills files ended");
            ArchiveError::Read(error).into()
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    /// The name of a file that ends the thread that fills it.
    pub(crate) const PANIC: &[u8] = b"panic";

    pub(super) fn may_fill(path: &[u8]) {
        assert!(path != PANIC, "the file broke");
    }
}

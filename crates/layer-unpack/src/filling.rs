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
use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use bytes::Bytes;
use rustix::fs::futimens;

use super::archive::Entry;
use super::archive_error::ArchiveError;
use super::attributes;
use super::chunks::Share;
use super::creation::Created;
use super::unpack_error::{SET_ATTRIBUTE, UnpackError, failed};

/// The most steps in a batch. Each may hold a file open and some bytes of a buffer.
const MAX_STEPS: usize = 64;

/// How many batches may wait for the other thread. One more is made and one is worked on.
pub(crate) const BATCHES: usize = 2;

/// Something that is to be done to a file. Of one file they come in order.
pub(crate) struct Step {
    file: Arc<(Created, Entry)>,
    action: Action,
}

enum Action {
    /// Goes on there; what lies between is a hole.
    Seek(u64),
    Write(Bytes),
    /// The content is complete.
    End,
}

/// Does what is to be done.
#[derive(Debug, Default)]
pub(crate) struct Filler {
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
        batches: impl IntoIterator<Item = Vec<Step>>,
    ) -> Result<(), UnpackError> {
        let mut steps = batches.into_iter().flatten();
        let done = steps.try_for_each(|step| self.act(step));
        self.tell();
        done
    }

    fn act(&mut self, step: Step) -> Result<(), UnpackError> {
        let (created, entry) = &*step.file;
        #[cfg(test)]
        tests::may_fill(entry);
        let mut file: &File = &created.file;
        match step.action {
            Action::Seek(offset) => file.seek(SeekFrom::Start(offset)).map(drop),
            Action::Write(piece) => file.write_all(&piece),
            Action::End => return self.end(created, entry),
        }
        .map_err(failed("write", entry))
    }

    /// Attributes after the owner, whose change would remove them, and then the time.
    fn end(&mut self, created: &Created, entry: &Entry) -> Result<(), UnpackError> {
        if let Some(sparse) = &entry.holes {
            let size = created.file.set_len(sparse.size());
            size.map_err(failed("write", entry))?;
        }
        created.set_owner_and_mode(entry)?;
        if !entry.xattrs.is_empty() {
            let set = attributes::set(&created.file, entry);
            self.skipped_xattrs += set.map_err(failed(SET_ATTRIBUTE, entry))?;
        }
        let times = entry.mtime.timestamps();
        futimens(&created.file, &times).map_err(failed("set the time of", entry))
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

/// Steps on their way to another thread, which is not woken for each of them.
pub(crate) struct Batches {
    next: SyncSender<Vec<Step>>,
    batch: Vec<Step>,
    /// The chunk that the bytes in the batch are of.
    chunk: u64,
}

impl Files {
    pub(crate) fn there(next: SyncSender<Vec<Step>>) -> Self {
        Self::There(Batches {
            next,
            batch: Vec::with_capacity(MAX_STEPS),
            chunk: 0,
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
        entry: Entry,
        content: &mut impl Share,
    ) -> Result<(), UnpackError> {
        let file = Arc::new((created, entry));
        match &file.1.holes {
            None => self.copy(&file, content, u64::MAX)?,
            Some(sparse) => {
                for region in sparse.regions() {
                    let seek = Action::Seek(region.offset);
                    self.push(&file, seek, content.chunk())?;
                    self.copy(&file, content, region.length)?;
                }
            }
        }
        self.push(&file, Action::End, content.chunk())
    }

    /// Hands the content over in the buffers that it came in.
    fn copy(
        &mut self,
        file: &Arc<(Created, Entry)>,
        content: &mut impl Share,
        length: u64,
    ) -> Result<(), UnpackError> {
        let mut left = length;
        while left > 0 {
            let piece = content.share(usize::try_from(left).unwrap_or(usize::MAX));
            let piece = piece.map_err(|error| {
                let entry = &file.1;
                ArchiveError::read(error).of(entry.number, &entry.path)
            })?;
            if piece.is_empty() {
                break;
            }
            left -= piece.len() as u64;
            self.push(file, Action::Write(piece), content.chunk())?;
        }
        Ok(())
    }

    fn push(
        &mut self,
        file: &Arc<(Created, Entry)>,
        action: Action,
        chunk: u64,
    ) -> Result<(), UnpackError> {
        let file = file.clone();
        let step = Step { file, action };
        match self {
            Self::Here(filler) => filler.act(step),
            Self::There(batches) => batches.push(step, chunk),
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
            Self::There(batches) => batches.flush()?,
        }
        Ok(())
    }
}

impl Batches {
    /// A batch has bytes of one chunk only. The buffers of chunks are counted: a batch that kept
    /// all of them while it waits for the next chunk would wait for ever.
    fn push(&mut self, step: Step, chunk: u64) -> Result<(), UnpackError> {
        if self.chunk != chunk || self.batch.len() == MAX_STEPS {
            self.flush()?;
            self.chunk = chunk;
        }
        self.batch.push(step);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), UnpackError> {
        if self.batch.is_empty() {
            return Ok(());
        }
        let next = Vec::with_capacity(MAX_STEPS);
        let batch = std::mem::replace(&mut self.batch, next);
        self.next.send(batch).map_err(|_| {
            let error = io::Error::other("the thread that fills files ended");
            ArchiveError::Read(error).into()
        })
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The name of a file that ends the thread that fills it.
    pub(crate) const PANIC: &[u8] = b"panic";

    pub(super) fn may_fill(entry: &Entry) {
        assert!(entry.path != PANIC, "the file broke");
    }
}

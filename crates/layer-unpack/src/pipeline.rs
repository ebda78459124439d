//! The threads of one layer, so that two cores are busy with one stream.
//!
//! ```text
//! source -> [receive, hash blob] -> batches -> [inflate] -+-> shared buffers -> [hash plain bytes]
//!                                                         +-> shared buffers -> [unpack]
//! ```
//!
//! A layer of more than a few files has one thread more, behind that which unpacks:
//!
//! ```text
//! [unpack: names, links, open files] -> batches -> [fill: content, owners, times]
//! ```
//!
//! An encrypted layer has one thread more, before the decoder:
//!
//! ```text
//! batches -> [HMAC, decrypt] -> shared buffers -> [inflate] ...
//! ```
//!
//! Every queue is bounded. A stage that fails goes away instead of waiting, and the stages before
//! it notice when they hand over the next piece, so no input makes two stages wait for each other.
//! No thread outlives the call. A panic in a thread goes on in the caller.

use std::io;
use std::mem;
use std::os::fd::{AsFd as _, OwnedFd};
use std::panic::resume_unwind;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::{self, Builder, Scope, ScopedJoinHandle};

use bytes::Bytes;
use inflate::HISTORY_BYTES;
use keys::{Forged, LayerKey};
use oci_image::digest::{Digest, Hasher};

use super::archive_error::ArchiveError;
use super::blob::{Blob, Expected};
use super::caller::{self, CallerWatch};
use super::chunks::Chunks;
use super::filling::{self, Files, Filler};
use super::pool::Pool;
use super::unpack::{self, Contents};
use super::unpack_error::UnpackError;
use super::{LayerError, Limits, Unpacked, compression, confinement, decryption};

/// How many batches of received bytes may wait for the decoder. Twice as many cost a megabyte in
/// each layer and win nothing.
const BATCHES: usize = 2;

/// How much is inflated at once, with the history before it. An eighth of it costs a tenth of the
/// speed, in waking the next thread. Large enough to be a mapping of its own (`linux-sys`, `heap`).
const BUFFER_BYTES: usize = HISTORY_BYTES + (448 << 10);

/// How many inflated buffers there are.
const BUFFERS: usize = 4;

/// Runs the stages until the last byte or the first error.
pub(crate) fn run(
    limits: &Limits,
    source: impl Iterator<Item = Bytes>,
    expected: &Expected,
    key: Option<&LayerKey>,
    diff_id: &Digest,
    root: OwnedFd,
    caller: &CallerWatch,
) -> Result<Unpacked, LayerError> {
    let mut blob = Blob::new(expected);
    // Here rather than in its thread, which may not look at the machine any more.
    let decryptor = key.map(LayerKey::decryptor).transpose();
    let decryptor = decryptor.map_err(LayerError::Decryption)?;
    let ended = thread::scope(|scope| {
        let (next, batches) = sync_channel::<Vec<Bytes>>(BATCHES);
        let (to_hash, hashed) = sync_channel::<Bytes>(BUFFERS);
        let (to_unpack, unpacked) = sync_channel::<Bytes>(BUFFERS);
        let hasher = diff_id.hasher();
        // Where a later one cannot be made, the earlier ones end with their channels.
        let hash = start(scope, move || {
            confinement::computing();
            hash(hasher, hashed)
        })?;
        let mut fill = None;
        let mut files = Files::Here(Filler::default());
        if expected.size >= limits.filled_apart_bytes {
            let (to_fill, filled) = sync_channel(filling::BATCHES);
            files = Files::there(to_fill);
            fill = Some(start(scope, move || {
                confinement::filling();
                Filler::default().run(filled)
            })?);
        }
        let unpack = start(scope, move || {
            confinement::unpacking(root.as_fd());
            let mut plain = Chunks::new(unpacked);
            unpack(&mut plain, root, limits.entries, files, caller)
        })?;
        let batches = batches.into_iter().flatten();
        let mut received: Box<dyn Iterator<Item = Bytes> + Send> = Box::new(batches);
        let mut decrypt = None;
        if let Some(decryptor) = decryptor {
            let (to_inflate, decrypted) = sync_channel(decryption::BUFFERS);
            let batches = mem::replace(&mut received, Box::new(decrypted.into_iter()));
            decrypt = Some(start(scope, move || {
                confinement::computing();
                decryption::decrypt(decryptor, batches, to_inflate)
            })?);
        }
        let inflate = start(scope, move || {
            confinement::computing();
            let source = Chunks::new(received);
            inflate(source, limits.plain_bytes, caller, [to_hash, to_unpack])
        })?;
        blob.receive(source, next, caller);
        Ok::<_, LayerError>(Outcomes {
            decrypted: decrypt.map_or(Ok(()), join),
            inflated: join(inflate),
            contents: first_error(join(unpack), fill.map(join)),
            plain: join(hash),
        })
    })?;
    ended.judge(blob, diff_id, caller)
}

/// What came of the stages behind the blob.
struct Outcomes {
    decrypted: Result<(), Forged>,
    inflated: io::Result<()>,
    contents: Result<Contents, UnpackError>,
    plain: (Digest, u64),
}

impl Outcomes {
    /// Several stages may have failed, most of them because of another one. The blob is judged
    /// first, then its decryption: forged bytes may fill any store, and say nothing about the room
    /// that the layer needs.
    fn judge(
        self,
        blob: Blob<'_>,
        diff_id: &Digest,
        caller: &CallerWatch,
    ) -> Result<Unpacked, LayerError> {
        let (contents, (digest, plain_bytes)) = (self.contents, self.plain);
        if caller.is_gone() {
            return Err(match contents {
                Err(error) if error.is_no_space() => error.into(),
                _ => LayerError::GivenUp,
            });
        }
        blob.finish().map_err(LayerError::Blob)?;
        self.decrypted.map_err(LayerError::Decryption)?;
        self.inflated.map_err(LayerError::Compression)?;
        let contents = contents?;
        diff_id.check(digest, plain_bytes).map_err(LayerError::DiffId)?;
        Ok(Unpacked {
            entries: contents.entries,
            plain_bytes,
            hides: contents.hides,
            implied: contents.implied,
        })
    }
}

/// Inflates until the end, or until no stage takes more.
fn inflate(
    source: Chunks<impl Iterator<Item = Bytes>>,
    max_bytes: u64,
    caller: &CallerWatch,
    outputs: [SyncSender<Bytes>; 2],
) -> io::Result<()> {
    let mut stream = compression::decode(source)?;
    let mut pool = Pool::new(BUFFERS, BUFFER_BYTES);
    let mut bytes = 0;
    loop {
        // A few bytes of a blob may become gigabytes here, so this is where the work is ended.
        if caller.is_gone() {
            return Err(caller::gone());
        }
        let mut buffer = pool.take();
        let filled = stream.fill(&mut buffer)?;
        if filled.is_empty() {
            return Ok(());
        }
        bytes += filled.len() as u64;
        if bytes > max_bytes {
            let limit = format!("more than {max_bytes} bytes come out of it");
            return Err(io::Error::other(limit));
        }
        let shared = pool.share(buffer, filled);
        let is_wanted = outputs.iter().all(|output| output.send(shared.clone()).is_ok());
        if !is_wanted {
            return Ok(());
        }
    }
}

fn hash(mut hasher: Hasher, chunks: impl IntoIterator<Item = Bytes>) -> (Digest, u64) {
    let mut bytes = 0;
    for chunk in chunks {
        hasher.update(&chunk);
        bytes += chunk.len() as u64;
    }
    (hasher.finish(), bytes)
}

fn unpack(
    plain: &mut Chunks<impl Iterator<Item = Bytes>>,
    root: OwnedFd,
    max_entries: u64,
    files: Files,
    caller: &CallerWatch,
) -> Result<Contents, UnpackError> {
    let contents = unpack::unpack(plain, root, max_entries, files, caller)?;
    // What follows the end of the archive belongs to the digest, and leaving now would end the
    // stages before.
    io::copy(plain, &mut io::sink()).map_err(ArchiveError::read)?;
    Ok(contents)
}

/// What the second of the two threads that make files met belongs to an earlier entry than what the
/// first met, or is the reason for that.
fn first_error(
    made: Result<Contents, UnpackError>,
    filled: Option<Result<(), UnpackError>>,
) -> Result<Contents, UnpackError> {
    filled.unwrap_or(Ok(())).and(made)
}

fn start<'scope, T: Send + 'scope>(
    scope: &'scope Scope<'scope, '_>,
    work: impl FnOnce() -> T + Send + 'scope,
) -> Result<ScopedJoinHandle<'scope, T>, LayerError> {
    #[cfg(test)]
    tests::may_start().map_err(LayerError::Thread)?;
    let started = Builder::new().spawn_scoped(scope, work);
    started.map_err(LayerError::Thread)
}

fn join<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}

#[cfg(test)]
pub(crate) mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::caller::CallerGuard;

    thread_local! {
        /// How many threads may still be started from this one: a filter of system calls refuses
        /// all of them, not the third.
        static STARTS: Cell<u32> = const { Cell::new(u32::MAX) };
    }

    /// Works where no more than that many threads can be started, and says how many of them are
    /// left.
    pub(crate) fn with_starts<T: Send>(starts: u32, work: impl FnOnce() -> T + Send) -> (T, u32) {
        let limited = || {
            STARTS.set(starts);
            (work(), STARTS.get())
        };
        // Other tests may run in this thread.
        thread::scope(|scope| scope.spawn(limited).join()).unwrap()
    }

    pub(super) fn may_start() -> io::Result<()> {
        let left = STARTS.get().checked_sub(1);
        STARTS.set(left.ok_or(io::ErrorKind::WouldBlock)?);
        Ok(())
    }

    #[test]
    fn who_is_gone_is_told_of_a_full_store_at_most() {
        for (kind, is_no_space) in
            [(io::ErrorKind::StorageFull, true), (io::ErrorKind::InvalidInput, false)]
        {
            let digest = Digest::parse(&format!("sha256:{}", "0".repeat(64))).unwrap();
            let expected = Expected { digest: digest.clone(), size: 1 };
            let failed =
                UnpackError::File { action: "write", path: "a".to_owned(), source: kind.into() };
            let ended = Outcomes {
                decrypted: Ok(()),
                inflated: Err(caller::gone()),
                contents: Err(failed),
                plain: (digest.clone(), 0),
            };
            let gone = CallerGuard::default().watch();
            let error = ended.judge(Blob::new(&expected), &digest, &gone);
            let error = error.unwrap_err();
            assert_eq!(error.is_no_space(), is_no_space, "{error:?}");
            assert_eq!(matches!(error, LayerError::GivenUp), !is_no_space, "{error:?}");
        }
    }
}

//! One layer from the network into the store: read ahead as far as there is leave, then unpacked
//! while the rest comes.

use std::future::ready;
use std::iter;
use std::pin::pin;
use std::sync::Arc;
use std::time::Instant;

use bytes::{Bytes, BytesMut};
use futures_util::future::{Either, maybe_done, select};
use keys::LayerKey;
use layer_store::layer::Layer;
use layer_store::name::LayerName;
use layer_store::store::Store;
use layer_unpack::blob::Expected;
use layer_unpack::caller::{CallerGuard, CallerWatch};
use layer_unpack::{LayerError, Unpacked};
use oci_image::digest::Digest;
use oci_image::manifest::Descriptor;
use registry_client::Blob;
use registry_client::registry::Registry;

use super::ahead::Ahead;
use super::budget::{Allowance, Leave, Place};
use super::layers::ImageLayer;
use crate::blocking::blocking;
use crate::error::Error;
use crate::received;
use crate::watch::LayerWatch;

/// A small blob that has been read. Its digest has not been looked at.
#[derive(Debug)]
pub struct Whole {
    host: String,
    bytes: Bytes,
    leave: Leave,
}

impl Whole {
    /// The same if it has this digest.
    pub async fn of(self, digest: &Digest) -> Result<Option<Self>, Error> {
        let digest = digest.clone();
        blocking(move || {
            let mut hasher = digest.hasher();
            hasher.update(&self.bytes);
            let is_it = digest.check(hasher.finish(), self.bytes.len() as u64).is_ok();
            Ok(is_it.then_some(self))
        })
        .await
    }
}

/// A layer that has come, and what nobody else may have as long as a handle of the layer is on its
/// way to who waits for it. The layer is let go first.
#[derive(Debug)]
pub struct Arrived<H> {
    pub layer: Layer,
    pub held: H,
}

/// One layer to be brought from one source.
pub struct Reading<'a> {
    pub registry: &'a Arc<Registry>,
    pub wanted: &'a ImageLayer,
    pub allowance: &'a Allowance,
    pub watch: &'a LayerWatch,
}

/// Reads a small blob whole. It is copied, because a chunk would keep all of the buffer that it was
/// read into.
pub async fn read_whole(
    registry: &Registry,
    blob: &Descriptor,
    leave: Leave,
    watch: &LayerWatch,
) -> Result<Whole, Error> {
    let mut transfer = registry.blob(&blob.digest, blob.size).await?;
    let host = transfer.host().to_owned();
    watch.started(&host);
    let mut bytes = BytesMut::with_capacity(leave.bytes);
    while let Some(chunk) = transfer.next().await? {
        bytes.extend_from_slice(&chunk);
        watch.received(bytes.len() as u64);
    }
    Ok(Whole { host, bytes: bytes.freeze(), leave })
}

impl Reading<'_> {
    /// Fetches and unpacks the layer; where there is none, `alone` is let go when nothing of the
    /// attempt is left.
    pub async fn fetch<H: Send + 'static>(
        &self,
        store: &Arc<Store>,
        ahead: &Ahead,
        alone: H,
    ) -> Result<Arrived<H>, Error> {
        let begun = Instant::now();
        let blob = &self.wanted.blob;
        let (arrived, unpacked) = match self.whole(ahead).await? {
            Either::Left(whole) => {
                // Only now: a registry that is slow with it is not to keep the layers of others
                // waiting.
                let place = self.allowance.place().await?;
                drop(whole.leave);
                let job = self.job(whole.host);
                let bytes = iter::once(whole.bytes);
                job.unpack_apart(store, bytes, (alone, place), ready(Ok(()))).await?
            }
            Either::Right(leave) => self.read_on(leave, store, alone).await?,
        };
        self.watch.unpacked(&unpacked);
        tracing::info!(
            blob = %blob.digest, bytes = blob.size,
            plain_bytes = unpacked.plain_bytes, entries = unpacked.entries,
            ms = begun.elapsed().as_millis(), "layer unpacked"
        );
        Ok(arrived)
    }

    /// All bytes of the blob, or leave to read its first part.
    async fn whole(&self, ahead: &Ahead) -> Result<Either<Whole, Leave>, Error> {
        let blob = &self.wanted.blob;
        if let Some(whole) = ahead.take(self.registry, blob).await? {
            self.watch.started(&whole.host);
            self.watch.received(blob.size);
            return Ok(Either::Left(whole));
        }
        let leave = self.allowance.leave(blob.size).await?;
        if !leave.is_whole {
            return Ok(Either::Right(leave));
        }
        let whole = read_whole(self.registry, blob, leave, self.watch);
        whole.await.map(Either::Left)
    }

    /// Reads the first part until there is a place to unpack in, and then the rest.
    async fn read_on<H: Send + 'static>(
        &self,
        leave: Leave,
        store: &Arc<Store>,
        alone: H,
    ) -> Result<(Arrived<H>, Unpacked), Error> {
        let blob = &self.wanted.blob;
        let is_far = self.registry.is_far();
        let parts = is_far.then(|| self.allowance.parts_now(blob.size)).flatten();
        let transfer = self.registry.blob_in_parts(&blob.digest, blob.size, parts).await?;
        let host = transfer.host().to_owned();
        self.watch.started(&host);
        let (sender, received) = received::channel(leave.bytes);
        let reading = hand_over(transfer, sender, self.watch);
        let mut reading = pin!(maybe_done(reading));
        let place = match select(pin!(self.allowance.place()), reading.as_mut()).await {
            Either::Left((place, _)) => place?,
            Either::Right(((), placing)) => {
                // What came before it broke off is no layer.
                if let Some(Err(_)) = reading.as_mut().output_mut() {
                    reading.as_mut().take_output().unwrap_or(Ok(()))?;
                }
                placing.await?
            }
        };
        // From here on the bytes are among those that each place may have.
        received.widen();
        drop(leave);
        let reading = async {
            reading.as_mut().await;
            reading.as_mut().take_output().unwrap_or(Ok(()))
        };
        let job = self.job(host);
        job.unpack_apart(store, received, (alone, place), reading).await
    }

    fn job(&self, host: String) -> UnpackJob {
        UnpackJob {
            expected: Expected {
                digest: self.wanted.blob.digest.clone(),
                size: self.wanted.blob.size,
            },
            name: self.wanted.name.clone(),
            diff_id: self.wanted.diff_id.clone(),
            key: self.wanted.key.clone(),
            host,
        }
    }
}

/// Reads a blob into the queue of the thread that unpacks it, as far as there is room, until one of
/// the two ends.
async fn hand_over(
    mut transfer: Blob<'_>,
    mut sender: received::Sender,
    watch: &LayerWatch,
) -> Result<(), Error> {
    let mut received_bytes = 0;
    loop {
        // The other side may find an error, which is the one to report, while the registry is
        // silent.
        let chunk = tokio::select! {
            chunk = transfer.next() => chunk?,
            () = sender.closed() => return Ok(()),
        };
        let Some(chunk) = chunk else {
            break;
        };
        received_bytes += chunk.len() as u64;
        if sender.send(chunk).await.is_err() {
            return Ok(());
        }
        watch.received(received_bytes);
    }
    let _ = sender.flush().await;
    Ok(())
}

/// What the thread that unpacks has to know.
struct UnpackJob {
    expected: Expected,
    name: LayerName,
    diff_id: Digest,
    key: Option<Arc<LayerKey>>,
    host: String,
}

impl UnpackJob {
    /// Unpacks on a thread of its own while the rest is being read.
    async fn unpack_apart<H: Send + 'static>(
        self,
        store: &Arc<Store>,
        received: impl Iterator<Item = Bytes> + Send + 'static,
        (alone, place): (H, Place),
        reading: impl Future<Output = Result<(), Error>>,
    ) -> Result<(Arrived<H>, Unpacked), Error> {
        let store = store.clone();
        let waiting = CallerGuard::default();
        let caller = waiting.watch();
        let unpack = blocking(move || {
            // Dropping this future does not end the thread at once. Until it has ended, no other
            // attempt may begin, and until its layer is let go, nobody may think that it is unused.
            let held = alone;
            let _place = place;
            let (layer, unpacked) = self.unpack(&store, received, &caller)?;
            Ok((Arrived { layer, held }, unpacked))
        });
        let (fetched, unpacked) = tokio::join!(reading, unpack);
        // A transfer that broke off is the reason why the blob is too short, not the other way
        // round; but it says nothing about a full store.
        match unpacked {
            Err(error) if error.is_local() => Err(error),
            unpacked => fetched.and(unpacked),
        }
    }

    /// Unpacks what arrives and gives it a name only after it was verified.
    fn unpack(
        self,
        store: &Store,
        received: impl Iterator<Item = Bytes> + Send + 'static,
        caller: &CallerWatch,
    ) -> Result<(Layer, Unpacked), Error> {
        let (staging, root) = store.stage(&self.name)?;
        let unpacked = layer_unpack::unpack(
            received,
            &self.expected,
            self.key.as_deref(),
            &self.diff_id,
            root,
            caller,
        );
        let unpacked = unpacked.map_err(|source| {
            if source.is_no_space() {
                return store.full().into();
            }
            if let LayerError::Blob(mismatch) | LayerError::DiffId(mismatch) = &source {
                tracing::debug!(host = self.host, ?mismatch, "other content");
            }
            Error::Layer { digest: self.expected.digest, host: self.host, source: Box::new(source) }
        })?;
        Ok((staging.publish(&unpacked)?, unpacked))
    }
}

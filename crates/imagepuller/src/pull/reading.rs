//! One layer from the network into the store: read ahead as far as there is leave, then unpacked
//! while the rest comes.

use std::pin::{Pin, pin};
use std::sync::Arc;
use std::time::Instant;

use futures_util::future::{Either, MaybeDone, maybe_done, select};
use layer_store::layer::Layer;
use layer_store::name::LayerName;
use layer_store::store::Store;
use layer_unpack::Unpacked;
use layer_unpack::blob::Expected;
use layer_unpack::caller::{CallerGuard, CallerWatch};
use oci_image::digest::Digest;
use ocicrypt::LayerKey;
use registry_client::Blob;
use registry_client::registry::Registry;

use super::budget::{Allowance, Leave, Place};
use super::layers::ImageLayer;
use crate::blocking::blocking;
use crate::error::Error;
use crate::progress::{Event, Progress};
use crate::received::{self, Received};

/// Fetches and unpacks a layer; `alone` is let go when nothing of the attempt is left.
pub async fn fetch(
    registry: &Registry,
    wanted: &ImageLayer,
    store: &Arc<Store>,
    allowance: &Allowance,
    progress: &Progress,
    alone: impl Send + 'static,
) -> Result<Layer, Error> {
    let started = Instant::now();
    let blob = &wanted.blob;
    let leave = allowance.leave(blob.size).await?;
    let transfer = registry.blob(&blob.digest, blob.size).await?;
    let host = transfer.host().to_owned();
    progress.tell(Event::Started {
        blob: blob.digest.clone(),
        bytes: blob.size,
        host: host.clone(),
    });
    let (sender, received) = received::channel(leave.bytes);
    let reading = hand_over(transfer, sender, &blob.digest, progress);
    let mut reading = pin!(maybe_done(reading));
    let place = place(reading.as_mut(), &leave, allowance).await?;
    // From here on the bytes are among those that each place may have.
    received.widen();
    drop(leave);
    let job = UnpackJob {
        expected: Expected {
            digest: blob.digest.clone(),
            size: blob.size,
        },
        name: wanted.name.clone(),
        diff_id: wanted.diff_id.clone(),
        key: wanted.key.clone(),
        host,
    };
    let store = store.clone();
    let waiting = CallerGuard::default();
    let caller = waiting.watch();
    let unpack = blocking(move || {
        // Dropping this future does not end the thread at once. Until it has ended, no other
        // attempt may begin.
        let _held = (alone, place);
        job.unpack(&store, received, &caller)
    });
    let ((), unpacked) = tokio::join!(reading.as_mut(), unpack);
    let fetched = reading.take_output().unwrap_or(Ok(()));
    // A transfer that broke off is the reason why the blob is too short, not the other way round;
    // but it says nothing about a full store.
    let (layer, unpacked) = match unpacked {
        Err(error) if error.is_local() => return Err(error),
        unpacked => fetched.and(unpacked)?,
    };
    drop(waiting);
    progress.tell(Event::Unpacked {
        blob: blob.digest.clone(),
        plain_bytes: unpacked.plain_bytes,
        entries: unpacked.entries,
    });
    tracing::info!(
        blob = %blob.digest, bytes = blob.size,
        plain_bytes = unpacked.plain_bytes, entries = unpacked.entries,
        ms = started.elapsed().as_millis(), "layer unpacked"
    );
    Ok(layer)
}

/// Reads until there is a place to unpack in. What is read whole asks for one only then: a registry
/// that is slow with it is not to keep the layers of others waiting.
async fn place<F>(
    mut reading: Pin<&mut MaybeDone<F>>,
    leave: &Leave,
    allowance: &Allowance,
) -> Result<Place, Error>
where
    F: Future<Output = Result<(), Error>>,
{
    if leave.is_whole {
        reading.as_mut().await;
        failed(reading)?;
        return allowance.place().await;
    }
    match select(pin!(allowance.place()), reading.as_mut()).await {
        Either::Left((place, _)) => place,
        Either::Right(((), placing)) => {
            failed(reading)?;
            placing.await
        }
    }
}

/// What a transfer ended with, if it was an error: nobody unpacks what came before.
fn failed<F>(mut reading: Pin<&mut MaybeDone<F>>) -> Result<(), Error>
where
    F: Future<Output = Result<(), Error>>,
{
    match reading.as_mut().output_mut() {
        Some(Err(_)) => reading.take_output().unwrap_or(Ok(())),
        _ => Ok(()),
    }
}

/// Reads a blob into the queue of the thread that unpacks it, as far as there is room, until one of
/// the two ends.
async fn hand_over(
    mut transfer: Blob<'_>,
    mut sender: received::Sender,
    digest: &Digest,
    progress: &Progress,
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
        progress.tell(Event::Received {
            blob: digest.clone(),
            received_bytes,
        });
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
    /// Unpacks what arrives and gives it a name only after it was verified.
    fn unpack(
        self,
        store: &Store,
        received: Received,
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
            Error::Layer {
                digest: self.expected.digest,
                host: self.host,
                source: Box::new(source),
            }
        })?;
        Ok((staging.publish(&unpacked)?, unpacked))
    }
}

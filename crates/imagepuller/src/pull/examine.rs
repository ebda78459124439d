//! Reads the layers of an image in a registry, one after the other, and keeps nothing of them.

use layer_unpack::lint::{Remark, lint};
use oci_image::digest::{Digest, Mismatch};
use oci_image::manifest::Descriptor;
use oci_image::named::NamedReference;
use registry_client::registry::Registry;
use registry_client::{Blob, Patience};
use tokio::sync::Notify;

use super::resolve;
use super::sources::Sources;
use super::visit::{self, Visit};
use crate::blocking::blocking;
use crate::error::Error;
use crate::received::{self, Sender};

/// A layer that was looked at.
#[derive(Debug)]
pub struct Examined {
    /// The digest of its blob.
    pub blob: Digest,
    /// How many entries it has, and what there is to say; nothing of one that is encrypted, which
    /// is not fetched.
    pub found: Option<(u64, Vec<Remark>)>,
}

/// Reads each layer of an image, lowest first, and tells what is odd about it. No more than about
/// a MiB of a layer is on its way at a time.
///
/// # Errors
///
/// Any [`Error`] of a pull up to here; also where a layer is not what its digest names.
pub async fn examine(
    visit: &Visit,
    image: &NamedReference,
    patience: Patience,
    mut tell: impl FnMut(Examined),
) -> Result<(), Error> {
    let repository = image.repository();
    let meant = visit.image(image)?;
    let secrets = visit.secrets();
    let route = visit.route(image.registry(), repository, &secrets);
    let route = route.await?;
    let patience = Sources::patience_by(&route.settings, patience);
    let sources = visit::sources(&route, repository, patience);
    let digest = visit::digest(&sources, &meant.image).await?;
    let first = Notify::new();
    let resolved = resolve::resolve(&sources, &digest, &visit.platform, None, &first);
    let resolved = resolved.await?;
    for (blob, _) in &resolved.image.layers {
        let found = match blob.encryption() {
            Some(_) => None,
            None => Some(sources.first(|registry| layer(registry, blob)).await?),
        };
        tell(Examined { blob: blob.digest.clone(), found });
    }
    Ok(())
}

/// How much of a layer may be on its way to the thread that reads it.
const ROOM_BYTES: usize = 1 << 20;

/// One layer of one source.
async fn layer(registry: &Registry, blob: &Descriptor) -> Result<(u64, Vec<Remark>), Error> {
    let transfer = registry.blob(&blob.digest, blob.size).await?;
    let (sender, received) = received::channel(ROOM_BYTES);
    let looking = blocking(move || Ok(lint(received)));
    let (fetched, found) = tokio::join!(hand_over(transfer, sender, &blob.digest), looking);
    // Of a blob that broke off or is another one nothing is said.
    fetched.and(found)
}

/// Hands a blob over to the thread that reads it, and holds it to its digest. Where that thread has
/// ended, because it refuses the layer, the rest still tells whether it is the right one.
async fn hand_over(mut transfer: Blob<'_>, sender: Sender, digest: &Digest) -> Result<(), Error> {
    let mut hasher = digest.hasher();
    let mut sender = Some(sender);
    let mut received_bytes = 0;
    while let Some(chunk) = transfer.next().await? {
        hasher.update(&chunk);
        received_bytes += chunk.len() as u64;
        if let Some(open) = &mut sender
            && open.send(chunk).await.is_err()
        {
            sender = None;
        }
    }
    if let Some(mut open) = sender {
        // It may have ended by itself.
        let _ = open.flush().await;
    }
    let wrong = |source: Mismatch| Error::Content {
        what: "a layer",
        host: transfer.host().to_owned(),
        source: Box::new(source),
    };
    digest.check(hasher.finish(), received_bytes).map_err(wrong)
}

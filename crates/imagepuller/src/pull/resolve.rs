//! Follows digests from a reference to the layers. Each document comes from the store, or from the
//! first source that really has it.

use layer_store::store::Store;
use oci_image::digest::{Digest, Unverified};
use oci_image::platform::Platform;
use oci_image::search::{Document, DocumentRequest, Image, Kind, Search};
use registry_client::registry::Registry;
use tokio::sync::Notify;

use super::ahead::Begun;
use super::layers::Layers;
use super::sources::Sources;
use crate::error::Error;

/// The most bytes of documents of one image that are kept: those of real images have some KiB, and
/// until its layers are there they are kept in memory.
const MAX_KEPT_BYTES: usize = 8 << 20;

/// An image, and what led to it.
#[derive(Debug)]
pub struct Resolved {
    pub image: Image,
    /// Every document; none if they are too large to be kept.
    pub documents: Vec<(Digest, Vec<u8>)>,
    /// Blobs that are on their way already, as long as this is there.
    pub begun: Option<Begun>,
}

/// Follows the digests from a manifest or index to the image of a platform. While its configuration
/// is on its way, its layers may be too, where it is said which they are to join. `first` is told
/// when the first document is there.
pub async fn resolve(
    sources: &Sources,
    digest: &Digest,
    platform: &Platform,
    layers: Option<&Layers>,
    first: &Notify,
) -> Result<Resolved, Error> {
    let mut search = Search::new(digest.clone(), platform.clone());
    let (mut documents, mut kept_bytes) = (Vec::new(), 0);
    let (mut last, mut begun) = (None, None);
    // The search itself ends after some documents.
    loop {
        let wanted = search.wanted();
        let asked = sources.first(async |registry| {
            let document = fetch(registry, wanted.clone()).await?;
            Ok((document, registry.clone()))
        });
        let begin = async {
            let expected = search.expected_layers();
            match (last.take(), layers) {
                (Some(source), Some(layers)) if !expected.is_empty() => {
                    layers.begin(source, expected).await
                }
                _ => None,
            }
        };
        // The document first: the connection that is there is its own.
        let (asked, begins) = tokio::join!(biased; asked, begin);
        begun = begins.or(begun);
        let (document, source) = asked?;
        first.notify_one();
        last = Some(source);
        kept_bytes += document.text().len();
        if kept_bytes <= MAX_KEPT_BYTES {
            documents.push((document.digest().clone(), document.text().to_vec()));
        } else {
            documents.clear();
        }
        if let Some(image) = search.receive(document)? {
            return Ok(Resolved { image, documents, begun });
        }
    }
}

/// The same with the documents that a store kept, which are held to their digests as those of a
/// registry are. Nothing if one is missing or damaged. Blocks.
pub fn from_store(store: &Store, digest: &Digest, platform: &Platform) -> Option<Image> {
    let mut search = Search::new(digest.clone(), platform.clone());
    loop {
        let wanted = search.wanted();
        let kept = Unverified::new(store.document(digest, &wanted.digest)?);
        let document = wanted.verify(kept).map_err(|error| {
            tracing::warn!(%error, "a kept document is damaged, so it is fetched again");
        });
        match search.receive(document.ok()?) {
            Ok(None) => {}
            Ok(Some(image)) => return Some(image),
            // For another platform, for example. The pull says so itself.
            Err(_) => return None,
        }
    }
}

/// One document of one source, held to its digest.
pub async fn fetch(registry: &Registry, wanted: DocumentRequest) -> Result<Document, Error> {
    let received = match wanted.kind {
        Kind::Manifest => registry.manifest(&wanted.digest).await?,
        Kind::Config => registry.config(&wanted.digest).await?,
    };
    wanted.verify(received).map_err(|source| {
        let host = registry.host();
        tracing::debug!(host, mismatch = ?source, "other content");
        Error::Content {
            what: match wanted.kind {
                Kind::Manifest => "the manifest",
                Kind::Config => "the image configuration",
            },
            host,
            source: Box::new(source),
        }
    })
}

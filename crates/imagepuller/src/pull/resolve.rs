//! Follows digests from a reference to the layers. Each document comes from the first source that
//! really has it.

use oci_image::digest::Digest;
use oci_image::platform::Platform;
use oci_image::search::{Document, DocumentRequest, Image, Kind, Search};
use registry_client::registry::Registry;

use super::sources::Sources;
use crate::error::Error;

/// Follows the digests from a manifest or index to the image of a platform.
pub async fn resolve(
    sources: &Sources,
    digest: &Digest,
    platform: &Platform,
) -> Result<Image, Error> {
    let mut search = Search::new(digest.clone(), platform.clone());
    // The search itself ends after some documents.
    loop {
        let wanted = search.wanted();
        let document = sources
            .first(|registry| fetch(registry, wanted.clone()))
            .await?;
        if let Some(image) = search.receive(document)? {
            return Ok(image);
        }
    }
}

async fn fetch(registry: &Registry, wanted: DocumentRequest) -> Result<Document, Error> {
    let received = match wanted.kind {
        Kind::Manifest => registry.manifest(&wanted.digest).await?,
        Kind::Config => registry.config(&wanted.digest).await?,
    };
    wanted.verify(received).map_err(|source| Error::Content {
        what: match wanted.kind {
            Kind::Manifest => "the manifest",
            Kind::Config => "the image configuration",
        },
        host: registry.host(),
        source: Box::new(source),
    })
}

//! The one source of secrets, and how it is asked. Nothing is kept.

use std::time::Duration;

use registry_config::{ResourceSource, ResourceUri};
use zeroize::Zeroizing;

use crate::error::{Error, Fault};
use crate::{files, hub, unwrap};

/// The largest resource, in bytes: a document of credentials, a key, a list of certificates.
/// Kubernetes' secrets end there too.
pub const MAX_RESOURCE_BYTES: usize = 1 << 20;

/// How long one answer may take. The data hub itself waits 50 seconds for a broker; a broker that
/// needs as long is better asked again by the next pull.
pub const REQUEST_LIMIT: Duration = Duration::from_secs(20);

/// Gets a resource of 1 to [`MAX_RESOURCE_BYTES`] bytes; the answer may take as long as `limit`.
///
/// # Errors
///
/// [`Error::NotConfigured`], or [`Error::Unavailable`] with what the source said.
pub async fn resource(
    source: Option<&ResourceSource>,
    uri: &ResourceUri,
    limit: Duration,
) -> Result<Zeroizing<Vec<u8>>, Error> {
    let what = || format!("get {uri}");
    let Some(source) = source else {
        return Err(Error::NotConfigured { what: what() });
    };
    let resource = match source {
        ResourceSource::DataHub(socket) => hub::fetch(socket, uri, limit).await,
        ResourceSource::Files(path) => files::fetch(path, uri).await,
    };
    resource.and_then(checked).map_err(|fault| Error::of(what(), source, fault))
}

/// Has the CDH open a packet, and gives the options of a layer. What they decrypt has to be
/// verified.
///
/// # Errors
///
/// As those of [`resource`]; a file opens nothing.
pub async fn unwrap_packet(
    source: Option<&ResourceSource>,
    packet: &[u8],
    limit: Duration,
) -> Result<Zeroizing<Vec<u8>>, Error> {
    let what = || "have a layer's key unwrapped".to_owned();
    let Some(source @ ResourceSource::DataHub(socket)) = source else {
        return Err(Error::NotConfigured { what: what() });
    };
    let options = unwrap::unwrap(socket, packet, limit).await;
    options.map_err(|fault| Error::of(what(), source, fault))
}

fn checked(resource: Zeroizing<Vec<u8>>) -> Result<Zeroizing<Vec<u8>>, Fault> {
    match resource.len() {
        0 => Err(Fault::Answer { rule: "is empty, which no secret is" }),
        1..=MAX_RESOURCE_BYTES => Ok(resource),
        _ => Err(Fault::TooLarge { limit_bytes: MAX_RESOURCE_BYTES }),
    }
}

//! The one source of secrets, and how it is asked.

use std::time::Duration;

use registry_config::{ResourceSource, ResourceUri};
use zeroize::Zeroizing;

use crate::error::{Error, Fault};
use crate::limits::MAX_RESOURCE_BYTES;
use crate::{files, hub, unwrap};

/// Asks the source that a pull has. It keeps nothing.
#[derive(Clone, Copy, Debug)]
pub struct Client<'s> {
    source: Option<&'s ResourceSource>,
    limit: Duration,
}

impl<'s> Client<'s> {
    /// A client of this source, whose answers may each take as long as `limit`.
    pub fn new(source: Option<&'s ResourceSource>, limit: Duration) -> Self {
        Self { source, limit }
    }

    /// Gets a resource of 1 to [`crate::MAX_RESOURCE_BYTES`] bytes.
    ///
    /// # Errors
    ///
    /// [`Error::NotConfigured`], or [`Error::Unavailable`] with what the source said.
    pub async fn resource(&self, uri: &ResourceUri) -> Result<Zeroizing<Vec<u8>>, Error> {
        let what = || format!("get {uri}");
        let Some(source) = self.source else {
            return Err(Error::NotConfigured { what: what() });
        };
        let resource = match source {
            ResourceSource::DataHub(socket) => hub::fetch(socket, uri, self.limit).await,
            ResourceSource::Files(path) => files::fetch(path, uri).await,
        };
        resource.and_then(checked).map_err(|fault| Error::of(what(), source, fault))
    }

    /// Has the CDH open a packet, and gives the options of a layer. What they decrypt has to be
    /// verified.
    ///
    /// # Errors
    ///
    /// As those of [`Client::resource`]; a file opens nothing.
    pub async fn unwrap(&self, packet: &[u8]) -> Result<Zeroizing<Vec<u8>>, Error> {
        let what = || "have a layer's key unwrapped".to_owned();
        let Some(source @ ResourceSource::DataHub(socket)) = self.source else {
            return Err(Error::NotConfigured { what: what() });
        };
        let options = unwrap::unwrap(socket, packet, self.limit).await;
        options.map_err(|fault| Error::of(what(), source, fault))
    }
}

fn checked(resource: Zeroizing<Vec<u8>>) -> Result<Zeroizing<Vec<u8>>, Fault> {
    match resource.len() {
        0 => Err(Fault::Answer { rule: "is empty, which no secret is" }),
        1..=MAX_RESOURCE_BYTES => Ok(resource),
        _ => Err(Fault::TooLarge { limit_bytes: MAX_RESOURCE_BYTES }),
    }
}

//! A place where resources may be, behind one way of asking.

use std::path::Path;

use puller_config::{ResourceSource, ResourceUri, Resources};
use tokio::sync::Mutex;
use url::Url;
use zeroize::Zeroizing;

use crate::attester::Attester;
use crate::broker::Broker;
use crate::error::{Error, Fault};
use crate::http::Http;
use crate::limits::{Limits, MAX_RESOURCE_BYTES};
use crate::{files, hub};

/// A source that can be asked.
#[derive(Debug)]
pub struct Source {
    name: String,
    limits: Limits,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Hub(std::path::PathBuf),
    Broker(Box<Broker>),
    Files(std::path::PathBuf),
}

impl Source {
    /// Prepares a source; nothing is asked yet.
    ///
    /// # Errors
    ///
    /// [`Error::Source`] for an address that is not allowed, and for roots that cannot be used.
    pub fn new(
        source: &ResourceSource,
        resources: &Resources,
        initdata: Option<&Path>,
        limits: Limits,
    ) -> Result<Self, Error> {
        let failed = |reason: String| Error::Source { source_name: source.to_string(), reason };
        let kind = match source {
            ResourceSource::DataHub(socket) => Kind::Hub(socket.clone()),
            ResourceSource::Files(path) => Kind::Files(path.clone()),
            ResourceSource::Broker(address) => {
                if address.scheme() != "https" {
                    check_guest(address).map_err(failed)?;
                }
                let roots = resources.kbs_ca_certs.as_ref();
                let http = Http::new(roots, limits.request).map_err(failed)?;
                let token_file = resources.kbs_token_file.clone();
                let attester = resources.kbs_attester.as_ref();
                Kind::Broker(Box::new(Broker {
                    http,
                    address: address.clone(),
                    token_file,
                    attester: attester.map(|kind| Attester::new(kind, limits.request)),
                    initdata: initdata.map(Path::to_owned),
                    session: Mutex::default(),
                }))
            }
        };
        Ok(Self { name: source.to_string(), limits, kind })
    }

    /// The source as `[resources]` has it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Asks for a resource; each request on the way is bounded, all of them together are not.
    ///
    /// # Errors
    ///
    /// Why there is no resource of 1 to [`crate::MAX_RESOURCE_BYTES`] bytes.
    pub async fn fetch(&self, uri: &ResourceUri) -> Result<Zeroizing<Vec<u8>>, Fault> {
        let resource = match &self.kind {
            Kind::Hub(socket) => hub::fetch(socket, uri, self.limits.request).await,
            Kind::Broker(broker) => broker.fetch(uri).await,
            Kind::Files(path) => files::fetch(path, uri).await,
        }?;
        if resource.is_empty() {
            return Err(Fault::Answer { rule: "is empty, which no secret is" });
        }
        if resource.len() > MAX_RESOURCE_BYTES {
            return Err(Fault::TooLarge { limit_bytes: MAX_RESOURCE_BYTES });
        }
        Ok(resource)
    }
}

/// Secrets go over plain HTTP only where they do not leave the guest. Other host names are refused,
/// because someone else may resolve them.
fn check_guest(address: &Url) -> Result<(), String> {
    if address.scheme() == "http" && ResourceSource::is_guest(address) {
        Ok(())
    } else {
        Err("plain HTTP is for 127.0.0.1, [::1] and localhost only".to_owned())
    }
}

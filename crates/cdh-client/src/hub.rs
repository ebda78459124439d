//! The confidential data hub over ttrpc: `api.GetResourceService/GetResource` with the whole URI.

use std::path::Path;
use std::time::Duration;

use imagepuller_api::message::{GetResourceRequest, GetResourceResponse};
use protobuf::Message as _;
use registry_config::ResourceUri;
use ttrpc::Code;
use zeroize::Zeroizing;

use crate::call::{self, Method};
use crate::error::Fault;

/// Asks the hub that listens at a socket.
pub async fn fetch(
    socket: &Path,
    uri: &ResourceUri,
    limit: Duration,
) -> Result<Zeroizing<Vec<u8>>, Fault> {
    let method =
        Method { socket, service: "api.GetResourceService", name: "GetResource", limit, hint };
    let message = GetResourceRequest { ResourcePath: uri.to_string(), ..Default::default() };
    resource(&method.call(&message).await?)
}

/// The resource in an answer.
///
/// # Errors
///
/// [`Fault::Call`] for another status than success, [`Fault::Answer`] for what is no answer.
pub fn read(answer: &[u8]) -> Result<Zeroizing<Vec<u8>>, Fault> {
    resource(&call::read(answer, hint)?)
}

fn resource(payload: &[u8]) -> Result<Zeroizing<Vec<u8>>, Fault> {
    match GetResourceResponse::parse_from_bytes(payload) {
        Ok(mut message) => Ok(Zeroizing::new(std::mem::take(&mut message.Resource))),
        Err(_) => Err(Fault::Answer { rule: "is no message of the data hub" }),
    }
}

fn hint(code: i32) -> &'static str {
    if code == Code::UNIMPLEMENTED as i32 {
        "no program serves resources at this socket; is the data hub behind it?"
    } else if code == Code::NOT_FOUND as i32 {
        "there is no resource of this name, or no program serves resources at this socket"
    } else if code == Code::UNAVAILABLE as i32 {
        "the data hub is not available"
    } else {
        "the data hub did not get the resource; its own log says why"
    }
}

//! The confidential data hub over ttrpc: `api.GetResourceService/GetResource` with the whole URI.
//!
//! One frame goes out and one comes back, on a connection of their own. The frames are made and
//! read here and not by the library's client, because that client logs whole messages at its finest
//! level and leaves copies that are not zeroed.

use std::path::Path;
use std::time::Duration;

use imagepuller_api::message::{GetResourceRequest, GetResourceResponse};
use protobuf::Message as _;
use puller_config::ResourceUri;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::time::timeout;
use ttrpc::Code;
use ttrpc::proto::{
    Codec as _, MESSAGE_HEADER_LENGTH, MESSAGE_TYPE_RESPONSE, MessageHeader, Request, Response,
};
use zeroize::Zeroizing;

use crate::MAX_RESOURCE_BYTES;
use crate::error::Fault;

/// The stream of the one call; callers' streams are odd.
const STREAM: u32 = 1;

/// How much larger than a resource a frame with it may be: tags, lengths and a status without a
/// text.
const MAX_OVERHEAD_BYTES: usize = 4 << 10;

/// Asks the hub that listens at a socket.
pub async fn fetch(
    socket: &Path,
    uri: &ResourceUri,
    limit: Duration,
) -> Result<Zeroizing<Vec<u8>>, Fault> {
    timeout(limit, call(socket, uri, limit))
        .await
        .unwrap_or(Err(Fault::Late(limit)))
}

async fn call(
    socket: &Path,
    uri: &ResourceUri,
    limit: Duration,
) -> Result<Zeroizing<Vec<u8>>, Fault> {
    let mut stream = UnixStream::connect(socket).await.map_err(unreachable)?;
    let request = request(uri, limit)?;
    stream.write_all(&request).await.map_err(unreachable)?;
    let mut header = [0; MESSAGE_HEADER_LENGTH];
    stream.read_exact(&mut header).await.map_err(unreachable)?;
    let length = payload_length(MessageHeader::from(header))?;
    let mut payload = Zeroizing::new(vec![0; length]);
    stream.read_exact(&mut payload).await.map_err(unreachable)?;
    read(&payload)
}

/// The frame that asks.
fn request(uri: &ResourceUri, limit: Duration) -> Result<Vec<u8>, Fault> {
    let message = GetResourceRequest {
        ResourcePath: uri.to_string(),
        ..Default::default()
    };
    let unsendable = Fault::Unreachable {
        reason: "the request cannot be written down".to_owned(),
    };
    let Ok(payload) = message.write_to_bytes() else {
        return Err(unsendable);
    };
    let request = Request {
        service: "api.GetResourceService".to_owned(),
        method: "GetResource".to_owned(),
        timeout_nano: i64::try_from(limit.as_nanos()).unwrap_or(i64::MAX),
        payload,
        ..Default::default()
    };
    let (Ok(body), mut frame) = (request.encode(), Vec::new()) else {
        return Err(unsendable);
    };
    let length = u32::try_from(body.len()).unwrap_or(u32::MAX);
    frame.extend(Vec::from(MessageHeader::new_request(STREAM, length)));
    frame.extend(body);
    Ok(frame)
}

/// How much follows a header, if it belongs to an answer.
fn payload_length(header: MessageHeader) -> Result<usize, Fault> {
    if header.type_ != MESSAGE_TYPE_RESPONSE || header.stream_id != STREAM {
        return Err(Fault::Answer {
            rule: "is no answer in ttrpc to what was asked",
        });
    }
    let length = header.length as usize;
    if length > MAX_RESOURCE_BYTES + MAX_OVERHEAD_BYTES {
        return Err(Fault::TooLarge {
            limit_bytes: MAX_RESOURCE_BYTES,
        });
    }
    Ok(length)
}

/// The resource in an answer.
///
/// # Errors
///
/// [`Fault::Call`] for another status than success, [`Fault::Answer`] for what is no answer.
pub fn read(payload: &[u8]) -> Result<Zeroizing<Vec<u8>>, Fault> {
    let unreadable = Fault::Answer {
        rule: "is no message of the data hub",
    };
    let Ok(mut response) = Response::parse_from_bytes(payload) else {
        return Err(unreadable);
    };
    let body = Zeroizing::new(std::mem::take(&mut response.payload));
    let code = response.status.code.value();
    if code != Code::OK as i32 {
        return Err(Fault::Call {
            code,
            hint: hint(code),
        });
    }
    match GetResourceResponse::parse_from_bytes(&body) {
        Ok(mut message) => Ok(Zeroizing::new(std::mem::take(&mut message.Resource))),
        Err(_) => Err(unreadable),
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

fn unreachable(error: std::io::Error) -> Fault {
    let reason = match error.kind() {
        std::io::ErrorKind::UnexpectedEof => "it hung up without a whole answer".to_owned(),
        kind => kind.to_string(),
    };
    Fault::Unreachable { reason }
}

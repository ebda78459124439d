//! One call over ttrpc to another program of the guest.
//!
//! One frame goes out and one comes back, on a connection of their own. The frames are made and
//! read here and not by the library's client, because that client logs whole messages at its finest
//! level and leaves copies that are not zeroed.

use std::io::{Error, ErrorKind};
use std::path::Path;
use std::time::Duration;

use protobuf::Message;
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

/// A method of a program that listens at a socket.
#[derive(Clone, Copy, Debug)]
pub struct Method<'a> {
    pub socket: &'a Path,
    pub service: &'static str,
    pub name: &'static str,
    /// How long the answer may take; the program learns it too.
    pub limit: Duration,
    /// What a status other than success means.
    pub hint: fn(i32) -> &'static str,
}

impl Method<'_> {
    /// Calls it and gives the payload of its answer, which may be a secret.
    ///
    /// # Errors
    ///
    /// [`Fault::Absent`] where nobody listens, [`Fault::Call`] for another status than success,
    /// otherwise what is wrong with the connection or the answer.
    pub async fn call(&self, message: &impl Message) -> Result<Zeroizing<Vec<u8>>, Fault> {
        let request = self.request(message)?;
        timeout(self.limit, exchange(self.socket, &request))
            .await
            .unwrap_or(Err(Fault::Late(self.limit)))
            .and_then(|answer| read(&answer, self.hint))
    }

    /// The frame that asks.
    fn request(&self, message: &impl Message) -> Result<Vec<u8>, Fault> {
        let unsendable =
            || Fault::Unreachable { reason: "the request cannot be written down".to_owned() };
        let request = Request {
            service: self.service.to_owned(),
            method: self.name.to_owned(),
            timeout_nano: i64::try_from(self.limit.as_nanos()).unwrap_or(i64::MAX),
            payload: message.write_to_bytes().map_err(|_| unsendable())?,
            ..Default::default()
        };
        let body = request.encode().map_err(|_| unsendable())?;
        let length = u32::try_from(body.len()).map_err(|_| unsendable())?;
        let mut frame = Vec::from(MessageHeader::new_request(STREAM, length));
        frame.extend(body);
        Ok(frame)
    }
}

/// Sends a frame and gives the message of the one that comes back.
async fn exchange(socket: &Path, request: &[u8]) -> Result<Zeroizing<Vec<u8>>, Fault> {
    let mut stream = UnixStream::connect(socket).await.map_err(unconnected)?;
    stream.write_all(request).await.map_err(unreachable)?;
    let mut header = [0; MESSAGE_HEADER_LENGTH];
    stream.read_exact(&mut header).await.map_err(unreachable)?;
    let length = payload_length(MessageHeader::from(header))?;
    let mut payload = Zeroizing::new(vec![0; length]);
    stream.read_exact(&mut payload).await.map_err(unreachable)?;
    Ok(payload)
}

/// How much follows a header, if it belongs to an answer.
fn payload_length(header: MessageHeader) -> Result<usize, Fault> {
    if header.type_ != MESSAGE_TYPE_RESPONSE || header.stream_id != STREAM {
        return Err(Fault::Answer { rule: "is no answer in ttrpc to what was asked" });
    }
    let length = header.length as usize;
    if length > MAX_RESOURCE_BYTES + MAX_OVERHEAD_BYTES {
        return Err(Fault::TooLarge { limit_bytes: MAX_RESOURCE_BYTES });
    }
    Ok(length)
}

/// The payload of an answer.
///
/// # Errors
///
/// [`Fault::Call`] for another status than success, [`Fault::Answer`] for what is no answer.
pub fn read(answer: &[u8], hint: fn(i32) -> &'static str) -> Result<Zeroizing<Vec<u8>>, Fault> {
    let Ok(mut response) = Response::parse_from_bytes(answer) else {
        return Err(Fault::Answer { rule: "is no message of ttrpc" });
    };
    let payload = Zeroizing::new(std::mem::take(&mut response.payload));
    let code = response.status.code.value();
    if code != Code::OK as i32 {
        let hint = hint(code);
        return Err(Fault::Call { code, hint });
    }
    Ok(payload)
}

fn unconnected(error: Error) -> Fault {
    match error.kind() {
        kind @ (ErrorKind::NotFound | ErrorKind::ConnectionRefused) => Fault::Absent(kind),
        _ => unreachable(error),
    }
}

fn unreachable(error: Error) -> Fault {
    let reason = match error.kind() {
        ErrorKind::UnexpectedEof => "it hung up without a whole answer".to_owned(),
        kind => kind.to_string(),
    };
    Fault::Unreachable { reason }
}

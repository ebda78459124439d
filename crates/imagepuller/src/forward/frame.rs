//! Who a frame is for. Frames are ttrpc's: a header of ten bytes (length, stream, type, flags),
//! then a payload.

use std::time::Duration;

use foreign_text::shown;
use ttrpc::proto::{
    Codec as _, FLAG_REMOTE_CLOSED, GenMessage, MESSAGE_TYPE_DATA, MESSAGE_TYPE_REQUEST,
    MESSAGE_TYPE_RESPONSE, MessageHeader,
};
use ttrpc::{Code, Request, Response};

/// The services of this program, as they are called on the wire.
const OWN_SERVICES: [&str; 2] = ["api.ImagePullService", "configdev.ImageStoreService"];

/// The most of a caller's name for something that is repeated in a message.
const MAX_SHOWN_CHARS: usize = 100;

/// The receiver of a frame that a caller sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Destination {
    /// This program. Also for what cannot be read: its server has an answer to that.
    Own,
    /// Another service's call, by `SERVICE/METHOD`, printable.
    Other(String),
    /// More for a call that was made before. This program's services have none of that kind.
    Continued,
}

/// Looks at a frame that a caller sent.
pub fn destination(frame: &GenMessage) -> Destination {
    let is_callers_stream = frame.header.stream_id % 2 == 1;
    match frame.header.type_ {
        MESSAGE_TYPE_REQUEST if is_callers_stream => match Request::decode(&frame.payload) {
            Ok(request) if !OWN_SERVICES.contains(&request.service.as_str()) => {
                let [service, method] = [&request.service, &request.method]
                    .map(|name| shown(name).up_to(MAX_SHOWN_CHARS));
                Destination::Other(format!("{service}/{method}"))
            }
            _ => Destination::Own,
        },
        MESSAGE_TYPE_DATA if is_callers_stream => Destination::Continued,
        _ => Destination::Own,
    }
}

/// The time that a caller gives its call, if it says so.
pub fn time(frame: &GenMessage) -> Option<Duration> {
    let request = request(frame)?;
    let nanos = u64::try_from(request.timeout_nano).ok()?;
    (nanos > 0).then(|| Duration::from_nanos(nanos))
}

/// The call with another time, at least the shortest there is: none would mean any.
pub fn with_time(frame: GenMessage, time: Duration) -> GenMessage {
    let Some(mut request) = request(&frame) else {
        return frame;
    };
    request.timeout_nano = i64::try_from(time.as_nanos()).unwrap_or(i64::MAX).max(1);
    let Ok(payload) = request.encode() else {
        return frame;
    };
    let mut header = frame.header;
    header.length = u32::try_from(payload.len()).unwrap_or_default();
    GenMessage { header, payload }
}

fn request(frame: &GenMessage) -> Option<Request> {
    let is_request = frame.header.type_ == MESSAGE_TYPE_REQUEST;
    is_request.then(|| Request::decode(&frame.payload).ok())?
}

/// Whether a frame is the last of its stream that a service sends, or `None` for a frame that
/// services do not send.
pub fn is_last(header: &MessageHeader) -> Option<bool> {
    match header.type_ {
        MESSAGE_TYPE_RESPONSE => Some(true),
        MESSAGE_TYPE_DATA => Some(header.flags & FLAG_REMOTE_CLOSED != 0),
        _ => None,
    }
}

/// The answer to a call that gets no other.
pub fn status(stream_id: u32, code: Code, message: &str) -> GenMessage {
    let status = ttrpc::get_status(code, message);
    answer(stream_id, ttrpc::Error::RpcStatus(status))
}

/// The answer to a call that ended in an error.
pub fn answer(stream_id: u32, error: ttrpc::Error) -> GenMessage {
    // Encoding into memory does not fail; an empty answer would still be one.
    let payload = Response::from(error).encode().unwrap_or_default();
    let length = u32::try_from(payload.len()).unwrap_or_default();
    GenMessage { header: MessageHeader::new_response(stream_id, length), payload }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(stream_id: u32, service: &str) -> GenMessage {
        let request = Request {
            service: service.to_owned(),
            method: "Do\n".to_owned(),
            payload: vec![7; 100],
            ..Default::default()
        };
        let payload = request.encode().unwrap();
        let length = u32::try_from(payload.len()).unwrap();
        let header = MessageHeader::new_request(stream_id, length);
        GenMessage { header, payload }
    }

    #[test]
    fn only_whole_calls_of_other_services_leave() {
        for own in OWN_SERVICES {
            assert_eq!(destination(&request(1, own)), Destination::Own);
        }
        let other = request(3, "api.GetResourceService");
        let name = "api.GetResourceService/Do\\n".to_owned();
        assert_eq!(destination(&other), Destination::Other(name));

        let even = request(2, "api.GetResourceService");
        assert_eq!(destination(&even), Destination::Own);
        let mut broken = request(1, "api.GetResourceService");
        broken.payload.truncate(20);
        assert_eq!(destination(&broken), Destination::Own);
        let mut data = other.clone();
        data.header.type_ = MESSAGE_TYPE_DATA;
        assert_eq!(destination(&data), Destination::Continued);
        let mut unknown = other;
        unknown.header.type_ = 9;
        assert_eq!(destination(&unknown), Destination::Own);
        let long = request(1, &"\u{1b}".repeat(5000));
        let Destination::Other(name) = destination(&long) else {
            panic!("{long:?}");
        };
        assert!(name.len() < 1000, "{name}");
    }

    proptest::proptest! {
        /// Whatever bytes a caller sends: frames are read or refused, and what names one of this
        /// program's services stays.
        #[test]
        fn any_bytes_have_a_destination(
            start: [u8; 10],
            rest: Vec<u8>,
            own in 0..OWN_SERVICES.len(),
        ) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let whole = request(1, OWN_SERVICES[own]);
            let own = [&Vec::from(whole.header)[..], &whole.payload[..]].concat();
            for bytes in [[&start[..], &rest].concat(), [&own[..], &rest].concat()] {
                let mut stream = &bytes[..];
                let first = runtime.block_on(GenMessage::read_from(&mut stream));
                if let Ok(frame) = first {
                    let used = bytes.len() - stream.len();
                    proptest::prop_assert_eq!(used, 10 + frame.payload.len());
                    let destination = destination(&frame);
                    if bytes.starts_with(&own) {
                        proptest::prop_assert_eq!(destination, Destination::Own);
                    }
                }
            }
        }
    }

    #[test]
    fn the_end_of_a_stream_is_seen() {
        let mut header = MessageHeader::new_response(1, 0);
        assert_eq!(is_last(&header), Some(true));
        header.type_ = MESSAGE_TYPE_DATA;
        assert_eq!(is_last(&header), Some(false));
        header.flags = FLAG_REMOTE_CLOSED;
        assert_eq!(is_last(&header), Some(true));
        header.type_ = MESSAGE_TYPE_REQUEST;
        assert_eq!(is_last(&header), None);
    }
}

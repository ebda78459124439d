//! Data hubs that answer with anything but what they should, on sockets where perhaps nobody
//! listens.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use crate::support;

use std::os::unix::net::UnixListener;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use imagepuller_api::message::{GetResourceRequest, GetResourceResponse};
use imagepuller_api::server::{GetResourceService, create_get_resource_service};
use protobuf::Message as _;
use support::{HASTY, PATIENT, TAG, answering, ask, uri};
use ttrpc::Code;
use ttrpc::proto::{MessageHeader, Response};

/// A frame: an announced length, stream and type, and what follows.
fn frame(length: usize, stream: u32, kind: u8, payload: &[u8]) -> Vec<u8> {
    let mut header = MessageHeader::new_response(stream, u32::try_from(length).unwrap());
    header.type_ = kind;
    let mut frame = Vec::from(header);
    frame.extend_from_slice(payload);
    frame
}

fn answer(payload: &[u8]) -> Vec<u8> {
    frame(payload.len(), 1, 2, payload)
}

fn response(resource: &[u8]) -> Vec<u8> {
    let message = GetResourceResponse { Resource: resource.to_vec(), ..Default::default() };
    let response = Response { payload: message.write_to_bytes().unwrap(), ..Default::default() };
    response.write_to_bytes().unwrap()
}

fn status(code: Code) -> Vec<u8> {
    let mut response = Response::new();
    let status = response.mut_status();
    status.code = code.into();
    status.message = "hunter2\u{1b}[31m".to_owned();
    response.payload = b"hunter2".to_vec();
    response.write_to_bytes().unwrap()
}

/// Asks a hub that answers with these bytes; `None` is one that keeps silent.
fn ask_hub(bytes: Option<Vec<u8>>, stays: bool, limit: Duration) -> Result<Vec<u8>, String> {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("cdh.sock");
    answering(&socket, bytes, stays);
    let source = format!("cdh=unix:{}", socket.display());
    ask(&source, &uri(TAG), limit)
}

#[test]
fn hub_is_believed_nothing() {
    let good = response(b"a secret");
    assert_eq!(ask_hub(Some(answer(&good)), false, PATIENT).unwrap(), b"a secret");
    // What comes after the answer is nobody's.
    let mut more = answer(&good);
    more.extend(frame(7, 3, 2, b"hunter2"));
    assert_eq!(ask_hub(Some(more), false, PATIENT).unwrap(), b"a secret");

    let mut broken = vec![0x12, 0x85, 0x80, 0x80, 0x80, 0x0f];
    broken.extend(b"hunter2");
    for (bytes, stays, expected) in [
        (None, false, "it hung up without a whole answer"),
        (None, true, "no whole answer within 0.3 seconds"),
        (Some(b"hunt".to_vec()), false, "it hung up without a whole answer"),
        (Some(answer(&good)[..20].to_vec()), false, "it hung up without a whole answer"),
        (Some(answer(&good)[..20].to_vec()), true, "no whole answer within 0.3 seconds"),
        (Some(b"HTTP/1.1 400 hunter2\r\n\r\n".to_vec()), false, "no answer in ttrpc"),
        (Some(frame(good.len(), 3, 2, &good)), false, "no answer in ttrpc"),
        (Some(frame(good.len(), 1, 1, &good)), false, "no answer in ttrpc"),
        (Some(frame(good.len(), 1, 3, &good)), false, "no answer in ttrpc"),
        (Some(frame(u32::MAX as usize, 1, 2, &good)), true, "more than 1048576 bytes"),
        (Some(frame((1 << 20) + 8192, 1, 2, &good)), true, "more than 1048576 bytes"),
        (Some(answer(&response(&vec![7; (1 << 20) + 1]))), false, "more than 1048576 bytes"),
        (Some(answer(&response(b""))), false, "is empty"),
        (Some(answer(b"")), false, "is empty"),
        (Some(answer(b"hunter2")), false, "is no message of ttrpc"),
        (Some(answer(&broken)), false, "is no message of ttrpc"),
        (Some(answer(b"\x12\x07hunter2")), false, "is no message of the data hub"),
        (
            Some(answer(&status(Code::NOT_FOUND))),
            false,
            "ttrpc status 5: there is no resource of this name",
        ),
        (
            Some(answer(&status(Code::UNIMPLEMENTED))),
            false,
            "ttrpc status 12: no program serves resources",
        ),
        (
            Some(answer(&status(Code::UNAVAILABLE))),
            false,
            "ttrpc status 14: the data hub is not available",
        ),
        (Some(answer(&status(Code::INTERNAL))), false, "ttrpc status 13: the data hub did not get"),
    ] {
        let shown = format!("{:?}", bytes.as_ref().map(|bytes| &bytes[..bytes.len().min(20)]));
        let is_late = expected.contains("no whole answer");
        let limit = if is_late { HASTY } else { PATIENT };
        let error = ask_hub(bytes, stays, limit).unwrap_err();
        assert!(error.contains(expected), "{shown}: {error}");
    }
}

#[test]
fn socket_where_nobody_listens_is_reported() {
    let dir = tempfile::tempdir().unwrap();
    let absent = dir.path().join("absent.sock");
    let dead = dir.path().join("dead.sock");
    drop(UnixListener::bind(&dead).unwrap());
    for (socket, expected) in [
        (absent, "cannot be asked: nobody listens there (entity not found)"),
        (dead, "cannot be asked: nobody listens there (connection refused)"),
    ] {
        let source = format!("cdh=unix:{}", socket.display());
        let error = ask(&source, &uri(TAG), PATIENT).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
}

/// A hub on the library that the real one is made of.
struct Hub;

#[async_trait::async_trait]
impl GetResourceService for Hub {
    async fn get_resource(
        &self,
        _context: &ttrpc::r#async::TtrpcContext,
        request: GetResourceRequest,
    ) -> ttrpc::Result<GetResourceResponse> {
        if request.ResourcePath != "kbs:///repo/type/tag" {
            let status = ttrpc::get_status(Code::INTERNAL, "hunter2");
            return Err(ttrpc::Error::RpcStatus(status));
        }
        Ok(GetResourceResponse { Resource: vec![7; 1 << 20], ..Default::default() })
    }
}

#[test]
fn hub_made_with_the_real_library_is_understood() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("cdh.sock");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let mut server = runtime.block_on(async {
        let services: HashMap<String, _> = create_get_resource_service(Arc::new(Hub));
        let server = ttrpc::r#async::Server::new();
        let address = format!("unix://{}", socket.display());
        let mut server = server.bind(&address).unwrap().register_service(services);
        server.start().await.unwrap();
        server
    });
    let source = format!("cdh=unix:{}", socket.display());
    assert_eq!(ask(&source, &uri(TAG), PATIENT).unwrap(), vec![7; 1 << 20]);
    let error = ask(&source, &uri("repo/type/absent"), PATIENT).unwrap_err();
    assert!(error.contains("ttrpc status 13"), "{error}");
    runtime.block_on(server.shutdown()).unwrap();
}

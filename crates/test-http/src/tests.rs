//! The servers, asked byte by byte.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use super::{End, Recorder, Server, head, ok};

/// Sends bytes and gives everything that comes back.
fn ask(port: u16, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    // A server that hangs up early may not take everything.
    let _ = stream.write_all(bytes);
    let mut answer = String::new();
    let _ = stream.read_to_string(&mut answer);
    answer
}

#[test]
fn requests_are_recorded_as_they_came() {
    let server = Server::start(None, |request| match request.target.as_str() {
        "/" => ok(&request.body),
        _ => head("404 Nothing", ""),
    });
    let post = "POST / HTTP/1.1\r\nX-Name: Value\r\nContent-Length: 2\r\n\r\nhi";
    assert_eq!(ask(server.port, post.as_bytes()), ok("hi"));
    let answer = ask(server.port, b"GET /x HTTP/1.1\r\n\r\n");
    assert!(answer.starts_with("HTTP/1.1 404 "), "{answer}");
    let requests = server.requests();
    assert_eq!(&*requests[0], post);
    assert_eq!(requests[0].header("x-name"), Some("Value"));
    assert_eq!((requests[0].status, requests[1].status), (200, 404));
}

#[test]
fn what_is_no_request_is_bounded_and_answered_at_most_once() {
    let server = Server::always(ok(""));
    assert!(ask(server.port, b"\x16\x03\x01").starts_with("HTTP/1.1 400 "));
    assert_eq!(server.transcript(), "TLS");
    let endless = [b'x'; 100 << 10];
    let huge = b"GET / HTTP/1.1\r\nContent-Length: 99999999999999999999\r\n\r\n";
    for bytes in [&endless[..], huge, b"nonsense\r\n\r\n"] {
        assert_eq!(ask(server.port, bytes), "");
    }
    assert_eq!(server.requests().len(), 1);
}

/// A server that says nothing more lets its client go when it is dropped.
#[test]
fn connections_end_with_their_owner() {
    for end in [End::Silence, End::Flood] {
        let server = Server::always((String::new(), end));
        let mut stream = TcpStream::connect(("127.0.0.1", server.port)).unwrap();
        stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
        while server.requests().is_empty() {
            std::thread::yield_now();
        }
        drop(server);
        let _ = stream.read_to_end(&mut Vec::new());
    }
}

#[test]
fn a_recorder_keeps_every_byte() {
    let recorder = Recorder::start().unwrap();
    for text in ["one", "two"] {
        let mut stream = TcpStream::connect(recorder.address()).unwrap();
        stream.write_all(text.as_bytes()).unwrap();
        let mut answer = Vec::new();
        // The recorder hangs up; nothing was said.
        stream.read_to_end(&mut answer).unwrap();
        assert!(answer.is_empty());
    }
    assert_eq!(recorder.record(), [b"one", b"two"]);
}

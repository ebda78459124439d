//! HTTP/2 as curl sees it: right without a script, and wrong in the ways that only HTTP/2 has.

use std::io::{Read as _, Write as _};
use std::sync::Arc;

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;

use super::{Secure, start_secure};
use crate::{Action, End, Http, Http2Fault, Script, What};

#[test]
fn content_is_served_over_http2() {
    let site = start_secure(Script::new(), Http::Two);
    let output = site.curl(&["--http2"]);
    assert!(output.status.success(), "{output:?}");
    assert_eq!(output.stdout, site.bytes);
    let output = site.curl(&["--http2", "--range", "1000-"]);
    assert_eq!(output.stdout, &site.bytes[1000..]);
    let output = site.curl(&["--http2", "--data", "a=b&c=d"]);
    assert_eq!(output.stdout, site.bytes);
    let requests = site.registry.requests();
    assert!(requests.iter().all(|request| request.is_http2));
    assert_eq!(requests[1].header("range"), Some("bytes=1000-"));
    assert!(requests[0].header("user-agent").unwrap().starts_with("curl/"));
    let host = requests[0].header("host").unwrap();
    assert!(site.registry.base().ends_with(host), "{host}");
    assert_eq!((requests[2].method.as_str(), requests[2].body.as_str()), ("POST", "a=b&c=d"));
}

#[test]
fn http2_is_optional() {
    let site = start_secure(Script::new(), Http::Both);
    let output = site.curl(&["--http1.1"]);
    assert_eq!(output.stdout, site.bytes);
    let output = site.curl(&["--http2"]);
    assert_eq!(output.stdout, site.bytes);
    let versions: Vec<_> = site.registry.requests().iter().map(|r| r.is_http2).collect();
    assert_eq!(versions, [false, true]);
    let site = start_secure(Script::new(), Http::Two);
    assert!(!site.curl(&["--http1.1"]).status.success());
}

/// Several requests on one connection, and headers that fill several frames.
#[test]
fn a_connection_is_used_again() {
    let site =
        start_secure(Script::new().once(What::Layer(0), [Action::LongHeader(50_000)]), Http::Two);
    let address = format!("{}{}", site.registry.base(), site.path);
    let output = site.curl(&["--http2", "--include", &address]);
    assert!(output.status.success(), "{output:?}");
    assert!(output.stdout.len() > 2 * site.bytes.len() + 50_000);
    assert_eq!(site.registry.connections(), 1);
}

#[test]
fn streams_and_connections_break() {
    for (action, code) in [
        (Action::Http2(Http2Fault::Reset { code: 8, after: 1000 }), 92),
        (Action::Http2(Http2Fault::GoAway { code: 11, after: 1000 }), 92),
        (Action::cut(1000, End::Reset), 56),
        (Action::cut(1000, End::Close), 56),
        (Action::cut(1000, End::Stall), 28),
    ] {
        let site = start_secure(Script::new().always(What::Layer(0), [action.clone()]), Http::Two);
        // All that comes has come long before.
        let seconds = if code == 28 { 5 } else { 60 };
        let output = site.curl_within(seconds, &["--http2"]);
        let error = String::from_utf8_lossy(&output.stderr);
        let seen = output.status.code().unwrap();
        // curl has several words for a stream that ended too early.
        assert!(
            seen == code || matches!((seen, code), (16 | 18 | 55 | 56 | 92, 56 | 92)),
            "{action:?}: {error}"
        );
        // A reset may overtake what was sent before it.
        if seen != 55 {
            assert_eq!(output.stdout, &site.bytes[..1000], "{action:?}");
        }
    }
}

#[test]
fn frames_are_wrong() {
    for fault in [
        Http2Fault::EndlessContinuation,
        Http2Fault::Pings,
        Http2Fault::Settings,
        Http2Fault::EmptyData,
        Http2Fault::OversizedFrame,
        Http2Fault::UnknownStream,
        Http2Fault::BadHeaderBlock,
    ] {
        let site =
            start_secure(Script::new().always(What::Layer(0), [Action::Http2(fault)]), Http::Two);
        let output = site.curl_within(3, &["--http2"]);
        assert!(!output.status.success(), "{fault:?}");
        assert_eq!(site.registry.requests().len(), 1, "{fault:?}");
    }
}

/// A client that grants nothing gets no data, and from this fault it gets it all the same.
#[test]
fn windows_are_kept_or_ignored() {
    for (actions, expected) in
        [(vec![], 0..1), (vec![Action::Http2(Http2Fault::IgnoredWindow)], 1 << 20..usize::MAX)]
    {
        let site = start_secure(Script::new().always(What::Layer(0), actions), Http::Two);
        let data = data_with_no_window(&site);
        assert!(expected.contains(&data), "{data}");
    }
}

/// Asks for the layer with an initial window of 0 and gives the number of bytes of frames that
/// came, beside headers and settings.
fn data_with_no_window(site: &Secure) -> usize {
    let pem = std::fs::read(site.roots.path()).unwrap();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(&pem).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let name = "localhost".try_into().unwrap();
    let connection = rustls::ClientConnection::new(Arc::new(config), name).unwrap();
    let stream = std::net::TcpStream::connect(site.registry.address()).unwrap();
    let wait = std::time::Duration::from_secs(3);
    stream.set_read_timeout(Some(wait)).unwrap();
    let mut stream = rustls::StreamOwned::new(connection, stream);
    // Preface; SETTINGS with INITIAL_WINDOW_SIZE 0; HEADERS with GET, https and a literal path.
    let mut hello = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    hello.extend([0, 0, 6, 4, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0]);
    let path = u8::try_from(site.path.len()).unwrap();
    hello.extend([0, 0, path + 4, 1, 5, 0, 0, 0, 1, 0x82, 0x87, 0x04, path]);
    hello.extend(site.path.as_bytes());
    stream.write_all(&hello).unwrap();
    let mut data = 0;
    loop {
        let mut head = [0; 9];
        if stream.read_exact(&mut head).is_err() {
            return data;
        }
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
        let mut payload = vec![0; length];
        stream.read_exact(&mut payload).unwrap();
        if head[3] == 0 {
            data += length;
        }
    }
}

//! HTTP/2 as curl sees it: right without a script, and wrong in the ways that only HTTP/2 has.

use super::start_secure;
use crate::{Action, Http, Http2Fault, Script, What};

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
    for fault in
        [Http2Fault::Reset { code: 8, after: 1000 }, Http2Fault::GoAway { code: 11, after: 1000 }]
    {
        let site =
            start_secure(Script::new().always(What::Layer(0), [Action::Http2(fault)]), Http::Two);
        let output = site.curl_within(60, &["--http2"]);
        let error = String::from_utf8_lossy(&output.stderr);
        let code = output.status.code().unwrap();
        // curl has several words for a stream that ended too early.
        assert!(matches!(code, 16 | 18 | 55 | 56 | 92), "{fault:?}: {error}");
        // A reset may overtake what was sent before it.
        if code != 55 {
            assert_eq!(output.stdout, &site.bytes[..1000], "{fault:?}");
        }
    }
}

#[test]
fn frames_are_wrong() {
    for fault in [Http2Fault::Pings, Http2Fault::EmptyData] {
        let site =
            start_secure(Script::new().always(What::Layer(0), [Action::Http2(fault)]), Http::Two);
        let output = site.curl_within(3, &["--http2"]);
        assert!(!output.status.success(), "{fault:?}");
        assert_eq!(site.registry.requests().len(), 1, "{fault:?}");
    }
}

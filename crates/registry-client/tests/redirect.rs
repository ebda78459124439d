//! Redirects: where they lead, and that credentials do not go along.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use crate::support;

use std::sync::{Arc, OnceLock};

use registry_client::Error;
use support::{CONTENT, PASSWORD, USER, entry, guarded, has_credentials, once};
use test_http::pki::Authority;
use test_http::{Server, head, ok};

fn fetch(document: &str, port: u16) -> Result<Vec<u8>, Error> {
    support::fetch(document, port, &once())
}

fn refusal(document: &str, port: u16) -> String {
    support::text(&fetch(document, port).unwrap_err())
}

#[test]
fn credentials_do_not_follow_a_redirect_to_another_host() {
    let authority = Authority::new("test").unwrap();
    let other = Server::start(Some(&authority), |_| ok(CONTENT));
    let location = format!("Location: https://localhost:{}/signed?secret=1\r\n", other.port);
    let registry = Server::start(Some(&authority), move |request| match guarded(request) {
        answer if answer.starts_with("HTTP/1.1 200") => head("307 Temporary Redirect", &location),
        challenge => challenge,
    });
    let document = entry("localhost", USER, PASSWORD, authority.certificate());
    assert_eq!(fetch(&document, registry.port).unwrap(), CONTENT.as_bytes());
    assert!(has_credentials(&registry) && !has_credentials(&other));
    assert!(other.requests()[0].starts_with("GET /signed?secret=1 "));
}

#[test]
fn credentials_do_not_come_back_from_another_host() {
    let authority = Authority::new("test").unwrap();
    let home = Arc::new(OnceLock::new());
    let back = home.clone();
    let other = Server::start(Some(&authority), move |_| {
        let port: &u16 = back.get().unwrap();
        let location = format!("Location: https://localhost:{port}/chosen\r\n");
        head("307 Temporary Redirect", &location)
    });
    let location = format!("Location: https://localhost:{}/\r\n", other.port);
    let registry = Server::start(Some(&authority), move |request| match guarded(request) {
        _ if request.starts_with("GET /chosen ") => ok(CONTENT),
        answer if answer.starts_with("HTTP/1.1 200") => head("307 Temporary Redirect", &location),
        challenge => challenge,
    });
    home.set(registry.port).unwrap();
    let name = format!("localhost:{}", registry.port);
    let document = entry(&name, USER, PASSWORD, authority.certificate());
    assert_eq!(fetch(&document, registry.port).unwrap(), CONTENT.as_bytes());
    let requests = registry.requests();
    let last = requests.last().unwrap().to_ascii_lowercase();
    assert!(last.starts_with("get /chosen ") && !last.contains("\r\nauthorization:"));
    assert!(has_credentials(&registry) && !has_credentials(&other));
}

#[test]
fn bad_redirects_are_refused() {
    let authority = Authority::new("test").unwrap();
    let plain = Server::start(None, |_| ok(CONTENT));
    let downgrade = format!("http://localhost:{}/", plain.port);
    for (location, expected) in [
        (downgrade.as_str(), "only to be asked over plain HTTP"),
        ("/again", "redirects more than 10 times"),
        ("ftp://localhost/", "no HTTP address"),
        ("https://user:password@localhost/", "a password in it"),
        ("", "redirects more than 10 times"),
        ("https://169.254.169.254/latest", "169.254.169.254, an address that only the guest"),
        ("https://[fe80::1]/", "an address that only the guest"),
        ("//metadata.google.internal/", "only the guest or its cloud"),
    ] {
        let location = format!("Location: {location}\r\n");
        let registry = Server::start(Some(&authority), move |_| head("302 Found", &location));
        let document =
            entry(&format!("localhost:{}", registry.port), USER, PASSWORD, authority.certificate());
        let text = refusal(&document, registry.port);
        assert!(text.contains(expected), "{expected}: {text}");
    }
    assert!(plain.requests().is_empty());
}

#[test]
fn a_challenge_of_another_host_gets_nothing() {
    let authority = Authority::new("test").unwrap();
    let other = Server::start(Some(&authority), guarded);
    let location = format!("Location: https://localhost:{}/\r\n", other.port);
    let registry =
        Server::start(Some(&authority), move |_| head("307 Temporary Redirect", &location));
    let document = entry("localhost", USER, PASSWORD, authority.certificate());
    let text = refusal(&document, registry.port);
    assert!(text.contains("401 Unauthorized"), "{text}");
    assert!(!has_credentials(&other) && !has_credentials(&registry));
}

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

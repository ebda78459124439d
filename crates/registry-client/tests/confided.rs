//! A host that wants to be told a secret, as the proxy between the puller and the registry: pulls
//! with credentials that were fetched confidentially. `kata-configdev/tests/route.rs` has the host
//! that answers in other places.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use crate::support;

use registry_client::Stage;
use support::has_credentials;
use support::parties::{CAS_BY_REFERENCE, Parties, assert_innocent, assert_unasked, each};
use test_http::pki::Authority;
use test_http::{Server, Tunnel};

#[test]
fn a_proxy_sees_what_it_cannot_read() {
    // Nobody but the proxy knows where that is.
    let parties = Parties { name: "registry.corp", ..Parties::new() };
    let named = |authority: &Authority| {
        Server::start_with(
            Some(authority.server_config(&[parties.name]).unwrap()),
            support::guarded,
        )
    };
    let (meant, thief) = (named(&parties.owner), named(&parties.host));
    let host = |proxy: u16| {
        format!(
            "[extra-env]\nHTTPS_PROXY = \"http://localhost:{proxy}\"\nHTTP_PROXY \
            = \"http://localhost:{proxy}\"\n{}[registries.\".\"]\ninsecure-skip-verify = true\n",
            parties.trusting(proxy, "insecure-skip-verify = true\n")
        )
    };
    let tunnel = Tunnel::to(meant.port).unwrap();
    for documents in parties.by_either(meant.port, CAS_BY_REFERENCE, &host(tunnel.port)) {
        let before = tunnel.text().len();
        parties.pull(each(&documents), meant.port).unwrap();
        assert!(tunnel.text().len() > before);
    }
    assert!(has_credentials(&meant));
    let connect = format!("CONNECT registry.corp:{} HTTP/1.1", meant.port);
    assert!(tunnel.text().contains(&connect));
    assert_innocent(&tunnel.text());

    // One that lets somebody else answer.
    let astray = Tunnel::to(thief.port).unwrap();
    for documents in parties.by_either(meant.port, CAS_BY_REFERENCE, &host(astray.port)) {
        let error = parties.pull(each(&documents), meant.port);
        let error = error.unwrap_err();
        assert_eq!(error.stage(), Stage::Certificate, "{error}");
    }
    assert!(astray.text().contains(&connect));
    assert_innocent(&astray.text());
    assert_unasked(&thief);
}

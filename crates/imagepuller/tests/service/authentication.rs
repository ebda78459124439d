//! Tokens from a token server on another port, with a password and with a refresh token.

use crate::support::{PASSWORD, Puller, Site, USER, entry};
use vm_harness::{REFRESH_TOKEN, TokenServer};

#[test]
fn privileged_tokens_are_fetched_from_the_realm() {
    vm_harness::needs_root!();
    let site = Site::start();
    let (scratch, authority) = (&site.scratch, &site.authority);
    let tokens = TokenServer::start(scratch, authority, "localhost", USER, PASSWORD).unwrap();
    let realm = format!("{}?kept=1", tokens.realm());
    let registry =
        site.registry
            .with_tokens(scratch, authority, &["localhost"], tokens.signer(), &realm);
    let registry = registry.unwrap();
    let port = registry.port();
    let image = format!("localhost:{port}/team/app@{}", site.layout.manifest);
    let certificate = site.authority.certificate();
    let puller = Puller::start(&site.scratch, None);

    let host = format!("localhost:{port}");
    puller.configure(&entry(&host, USER, "wrong", certificate));
    let refused = "refused the credentials of entry";
    puller.refuse(&image, 69, &["the token server localhost:", refused]);

    puller.configure(&entry(&host, USER, PASSWORD, certificate));
    puller.pull(&image, "c1");
    let requests = tokens.requests();
    let line = requests.last().unwrap().lines().next().unwrap();
    assert_eq!(
        line,
        "GET /token?kept=1&service=registry.test&scope=repository%3Ateam%2Fapp%3Apull HTTP/1.1"
    );

    let refresh = format!(
        "[registries.\"localhost:{port}\"]\nidentitytoken = \"{REFRESH_TOKEN}\"\nca-certs \
        = \"\"\"\n{certificate}\"\"\"\n"
    );
    puller.configure(&refresh);
    puller.pull(&image, "c2");
    let requests = tokens.requests();
    assert!(requests.last().unwrap().starts_with("POST /token?kept=1 "));

    puller.configure(&refresh.replace(REFRESH_TOKEN, "expired"));
    puller.refuse(&image, 69, &["the token server localhost:", refused]);
    assert!(!puller.log().contains(REFRESH_TOKEN));
}

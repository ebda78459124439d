//! Tokens from a token server on another port, with a password and with a refresh token.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

mod support;

use support::{PASSWORD, Puller, Site, USER, entry, is_root};
use vm_harness::{REFRESH_TOKEN, TokenServer};

#[test]
fn privileged_tokens_are_fetched_from_the_realm() {
    if !is_root("privileged_tokens_are_fetched_from_the_realm") {
        return;
    }
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

    puller.configure(&entry(
        &format!("localhost:{port}"),
        USER,
        "wrong",
        certificate,
    ));
    puller.refuse(
        &image,
        69,
        &[
            "the token server localhost:",
            "refused the credentials of entry",
        ],
    );

    puller.configure(&entry(
        &format!("localhost:{port}"),
        USER,
        PASSWORD,
        certificate,
    ));
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
    assert!(
        tokens
            .requests()
            .last()
            .unwrap()
            .starts_with("POST /token?kept=1 ")
    );

    puller.configure(&refresh.replace(REFRESH_TOKEN, "expired"));
    puller.refuse(
        &image,
        69,
        &["the token server localhost:", "refused the credentials"],
    );
    assert!(!puller.log().contains(REFRESH_TOKEN));
}

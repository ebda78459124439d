//! A network where only a proxy with a password knows the registry.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

mod support;

use support::{Puller, Site, is_root};
use vm_harness::Proxy;
use vm_harness::proxy::Rules;

#[test]
fn privileged_the_proxy_of_the_document_is_used() {
    if !is_root("privileged_the_proxy_of_the_document_is_used") {
        return;
    }
    let site = Site::start();
    let rules = Rules {
        username: "proxyuser",
        password: "proxypass",
        names: &["registry.corp"],
        ports: &[],
    };
    let proxy = Proxy::tinyproxy(&site.scratch, &rules).unwrap();
    let port = proxy.port();
    let image = format!(
        "registry.corp:{}/team/app@{}",
        site.registry.port(),
        site.layout.manifest
    );
    let document = |environment: &str| {
        format!(
            "[extra-env]\n{environment}\n{}",
            site.document("registry.corp")
        )
    };
    let puller = Puller::start(&site.scratch, Some(&document("")));
    puller.refuse(&image, 69, &["cannot reach registry.corp:"]);

    puller.configure(&document(&format!(
        "HTTPS_PROXY = \"http://proxyuser:wrong@127.0.0.1:{port}\""
    )));
    puller.refuse(
        &image,
        69,
        &[
            "cannot reach registry.corp:",
            "through the proxy",
            "of [extra-env]",
        ],
    );
    assert!(!puller.log().contains("proxyuser:wrong"));

    let good = format!("https_proxy = \"http://proxyuser:proxypass@127.0.0.1:{port}\"");
    puller.configure(&document(&format!("{good}\nNO_PROXY = \".corp\"")));
    puller.refuse(&image, 69, &["cannot reach registry.corp:"]);

    puller.configure(&document(&good));
    puller.pull(&image, "c1");
    assert!(!puller.log().contains("proxypass"));
}

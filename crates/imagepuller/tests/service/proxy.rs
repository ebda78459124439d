//! A network where only a proxy with a password knows the registry.

use crate::support::{Puller, Site};
use vm_harness::Proxy;
use vm_harness::proxy::Rules;

#[test]
fn privileged_the_proxy_of_the_document_is_used() {
    vm_harness::needs_root!();
    let site = Site::start();
    let rules = Rules {
        username: "proxyuser",
        password: "proxypass",
        names: &["registry.corp"],
        ports: &[],
    };
    let proxy = Proxy::tinyproxy(&site.scratch, &rules).unwrap();
    let port = proxy.port();
    let image = site.image_at("registry.corp");
    let puller = Puller::start(&site.scratch, Some(&site.document("registry.corp")));
    // On this machine, so the owner names it.
    let name = |environment: &str| puller.measure(&format!("[extra-env]\n{environment}\n"));
    puller.refuse(&image, 69, &["cannot reach registry.corp:"]);

    name(&format!("HTTPS_PROXY = \"http://proxyuser:wrong@127.0.0.1:{port}\""));
    puller.refuse(
        &image,
        69,
        &["cannot reach registry.corp:", "through the proxy", "of [extra-env]"],
    );
    assert!(!puller.log().contains("proxyuser:wrong"));

    let good = format!("https_proxy = \"http://proxyuser:proxypass@127.0.0.1:{port}\"");
    name(&format!("{good}\nNO_PROXY = \".corp\""));
    puller.refuse(&image, 69, &["cannot reach registry.corp:"]);

    name(&good);
    puller.pull(&image, "c1");
    assert!(!puller.log().contains("proxypass"));
}

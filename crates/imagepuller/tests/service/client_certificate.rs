//! A registry that speaks TLS only with who shows a certificate.

use test_http::pki::Authority;

use crate::support::{PASSWORD, Puller, Site, USER, entry};

#[test]
fn privileged_a_client_certificate_opens_a_registry_that_wants_one() {
    vm_harness::needs_root!();
    let site = Site::start();
    let (scratch, authority) = (&site.scratch, &site.authority);
    let clients = Authority::new("clients").unwrap();
    let names = &["localhost"][..];
    let registry = site.registry.with_client_certificates(scratch, authority, names, &clients);
    let registry = registry.unwrap();
    let host = format!("localhost:{}", registry.port());
    let image = format!("{host}/team/app@{}", site.layout.manifest);
    let puller = Puller::start(scratch, None);
    let document = entry(&host, USER, PASSWORD, authority.certificate());
    let with = |certificate: &str, key: &str| {
        format!(
            "{document}client-cert = \'\'\'\n{certificate}\'\'\'\nclient-key = \'\'\'\n{key}\'\'\'\n"
        )
    };

    puller.configure(&document);
    puller.refuse(&image, 69, &["cannot reach localhost:"]);

    let good = clients.sign_client("robot").unwrap();
    puller.configure(&with(&good.certificate, &good.key));
    puller.pull(&image, "c1");

    // What is stored needs no registry.
    puller.forget_documents();
    // One that others signed, and a key that is not the certificate's.
    let foreign = authority.sign_client("robot").unwrap();
    puller.configure(&with(&foreign.certificate, &foreign.key));
    puller.refuse(&image, 69, &["cannot reach localhost:"]);
    puller.configure(&with(&good.certificate, &foreign.key));
    let words = "\"client-cert\" and \"client-key\" cannot be used";
    puller.refuse(&image, 69, &[words]);

    // It is not shown to who is not verified.
    let skip = with(&good.certificate, &good.key) + "insecure-skip-verify = true\n";
    puller.configure(&skip);
    puller.refuse(&image, 69, &["cannot reach localhost:"]);
    let log = puller.log();
    let secret = good.key.lines().nth(1).unwrap();
    assert!(!log.contains(secret));
}

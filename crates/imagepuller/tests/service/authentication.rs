//! Tokens from a token server on another port, with a password and with a refresh token.

use std::fs;

use crate::support::{PASSWORD, Puller, Site, USER, entry};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use confidential_fixtures::{DataHub, Vault};
use serde_json::json;
use vm_harness::{REFRESH_TOKEN, TokenServer};

/// An owner's `cdh.toml` says which broker the CDH asks, and how busy it is. The guest asks the CDH
/// behind it, and an error names it where it is not there.
#[test]
fn privileged_what_a_cdh_toml_refers_to_is_asked_of_the_cdh() {
    vm_harness::needs_root!();
    let site = Site::start();
    let path = |name: &str| site.scratch.path().join(name);
    let limit = "max_concurrent_layer_downloads_per_image";
    let text = format!(
        "[kbc]\nname = \"cc_kbc\"\nurl = \"https://kbs.corp\"\nkbs_cert = \"any\"\n[image]\n\
        authenticated_registry_credentials_uri = \"kbs://kbs.corp/default/credential/test\"\n\
        {limit} = 99\nextra_root_certificates = ['''\n{}''']\n",
        site.authority.certificate()
    );
    fs::write(path("cdh.toml"), text).unwrap();
    let (cdh, socket) = (path("cdh.toml").display().to_string(), path("upstream-cdh.sock"));
    let upstream = format!("unix:{}", socket.display());
    let more = ["--cdh", &cdh, "--upstream", &upstream, "--attempts", "1"];
    let puller = Puller::start_with(&site.scratch, "", &more);
    let asked = format!("cdh={upstream} cannot be asked: nobody listens there");
    puller.refuse(&site.image(), 69, &["kbs:///default/credential/test", &asked]);

    let host = format!("localhost:{}", site.registry.port());
    let auth = STANDARD.encode(format!("{USER}:{PASSWORD}"));
    let config = json!({"auths": {host: {"auth": auth}}}).to_string();
    let vault = Vault::new().with("default/credential/test", config);
    let _cdh = DataHub::start(&socket, vault).unwrap();
    puller.pull(&site.image(), "bundle");
    let log = puller.log();
    for words in [limit, "has no effect, the limits of this puller hold", "which is ignored"] {
        assert!(log.contains(words), "{words}: {log}");
    }
}

#[test]
fn privileged_tokens_are_fetched_from_the_realm() {
    vm_harness::needs_root!();
    let site = Site::start();
    let (scratch, authority) = (&site.scratch, &site.authority);
    let tokens = TokenServer::start(scratch, authority, "localhost", USER, PASSWORD).unwrap();
    let realm = format!("{}?kept=1", tokens.realm());
    let registry =
        site.registry.with_tokens(scratch, authority, &["localhost"], tokens.signer(), &realm);
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
    puller.forget_documents();
    puller.pull(&image, "c2");
    let requests = tokens.requests();
    assert!(requests.last().unwrap().starts_with("POST /token?kept=1 "));

    puller.configure(&refresh.replace(REFRESH_TOKEN, "expired"));
    puller.forget_documents();
    puller.refuse(&image, 69, &["the token server localhost:", refused]);
    assert!(!puller.log().contains(REFRESH_TOKEN));
}

/// Each pull once began with the account that had been refused before.
#[test]
fn privileged_the_account_that_worked_is_the_first_the_next_time() {
    vm_harness::needs_root!();
    let site = Site::start();
    let also = format!(
        "[[registries.\"localhost\".also]]\nusername = \"{USER}\"\npassword = \"{PASSWORD}\"\n"
    );
    let document = site.document("localhost").replace(PASSWORD, "wrong") + &also;
    let puller = Puller::start(&site.scratch, Some(&document));
    // The registry challenges who names nobody, and refuses who is wrong.
    let asked = || {
        let request = format!("GET /v2/team/app/manifests/{}", site.layout.manifest);
        let statuses = site.registry.statuses(&request);
        statuses.iter().filter(|status| **status == 401).count()
    };
    puller.pull(&site.image(), "first");
    let first = asked();
    assert!(first > 1, "{first}");
    puller.forget_documents();
    puller.pull(&site.image(), "second");
    assert_eq!(asked() - first, 1, "{}", puller.log());
    let tried = "of entry \"localhost.\" was refused, the next account is tried";
    assert_eq!(puller.log().matches(tried).count(), 1, "{}", puller.log());
}

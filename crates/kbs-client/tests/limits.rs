//! How long things take, and which way they go.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use crate::support;

use std::time::Duration;

use confidential_fixtures::{Kbs, Policy, Vault};
use kbs_client::Limits;
use puller_config::{ResourceSource, Resources};
use support::{PATIENT, ask, broker, client, new_client};
use test_http::End::Silence;
use test_http::{Server, reply};
use url::Url;

/// A broker with `repo/type/tag`, and what it is called.
fn good() -> (Kbs, String) {
    let vault = Vault::new().with("repo/type/tag", "a secret");
    let kbs = Kbs::start(vault, Policy::default(), None).unwrap();
    let source = format!("kbs={}", kbs.base());
    (kbs, source)
}

#[test]
fn proxies_of_the_environment_are_not_used() {
    // The variables cannot be set here without a race, so the whole test runs again with them.
    const AGAIN: &str = "KBS_CLIENT_TEST_PROXY";
    if std::env::var_os(AGAIN).is_some() {
        let (_kbs, source) = good();
        assert_eq!(ask(&client(&[&source], PATIENT)).unwrap(), b"a secret");
        return;
    }
    let proxy = Server::always(reply("200 OK", "", "of the proxy"));
    let address = format!("http://127.0.0.1:{}", proxy.port);
    let output = std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "limits::proxies_of_the_environment_are_not_used"])
        .env(AGAIN, "1")
        .envs(
            ["http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"]
                .map(|name| (name, &address)),
        )
        .env_remove("no_proxy")
        .env_remove("NO_PROXY")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("1 passed"), "{said}");
    assert!(proxy.requests().is_empty());
}

/// Secrets go to `localhost` in clear, so nobody else may say where that is.
#[test]
fn privileged_localhost_is_the_guest_whatever_the_hosts_file_says() {
    const AGAIN: &str = "KBS_CLIENT_TEST_LOCALHOST";
    if std::env::var_os(AGAIN).is_some() {
        let (kbs, _) = good();
        let source = format!("kbs=http://localhost:{}", kbs.port());
        assert_eq!(ask(&client(&[&source], PATIENT)).unwrap(), b"a secret");
        return;
    }
    vm_harness::needs_root!();
    let hosts = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&hosts, "192.0.2.1 localhost\n").unwrap();
    let script = "mount --bind \"$1\" /etc/hosts && exec \"$2\" --exact \"$3\"";
    let output = std::process::Command::new("unshare")
        .args(["--mount", "sh", "-c", script, "sh"])
        .arg(hosts.path())
        .arg(std::env::current_exe().unwrap())
        .arg("limits::privileged_localhost_is_the_guest_whatever_the_hosts_file_says")
        .env(AGAIN, "1")
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("1 passed"), "{said}");
}

/// One source that hangs does not keep the next one from being asked; all of them together have an
/// end.
#[test]
fn time_is_bounded_for_each_request_and_for_the_whole() {
    let silent = Server::always((String::new(), Silence));
    let (kbs, good) = good();
    // As long as the good one needs on this machine.
    let found = [1, 10, 60].map(Duration::from_secs).into_iter().find_map(|request| {
        let limits = Limits { request, ..PATIENT };
        ask(&client(&[&broker(&silent), &good], limits)).ok()
    });
    assert_eq!(found.unwrap(), b"a secret");

    let asked = kbs.requests().len();
    let limits = Limits { request: Duration::from_secs(180), whole: Duration::from_millis(500) };
    let error = ask(&client(&[&broker(&silent), &good], limits)).unwrap_err();
    assert!(error.contains("when the 0.5 seconds for all sources were over"), "{error}");
    assert_eq!(kbs.requests().len(), asked);
}

#[test]
fn plain_http_is_for_the_guest_itself() {
    for (source, is_fine) in [
        (ResourceSource::Broker(Url::parse("http://127.0.0.1:8006").unwrap()), true),
        (ResourceSource::Broker(Url::parse("http://[::1]:8006").unwrap()), true),
        (ResourceSource::Broker(Url::parse("http://localhost:8006").unwrap()), true),
        (ResourceSource::Broker(Url::parse("http://10.0.0.1:8006").unwrap()), false),
        (ResourceSource::Broker(Url::parse("http://127.0.0.2:8080").unwrap()), true),
        (ResourceSource::Broker(Url::parse("https://kbs.corp").unwrap()), true),
        (ResourceSource::Broker(Url::parse("http://kbs.corp").unwrap()), false),
        (ResourceSource::Broker(Url::parse("http://localhost.corp").unwrap()), false),
        (ResourceSource::Broker(Url::parse("ftp://127.0.0.1").unwrap()), false),
    ] {
        let shown = source.to_string();
        let resources = Resources { sources: vec![source], ..Resources::default() };
        let made = new_client(&resources, PATIENT);
        assert_eq!(made.is_ok(), is_fine, "{shown}");
        if let Err(error) = made {
            assert!(error.to_string().contains("127.0.0.1, [::1] and localhost only"), "{error}");
        }
    }
}

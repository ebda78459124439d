//! Registries that only a proxy knows: CONNECT, plain HTTP, TLS to the proxy, SOCKS5, and proxies
//! that are in the way.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use crate::support;

use registry_client::Patience;
use support::{CONTENT, PASSWORD, USER, digest, entry, hasty, open, run, text};
use test_http::pki::Authority;
use test_http::{Server, ok};
use vm_harness::proxy::Rules;
use vm_harness::{Proxy, Scratch, is_root};

const PROXY_USER: &str = "proxyuser";
const PROXY_PASSWORD: &str = "proxypass";

/// For a proxy that opens ways to these ports, or to all.
const fn rules(ports: &'static [u16]) -> Rules<'static> {
    Rules { username: PROXY_USER, password: PROXY_PASSWORD, names: &["registry.corp"], ports }
}

/// A registry called `registry.corp`, which is nowhere but where a proxy says.
struct Site {
    scratch: Scratch,
    authority: Authority,
    registry: Server,
}

impl Site {
    fn start() -> Self {
        let authority = Authority::new("test").unwrap();
        let config = authority.server_config(&["registry.corp"]).unwrap();
        Self {
            scratch: Scratch::new().unwrap(),
            registry: Server::start_with(Some(config), |_| ok(CONTENT)),
            authority,
        }
    }

    /// Fetches under `[extra-env]` and more entries.
    fn fetch(&self, environment: &str, more: &str) -> Result<(), String> {
        let entry = entry("registry.corp", USER, PASSWORD, self.authority.certificate());
        fetch(&format!("[extra-env]\n{environment}\n{entry}{more}"), self.registry.port)
    }

    /// The same, through a proxy with the right user.
    fn through(&self, variable: &str, scheme: &str, host: &str, more: &str) -> Result<(), String> {
        let proxy = format!("{scheme}://{PROXY_USER}:{PROXY_PASSWORD}@{host}");
        self.fetch(&format!("{variable} = \"{proxy}\""), more)
    }
}

fn fetch(document: &str, port: u16) -> Result<(), String> {
    run(async {
        let patience = Patience { attempts: Some(2), ..hasty() };
        let registry = open(document, &format!("registry.corp:{port}"), &patience).unwrap();
        let fetched = registry.manifest(&digest()).await.map_err(|error| text(&error))?;
        assert!(fetched.verify(&digest(), None).is_ok());
        Ok(())
    })
    .inspect_err(|error: &String| assert!(!error.contains(PROXY_PASSWORD), "{error}"))
}

#[test]
fn privileged_a_proxy_opens_a_way() {
    if !is_root("privileged_a_proxy_opens_a_way") {
        return;
    }
    let site = Site::start();
    let proxy = Proxy::tinyproxy(&site.scratch, &rules(&[])).unwrap();
    let host = format!("127.0.0.1:{}", proxy.port());
    assert!(site.fetch("", "").unwrap_err().contains("cannot reach registry.corp:"));
    site.through("HTTPS_PROXY", "http", &host, "").unwrap();
    assert_eq!(
        site.through("HTTP_PROXY", "http", &host, "").unwrap_err().matches("proxy").count(),
        0
    );

    // A proxy that wants credentials says so with 407; tinyproxy refuses wrong ones with another
    // code.
    let named = format!("through the proxy http://{{}}{host} of [extra-env]: ");
    for (user, shown, words) in [
        ("", "", "the proxy wants other credentials (407"),
        ("other:x@", "[redacted]@", "it refuses the credentials or"),
    ] {
        let environment = format!("HTTPS_PROXY = \"http://{user}{host}\"");
        let error = site.fetch(&environment, "").unwrap_err();
        assert!(error.contains(&named.replace("{}", shown)), "{error}");
        assert!(error.contains(words), "{words}: {error}");
        assert_eq!(error.contains("attempts"), !user.is_empty(), "{error}");
    }
    let strict = Proxy::tinyproxy(&site.scratch, &rules(&[443])).unwrap();
    let closed = format!("127.0.0.1:{}", strict.port());
    let error = site.through("HTTPS_PROXY", "http", &closed, "").unwrap_err();
    assert!(error.contains("the proxy does not open a way there"), "{error}");
    drop(strict);
    let error = site.through("HTTPS_PROXY", "http", &closed, "").unwrap_err();
    assert!(
        error.contains("2 attempts: ") && error.contains("the proxy itself does not answer: "),
        "{error}"
    );

    // Plain HTTP goes to the other variable.
    let plain = Server::start(None, |_| ok(CONTENT));
    let document = |variable: &str, user: &str| {
        format!(
            "[extra-env]\n{variable} = \"http://{user}{host}\"\n[registries.\"registry.corp:{0}\"]\nmirror = \"http://registry.corp:{0}\"\nplain-http = true\n",
            plain.port
        )
    };
    let known = format!("{PROXY_USER}:{PROXY_PASSWORD}@");
    fetch(&document("HTTP_PROXY", &known), plain.port).unwrap();
    assert!(fetch(&document("HTTPS_PROXY", &known), plain.port).is_err());
    let error = fetch(&document("HTTP_PROXY", ""), plain.port).unwrap_err();
    assert!(error.contains("the proxy wants other credentials (407"), "{error}");
}

#[test]
fn privileged_a_proxy_over_tls_is_verified() {
    if !is_root("privileged_a_proxy_over_tls_is_verified") {
        return;
    }
    let site = Site::start();
    let proxy = Proxy::tinyproxy(&site.scratch, &rules(&[])).unwrap();
    let same = Proxy::tls_front(
        &site.scratch,
        &site.authority.sign(&["localhost"]).unwrap(),
        proxy.port(),
    )
    .unwrap();
    let host = format!("localhost:{}", same.port());
    site.through("HTTPS_PROXY", "https", &host, "").unwrap();

    // By its own entry, if it has one; and that the registry's certificate goes unchecked does not
    // concern it.
    let other = Authority::new("another").unwrap();
    let front = Proxy::tls_front(&site.scratch, &other.sign(&["localhost"]).unwrap(), proxy.port())
        .unwrap();
    let host = format!("localhost:{}", front.port());
    let error = site.through("HTTPS_PROXY", "https", &host, "").unwrap_err();
    for words in [
        format!(
            "the certificate of the proxy https://[redacted]@{host} of [extra-env] is not trusted: "
        ),
        "an unknown authority, \"CN=another\"".to_owned(),
        "in \"ca-certs\" of entry \"registry.corp.\"".to_owned(),
    ] {
        assert!(error.contains(&words), "{words}: {error}");
    }
    let skip = format!(
        "[registries.\"registry.corp:{}\"]\ninsecure-skip-verify = true\nca-certs \
        = \"\"\"\n{}\"\"\"\n",
        site.registry.port,
        site.authority.certificate()
    );
    let error = site.through("HTTPS_PROXY", "https", &host, &skip).unwrap_err();
    assert!(error.contains("the certificate of the proxy"), "{error}");
    let own = entry(&host, "unused", "unused", other.certificate());
    site.through("HTTPS_PROXY", "https", &host, &own).unwrap();
}

#[test]
fn privileged_socks_resolves_names() {
    if !is_root("privileged_socks_resolves_names") {
        return;
    }
    let site = Site::start();
    let proxy = Proxy::microsocks(&site.scratch, &rules(&[])).unwrap();
    let host = format!("127.0.0.1:{}", proxy.port());
    for scheme in ["socks5", "socks5h"] {
        site.through("HTTPS_PROXY", scheme, &host, "").unwrap();
    }
    let error =
        site.fetch(&format!("HTTPS_PROXY = \"socks5://{PROXY_USER}:x@{host}\""), "").unwrap_err();
    assert!(
        error.contains(&format!(
            "through the proxy socks5h://[redacted]@{host} of [extra-env]: the proxy "
        )),
        "{error}"
    );
    drop(proxy);
    let error = site.through("HTTPS_PROXY", "socks5", &host, "").unwrap_err();
    assert!(error.contains("the proxy itself does not answer"), "{error}");
}

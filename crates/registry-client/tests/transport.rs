//! Where credentials go and where they do not: token servers, plain HTTP, unchecked certificates.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use crate::support;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use registry_client::{Error, PlainHosts};
use support::{CONTENT, PASSWORD, USER, entry, guarded, has_credentials, once};
use test_http::pki::Authority;
use test_http::{Server, head, ok};
use vm_harness::Port;

fn fetch(document: &str, port: u16) -> Result<Vec<u8>, Error> {
    support::fetch(document, port, &once())
}

fn refusal(document: &str, port: u16) -> String {
    support::text(&fetch(document, port).unwrap_err())
}

/// A host that was redirected to could once have the credentials sent to any address of the
/// registry.
#[test]
fn plain_http_is_no_way_to_hosts_without_leave() {
    let other = Server::start(None, |_| ok(CONTENT));
    let location = format!("Location: http://localhost:{}/\r\n", other.port);
    let registry = Server::start(None, move |request| {
        if request.starts_with("GET /again ") {
            return head("307 Temporary Redirect", &location);
        }
        head("307 Temporary Redirect", "Location: /again\r\n")
    });
    let name = |port| format!("[registries.\"localhost:{port}\"]\n");
    for leave in ["plain-http = true\n", "insecure-skip-verify = true\n"] {
        let document = format!("{}{leave}", name(registry.port));
        let text = refusal(&document, registry.port);
        let expected = format!("localhost:{} is only to be asked over plain", other.port);
        assert!(text.contains(&expected), "{text}");
        assert!(other.requests().is_empty());
    }
    let both = [registry.port, other.port].map(|port| format!("{}plain-http = true\n", name(port)));
    assert!(fetch(&both.concat(), registry.port).is_ok());
}

/// Credentials are not for clear text under `insecure-skip-verify`, but a token that everyone gets
/// is none.
#[test]
fn an_anonymous_token_goes_over_plain_http() {
    let authority = Authority::new("test").unwrap();
    let tokens = Server::start(Some(&authority), |_| ok("{\"token\":\"t\"}"));
    let far = format!("https://localhost:{}/token", tokens.port);
    for realm in [far, "http://localhost/token".to_owned()] {
        let own = Arc::new(OnceLock::new());
        let port = own.clone();
        let registry = Server::start(None, move |request| {
            let lower = request.to_ascii_lowercase();
            if request.starts_with("GET /token") {
                return ok("{\"token\":\"t\"}");
            }
            if lower.contains("\r\nauthorization: bearer t\r\n") {
                return ok(CONTENT);
            }
            let port: &u16 = port.get().unwrap();
            let realm = realm.replace("localhost/", &format!("localhost:{port}/"));
            let challenge = format!("WWW-Authenticate: Bearer realm=\"{realm}\"\r\n");
            head("401 Unauthorized", &challenge)
        });
        own.set(registry.port).unwrap();
        let document = format!(
            "[registries.\"localhost:{}\"]\ninsecure-skip-verify = true\nca-certs \
            = \"\"\"\n{}\"\"\"\n",
            registry.port,
            authority.certificate()
        );
        assert_eq!(fetch(&document, registry.port).unwrap(), CONTENT.as_bytes());
    }
}

/// `plain-http` and `insecure-skip-verify` of an entry weaken the transport to the host it names,
/// and to no other one.
#[test]
fn plain_http_concerns_one_host() {
    let authority = Authority::new("test").unwrap();
    let plain = Server::start(None, |_| ok("{\"token\":\"t\"}"));
    let location = format!("Location: http://localhost:{}/\r\n", plain.port);
    let realm =
        format!("WWW-Authenticate: Bearer realm=\"http://localhost:{}/token\"\r\n", plain.port);
    for (status, header, expected) in [
        ("302 Found", location, "only to be asked over plain HTTP"),
        ("401 Unauthorized", realm, "not asked over plain HTTP"),
    ] {
        let registry = Server::start(Some(&authority), move |_| head(status, &header));
        let name = format!("localhost:{}", registry.port);
        let document = entry(&name, USER, PASSWORD, authority.certificate());
        let text = refusal(&format!("{document}plain-http = true\n"), registry.port);
        assert!(text.contains(expected), "{expected}: {text}");
    }
    assert!(plain.requests().is_empty());
}

#[test]
fn a_token_server_must_be_verified() {
    let authority = Authority::new("test").unwrap();
    let plain = Server::start(None, |_| ok("{\"token\":\"t\"}"));
    let unknown =
        Server::start(Some(&Authority::new("unknown").unwrap()), |_| ok("{\"token\":\"t\"}"));
    let realms = [
        (format!("http://localhost:{}/token", plain.port), "not asked over plain HTTP"),
        (format!("https://localhost:{}/token", unknown.port), "leaves its certificate unchecked"),
        (
            format!("https://user:{PASSWORD}@localhost/token").replace(' ', "%20"),
            "a password in its address",
        ),
        ("file:///etc/passwd".to_owned(), "no HTTP address"),
    ];
    for (realm, expected) in realms {
        let challenge = format!("WWW-Authenticate: Bearer realm=\"{realm}\",service=\"x\"\r\n");
        let registry =
            Server::start(Some(&authority), move |_| head("401 Unauthorized", &challenge));
        let document = format!(
            "{}[registries.\"localhost:{}\"]\ninsecure-skip-verify = true\n",
            entry(&format!("localhost:{}", registry.port), USER, PASSWORD, authority.certificate()),
            unknown.port,
        );
        let text = refusal(&document, registry.port);
        assert!(text.contains(expected), "{expected}: {text}");
        assert!(
            !text.contains("correct") && !text.contains("user@") && !text.contains("user:"),
            "{text}"
        );
    }
    assert!(plain.requests().is_empty() && unknown.requests().is_empty());
}

#[test]
fn plain_http_is_asked_only_where_allowed() {
    let name = "[registries.\"localhost\"]\n";
    let login = format!("{name}username = \"{USER}\"\npassword = \"{PASSWORD}\"\n");
    let registry = Server::start(None, guarded);
    let text = refusal(&login, registry.port);
    assert!(text.contains("it does not speak TLS"), "{text}");
    assert!(registry.requests().iter().all(|request| !request.starts_with("GET ")));

    let text = refusal(&format!("{login}insecure-skip-verify = true\n"), registry.port);
    assert!(text.contains("sent that way only with \"plain-http = true\""), "{text}");
    assert!(!has_credentials(&registry));

    assert!(fetch(&format!("{login}plain-http = true\n"), registry.port).is_ok());
    assert!(has_credentials(&registry));

    let open = Server::start(None, |_| ok(CONTENT));
    assert!(fetch(&format!("{name}insecure-skip-verify = true\n"), open.port).is_ok());
}

/// A host behind a redirect that refuses connections could once have the registry asked in clear.
/// Each pull from a registry without TLS once began with two round trips for nothing.
#[test]
fn a_host_without_tls_is_remembered_for_those_who_allow_it() {
    let answers = AtomicUsize::new(0);
    let registry = Server::start(None, move |request| {
        let is_fourth = || answers.fetch_add(1, Ordering::SeqCst) == 3;
        // As a host that speaks TLS by now answers to plain HTTP.
        if request.starts_with("GET ") && is_fourth() {
            return head("400 Bad Request", "");
        }
        ok(CONTENT)
    });
    let known = Arc::new(PlainHosts::default());
    let asked = |key: &str| {
        let before = registry.requests().len();
        let document = format!("[registries.\"localhost:{}\"]\n{key} = true\n", registry.port);
        let host = format!("localhost:{}", registry.port);
        support::run(async {
            let source = support::open(&document, &host, &once()).unwrap();
            let source = source.with_plain_hosts(known.clone());
            source.manifest(&support::digest()).await.unwrap();
        });
        let asked = registry.requests().split_off(before);
        let is_tls = asked.iter().map(|request| request.starts_with("TLS"));
        is_tls.collect::<Vec<_>>()
    };
    let (tls, plain) = (true, false);
    assert_eq!(asked("plain-http"), [tls, plain], "the first time");
    assert_eq!(asked("plain-http"), [plain]);
    // Who allows it for want of better has TLS tried each time.
    assert_eq!(asked("insecure-skip-verify"), [tls, plain]);
    assert_eq!(asked("plain-http"), [plain, tls, plain], "after the 400");
    assert_eq!(asked("plain-http"), [plain], "known again");
}

#[test]
fn a_redirect_is_no_reason_for_plain_http() {
    let authority = Authority::new("test").unwrap();
    let closed = Port::reserve().unwrap();
    let other = format!("localhost:{}", closed.number());
    let location = format!("Location: https://{other}/\r\n");
    let registry =
        Server::start(Some(&authority), move |_| head("307 Temporary Redirect", &location));
    let name = format!("localhost:{}", registry.port);
    let document = format!(
        "[registries.\"{name}\"]\nplain-http = true\nca-certs = \"\"\"\n{}\"\"\"\n",
        authority.certificate()
    );
    let text = refusal(&document, registry.port);
    assert!(text.starts_with(&format!("cannot reach {other}: ")), "{text}");
    assert!(!text.contains("plain"), "{text}");
}

#[test]
fn both_ways_that_failed_are_told() {
    let registry = Server::start(None, |_| "nonsense\r\n\r\n".to_owned());
    let text = refusal(&support::plain(registry.port), registry.port);
    for words in ["what answers there is no HTTP", "over TLS: ", "it does not speak TLS"] {
        assert!(text.contains(words), "{words}: {text}");
    }
    // Where both say the same, it is said once.
    let closed = Port::reserve().unwrap();
    let text = refusal(&support::plain(closed.number()), closed.number());
    assert!(text.starts_with("cannot reach ") && !text.contains("over TLS"), "{text}");
}

#[test]
fn an_unchecked_certificate_concerns_one_host() {
    let (known, unknown) = (Authority::new("known").unwrap(), Authority::new("unknown").unwrap());
    let other = Server::start(Some(&unknown), |_| ok(CONTENT));
    let location = format!("Location: https://localhost:{}/\r\n", other.port);
    let registry =
        Server::start(Some(&unknown), move |_| head("307 Temporary Redirect", &location));
    let skipping = |port: u16| {
        format!(
            "[registries.\"localhost:{port}\"]\ninsecure-skip-verify = true\nca-certs \
            = \"\"\"\n{}\"\"\"\n",
            known.certificate()
        )
    };
    assert!(fetch(&skipping(other.port), other.port).is_ok());
    let text = refusal(&skipping(registry.port), registry.port);
    assert!(
        text.contains(&format!("certificate of localhost:{} is not trusted", other.port)),
        "{text}"
    );
    // Plain HTTP is no way around a certificate that is not trusted.
    let plain = format!(
        "[registries.\"localhost\"]\nplain-http = true\nca-certs = \"\"\"\n{}\"\"\"\n",
        known.certificate()
    );
    assert!(refusal(&plain, other.port).contains("unknown authority"));
}

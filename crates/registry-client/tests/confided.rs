//! A host that wants to be told a secret: pulls with credentials that were fetched confidentially,
//! under documents and servers of a host that does all it can. Its servers keep what they are told,
//! and it must be nothing.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use crate::support;

use std::sync::{Arc, OnceLock};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use registry_client::Error;
use support::parties::{
    ACCESS, BY_REFERENCE, CAS_BY_REFERENCE, Parties, REFRESH, USER, assert_innocent,
    assert_unasked, each,
};
use support::{CONTENT, PASSWORD, fetch, has_credentials, once, text};
use test_http::pki::Authority;
use test_http::{Server, Tunnel, head, ok};

/// A registry with Basic authentication.
fn registry(authority: &Authority) -> Server {
    Server::start(Some(authority), support::guarded)
}

/// A registry that sends its callers to a token server.
fn with_realm(authority: &Authority, realm: &str) -> Server {
    let challenge = format!("WWW-Authenticate: Bearer realm=\"{realm}\",service=\"s\"\r\n");
    Server::start(Some(authority), move |request| {
        let sent = format!("authorization: bearer {ACCESS}");
        if request.to_ascii_lowercase().contains(&sent) {
            return ok(CONTENT);
        }
        head("401 Unauthorized", &challenge)
    })
}

/// Gives a token to everyone.
fn token_server(authority: Option<&Authority>) -> Server {
    Server::start(authority, |_| ok(&format!("{{\"token\":\"{ACCESS}\"}}")))
}

/// The twin of all rows below: that the secret is sent at all, and where.
#[test]
fn the_registry_and_its_token_server_are_told() {
    let parties = Parties::new();
    let plain = registry(&parties.owner);
    for documents in parties.by_either(plain.port, CAS_BY_REFERENCE, "") {
        parties.pull(each(&documents), plain.port, plain.port).unwrap();
    }
    assert!(has_credentials(&plain));
    let tokens = token_server(Some(&parties.owner));
    let realm = format!("https://localhost:{}/token", tokens.port);
    let server = with_realm(&parties.owner, &realm);
    for documents in parties.by_either(server.port, CAS_BY_REFERENCE, "") {
        let asked = tokens.requests().len();
        parties.pull(each(&documents), server.port, server.port).unwrap();
        let members = format!("\"identitytoken\":\"{REFRESH}\"");
        parties.pull_with(each(&documents), server.port, server.port, &members).unwrap();
        let requests: String =
            tokens.requests()[asked..].iter().map(|request| &**request).collect();
        let pair = BASE64_STANDARD.encode(format!("{USER}:{PASSWORD}"));
        assert!(requests.contains(&pair) && requests.contains(REFRESH));
    }
    let refused = Server::start(Some(&parties.owner), |_| {
        head("401 Unauthorized", "WWW-Authenticate: Basic realm=\"x\"\r\n")
    });
    for documents in parties.by_either(refused.port, CAS_BY_REFERENCE, "") {
        let error = parties.pull(each(&documents), refused.port, refused.port);
        let error = text(&error.unwrap_err());
        assert!(error.contains("what \"credentials-uri\" of "), "{error}");
        assert!(error.contains("in that resource"), "{error}");
    }
}

/// The same hosts and documents with credentials that the host gave itself: that these servers can
/// be told something.
#[test]
fn the_host_is_told_what_it_gave_itself() {
    let parties = Parties::new();
    let login = format!("username = \"{USER}\"\npassword = \"{PASSWORD}\"\n");
    let entry = |port: u16, keys: &str| format!("[registries.\"localhost:{port}\"]\n{keys}");
    let ca = |authority: &Authority| {
        let text = authority.certificate();
        format!("ca-certs = \"\"\"\n{text}\"\"\"\n")
    };
    let weak = "insecure-skip-verify = true\nplain-http = true\n".to_owned();
    for authority in [Some(&parties.host), None] {
        let server = Server::start(authority, support::guarded);
        let document = entry(server.port, &format!("{login}{weak}"));
        fetch(&document, server.port, &once()).unwrap();
        assert!(has_credentials(&server));
    }
    let trusting = ca(&parties.host);
    for (scheme, authority, keys) in
        [("http", None, weak), ("https", Some(&parties.host), trusting.clone())]
    {
        let tokens = token_server(authority);
        let realm = format!("{scheme}://localhost:{}/token", tokens.port);
        let registry = with_realm(&parties.owner, &realm);
        let own = format!("{login}{}", ca(&parties.owner));
        let document = entry(registry.port, &own) + &entry(tokens.port, &keys);
        fetch(&document, registry.port, &once()).unwrap();
        assert!(has_credentials(&tokens));
    }
    let mirror = registry(&parties.host);
    let url = format!("mirror = \"https://localhost:{}\"\n", mirror.port);
    let document = entry(5000, &format!("{login}{trusting}{url}"));
    fetch(&document, 5000, &once()).unwrap();
    assert!(has_credentials(&mirror));
}

#[test]
fn another_registry_is_told_nothing() {
    let parties = Parties::new();
    let (meant, other) = (registry(&parties.owner), registry(&parties.owner));
    for documents in parties.by_either(other.port, CAS_BY_REFERENCE, "") {
        let error = parties.pull(each(&documents), other.port, meant.port);
        let error = error.unwrap_err();
        assert!(
            matches!(error, Error::Route(pull_route::Error::UnfitCredentials { .. })),
            "{error}"
        );
        assert!(!text(&error).contains(&meant.port.to_string()));
    }
    assert!(meant.requests().is_empty());
    assert_unasked(&other);
}

/// The host answers at the registry's own address.
#[test]
fn whoever_sits_in_the_registrys_place_is_told_nothing() {
    let parties = Parties::new();
    let (tls, plain) = (registry(&parties.host), Server::start(None, support::guarded));
    let ca = format!("ca-certs = \"\"\"\n{}\"\"\"\n", parties.host.certificate());
    for server in [&tls, &plain] {
        let port = server.port;
        for weakness in [
            "",
            "insecure-skip-verify = true\n",
            "plain-http = true\n",
            "insecure-skip-verify = true\nplain-http = true\n",
        ] {
            let keys = format!("{weakness}{CAS_BY_REFERENCE}");
            let under = format!("[registries.\".\"]\n{ca}{weakness}");
            for documents in parties.by_either(port, &keys, &under) {
                parties.pull(each(&documents), port, port).unwrap_err();
            }
            // The host's own CAs beside the host's reference.
            let keys = format!("{BY_REFERENCE}{ca}{weakness}");
            let document = format!("[registries.\"localhost:{port}\"]\n{keys}");
            let error = parties.pull(["", &document], port, port).unwrap_err();
            if server.port == tls.port {
                assert!(matches!(error, Error::Certificate { .. }), "{error}");
                let error = text(&error);
                assert!(error.contains("no \"ca-certs-uri\" beside it"), "{error}");
            }
        }
        assert_unasked(server);
    }
}

#[test]
fn a_token_server_of_the_hosts_is_told_nothing() {
    let parties = Parties::new();
    let (clear, tls) = (token_server(None), token_server(Some(&parties.host)));
    for (scheme, server) in [("http", &clear), ("https", &tls)] {
        let realm = format!("{scheme}://localhost:{}/token", server.port);
        let registry = with_realm(&parties.owner, &realm);
        for keys in [
            "",
            "insecure-skip-verify = true\n",
            "plain-http = true\n",
            "insecure-skip-verify = true\nplain-http = true\n",
        ] {
            let host = parties.trusting(server.port, keys);
            for documents in parties.by_either(registry.port, CAS_BY_REFERENCE, &host) {
                for members in [
                    format!("\"username\":\"{USER}\",\"password\":\"{PASSWORD}\""),
                    format!("\"identitytoken\":\"{REFRESH}\""),
                ] {
                    let port = registry.port;
                    let error = parties.pull_with(each(&documents), port, port, &members);
                    let error = error.unwrap_err();
                    match scheme {
                        "http" => assert!(
                            matches!(error, Error::Route(pull_route::Error::Realm { .. })),
                            "{error}"
                        ),
                        _ => assert!(matches!(error, Error::Certificate { .. }), "{error}"),
                    }
                    text(&error);
                }
            }
        }
        assert_unasked(server);
        assert_innocent(&registry.transcript());
    }
}

/// The owner's own word, but not for a secret.
#[test]
fn what_the_owner_weakens_is_strong_in_these_pulls() {
    let parties = Parties::new();
    let (clear, tls) = (token_server(None), token_server(Some(&parties.host)));
    for (scheme, server) in [("http", &clear), ("https", &tls)] {
        let realm = format!("{scheme}://localhost:{}/token", server.port);
        let registry = with_realm(&parties.owner, &realm);
        let port = registry.port;
        let weak = "insecure-skip-verify = true\nplain-http = true\n";
        let measured = format!(
            "[registries.\"localhost:{}\"]\n{weak}[registries.\"localhost:{port}\"]\n{weak}{BY_REFERENCE}{CAS_BY_REFERENCE}",
            server.port
        );
        parties.pull([&measured, ""], port, port).unwrap_err();
        assert_unasked(server);
        assert_innocent(&registry.transcript());
    }
}

#[test]
fn a_mirror_of_the_hosts_is_not_asked() {
    let parties = Parties::new();
    let (meant, mirror) = (registry(&parties.owner), registry(&parties.host));
    let own = parties.trusting(mirror.port, "");
    let keys = format!("mirror = \"https://localhost:{}\"\nmirror-fallback = true\n", mirror.port);
    let host = format!("{own}[registries.\".\"]\n{keys}");
    for documents in parties.by_either(meant.port, CAS_BY_REFERENCE, &host) {
        parties.pull(each(&documents), meant.port, meant.port).unwrap();
    }
    let [_, [_, configuration]] =
        parties.by_either(meant.port, &format!("{CAS_BY_REFERENCE}{keys}"), &own);
    parties.pull(["", &configuration], meant.port, meant.port).unwrap();
    assert!(mirror.requests().is_empty());
    assert!(has_credentials(&meant));
}

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
        parties.pull(each(&documents), meant.port, meant.port).unwrap();
        assert!(tunnel.text().len() > before);
    }
    assert!(has_credentials(&meant));
    let connect = format!("CONNECT registry.corp:{} HTTP/1.1", meant.port);
    assert!(tunnel.text().contains(&connect));
    assert_innocent(&tunnel.text());

    // One that lets somebody else answer.
    let astray = Tunnel::to(thief.port).unwrap();
    for documents in parties.by_either(meant.port, CAS_BY_REFERENCE, &host(astray.port)) {
        let error = parties.pull(each(&documents), meant.port, meant.port);
        let error = error.unwrap_err();
        assert!(matches!(error, Error::Certificate { .. }), "{error}");
    }
    assert!(astray.text().contains(&connect));
    assert_innocent(&astray.text());
    assert_unasked(&thief);
}

#[test]
fn a_redirect_carries_nothing_and_stays_within_tls() {
    let parties = Parties::new();
    let good = Server::start(Some(&parties.owner), |_| ok(CONTENT));
    let clear = Server::start(None, |_| ok(CONTENT));
    let bad = Server::start(Some(&parties.host), |_| ok(CONTENT));
    for (scheme, storage) in [("https", &good), ("http", &clear), ("https", &bad)] {
        let location = format!("Location: {scheme}://localhost:{}/blob\r\n", storage.port);
        let meant =
            Server::start(Some(&parties.owner), move |request| match support::guarded(request) {
                answer if answer.starts_with("HTTP/1.1 200") => {
                    head("307 Temporary Redirect", &location)
                }
                challenge => challenge,
            });
        let weak = "insecure-skip-verify = true\nplain-http = true\n";
        // Its name without a port, which would hold for all of them.
        let host =
            format!("{}[registries.\"localhost\"]\n{weak}", parties.trusting(storage.port, weak));
        let host = if storage.port == good.port { "" } else { &host };
        for documents in parties.by_either(meant.port, CAS_BY_REFERENCE, host) {
            let pulled = parties.pull(each(&documents), meant.port, meant.port);
            if storage.port == good.port {
                pulled.unwrap();
                continue;
            }
            match (scheme, pulled.unwrap_err()) {
                ("http", Error::Route(pull_route::Error::PlainHttp { .. }))
                | ("https", Error::Certificate { .. }) => {}
                (_, error) => panic!("{error}"),
            }
        }
        assert!(has_credentials(&meant));
        assert_innocent(&storage.transcript());
    }
    assert!(!good.requests().is_empty());
    assert_unasked(&clear);
    assert_unasked(&bad);
}

/// A registry's own host in clear, as a redirect and as a token server: the same name, another
/// port, no TLS.
#[test]
fn the_registrys_own_name_in_clear_is_told_nothing() {
    let parties = Parties::new();
    let own = Arc::new(OnceLock::new());
    let port = own.clone();
    let meant = Server::start(Some(&parties.owner), move |_| {
        let port: &u16 = port.get().unwrap();
        let realm = format!("http://localhost:{port}/token");
        head("401 Unauthorized", &format!("WWW-Authenticate: Bearer realm=\"{realm}\"\r\n"))
    });
    own.set(meant.port).unwrap();
    let weak = "plain-http = true\ninsecure-skip-verify = true\n";
    let host = format!("[registries.\".\"]\n{weak}");
    for documents in parties.by_either(meant.port, &format!("{CAS_BY_REFERENCE}{weak}"), &host) {
        let error = parties.pull(each(&documents), meant.port, meant.port);
        let error = error.unwrap_err();
        assert!(matches!(error, Error::Route(pull_route::Error::Realm { .. })), "{error}");
    }
    assert_innocent(&meant.transcript());
}

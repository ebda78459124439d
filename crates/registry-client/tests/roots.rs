//! When a root counts, and what a server may show that is a root itself.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use crate::support;

use std::process::Command;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
};
use rustls::ServerConfig;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use support::{CONTENT, PASSWORD, USER, entry, fetch, once, text};
use test_http::{Server, ok};
use vm_harness::Scratch;

/// A time as certificates have it, so many days from now.
fn in_days(days: i64) -> time::OffsetDateTime {
    time::OffsetDateTime::now_utc() + time::Duration::days(days)
}

/// An authority between two days from now.
struct Dated {
    issuer: Issuer<'static, KeyPair>,
    certificate: String,
    from: String,
    to: String,
}

fn authority(name: &str, from: i64, to: i64, above: Option<&Dated>) -> Dated {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, name);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    (params.not_before, params.not_after) = (in_days(from), in_days(to));
    let certificate = match above {
        Some(above) => params.signed_by(&key, &above.issuer),
        None => params.self_signed(&key),
    };
    Dated {
        certificate: certificate.unwrap().pem(),
        issuer: Issuer::new(params, key),
        from: in_days(from).date().to_string(),
        to: in_days(to).date().to_string(),
    }
}

/// A server whose certificate, which is right today, is of that authority, with what stands between
/// it and the root.
fn server(authority: &Dated, chain: &str) -> Server {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec!["localhost".to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &authority.issuer).unwrap().pem();
    serve(&certificate, chain, key.serialize_pem())
}

fn serve(certificate: &str, chain: &str, key: String) -> Server {
    let chain = format!("{certificate}{chain}");
    let chain = CertificateDer::pem_slice_iter(chain.as_bytes()).map(Result::unwrap);
    let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(chain.collect(), key)
        .unwrap();
    Server::start_with(Some(config), |_| ok(CONTENT))
}

/// What comes of a pull with these roots: nothing, or the error.
fn refusal(server: &Server, roots: &str, more: &str) -> Option<String> {
    let document = entry("localhost", USER, PASSWORD, roots) + more;
    let fetched = fetch(&document, server.port, &once());
    fetched.err().map(|error| text(&error))
}

/// A root that ended years ago once verified a registry; skopeo, curl and Go refuse it.
#[test]
fn a_root_verifies_nobody_outside_of_its_dates() {
    let good = authority("good", -1, 1, None);
    let expired = authority("expired", -400, -2, None);
    let tomorrow = authority("tomorrow", 1, 400, None);
    let both = format!("{}{}", expired.certificate, good.certificate);
    let ended = format!("\"CN=expired\", which ended on {}", expired.to);
    let begins = format!("\"CN=tomorrow\", which begins on {}", tomorrow.from);
    for (root, words) in [(&expired, &ended), (&tomorrow, &begins)] {
        let server = server(root, "");
        let error = refusal(&server, &root.certificate, "").unwrap();
        assert!(error.contains("is not trusted"), "{error}");
        assert!(error.contains(&words[..]), "{error}");
        // Also where another root counts.
        let roots = format!("{}{}", root.certificate, good.certificate);
        let error = refusal(&server, &roots, "").unwrap();
        assert!(error.contains(&words[..]), "{error}");
        // The web's roots beside it do not help, and its own entry says nothing of others.
        let error = refusal(&server, &root.certificate, "web-roots = true\n").unwrap();
        assert!(error.contains(&words[..]), "{error}");
    }
    assert_eq!(refusal(&server(&good, ""), &both, ""), None);
}

/// What stands between root and server has dates in any reading.
#[test]
fn an_expired_authority_on_the_way_is_refused() {
    let root = authority("root", -400, 400, None);
    let between = authority("between", -400, -2, Some(&root));
    let server = server(&between, &between.certificate);
    let error = refusal(&server, &root.certificate, "").unwrap();
    assert!(error.contains("it has expired"), "{error}");
    assert!(error.contains("the certificate of an authority on the way"), "{error}");
    assert!(error.contains("\"CN=between\""), "{error}");
}

/// A certificate as `openssl req -x509` makes one by default: of a server and an authority at once.
fn self_signed(
    name: &str,
    days: (i64, i64),
    usage: Option<ExtendedKeyUsagePurpose>,
) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    (params.not_before, params.not_after) = (in_days(days.0), in_days(days.1));
    params.extended_key_usages = usage.into_iter().collect();
    let certificate = params.self_signed(&key).unwrap().pem();
    (certificate, key.serialize_pem())
}

#[test]
fn a_pinned_certificate_of_a_server_may_be_an_authoritys() {
    let server_auth = Some(ExtendedKeyUsagePurpose::ServerAuth);
    let client_auth = Some(ExtendedKeyUsagePurpose::ClientAuth);
    for (name, days, usage, words) in [
        ("localhost", (-1, 1), None, None),
        ("localhost", (-1, 1), server_auth, None),
        ("other.corp", (-1, 1), None, Some("it is for other names")),
        ("localhost", (-9, -2), None, Some("which ended on")),
        ("localhost", (2, 9), None, Some("which begins on")),
        ("localhost", (-1, 1), client_auth, Some("it is not for servers")),
    ] {
        let (certificate, key) = self_signed(name, days, usage);
        let server = serve(&certificate, "", key);
        let error = refusal(&server, &certificate, "");
        match words {
            None => assert_eq!(error, None, "{name} {days:?}"),
            Some(words) => {
                let error = error.unwrap();
                assert!(error.contains(words), "{words}: {error}");
            }
        }
    }
    // Another certificate of the same name and issuer is not the pinned one.
    let (pinned, _) = self_signed("localhost", (-1, 1), None);
    let (other, key) = self_signed("localhost", (-1, 1), None);
    let error = refusal(&serve(&other, "", key), &pinned, "").unwrap();
    assert!(error.contains("is not trusted"), "{error}");
}

/// As people make it, by Docker's guide for a registry of one's own.
#[test]
fn what_openssl_makes_is_accepted_where_it_is_pinned() {
    let scratch = Scratch::new().unwrap();
    let [key, certificate] = ["key.pem", "certificate.pem"].map(|name| scratch.path().join(name));
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=x"])
        .args(["-addext", "subjectAltName=DNS:localhost"])
        .arg("-keyout")
        .arg(&key)
        .arg("-out")
        .arg(&certificate)
        .output()
        .unwrap();
    assert!(made.status.success(), "{made:?}");
    let [key, certificate] = [key, certificate].map(|path| std::fs::read_to_string(path).unwrap());
    let server = serve(&certificate, "", key);
    assert_eq!(refusal(&server, &certificate, ""), None);
}

/// The reason once was the TLS library's list of all algorithms that it knows, by their numbers.
#[test]
fn a_signature_with_sha_1_is_told_in_a_sentence() {
    let scratch = Scratch::new().unwrap();
    let openssl = |line: &str| {
        let mut command = Command::new("openssl");
        command.current_dir(scratch.path());
        let made = command.args(line.split(' ')).output().unwrap();
        assert!(made.status.success(), "{made:?}");
    };
    let read = |name: &str| std::fs::read_to_string(scratch.path().join(name)).unwrap();
    openssl("req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=old -keyout ca.key -out ca.pem");
    openssl("req -newkey rsa:2048 -nodes -subj /CN=x -keyout own.key -out own.csr");
    let extensions = "subjectAltName=DNS:localhost\nbasicConstraints=CA:FALSE\n";
    scratch.write("extensions", extensions).unwrap();
    let sign = "x509 -req -sha1 -in own.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2";
    openssl(&format!("{sign} -extfile extensions -out own.pem"));
    let server = serve(&read("own.pem"), "", read("own.key"));
    let error = refusal(&server, &read("ca.pem"), "").unwrap();
    let words = "is not trusted: it, or an authority on the way, is signed with an algorithm that \
    nobody should take any more, such as SHA-1 (it is \"CN=x\" for \"localhost\"";
    assert!(error.contains(words) && error.len() < 600, "{error}");
    assert!(server.requests().is_empty());
}

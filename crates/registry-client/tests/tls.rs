//! TLS with real servers: versions, names, protocols, and what is said about certificates.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use crate::support;

use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use fault_registry::{Content, FaultRegistry, Http, Script, Tls};
use support::{CONTENT, PASSWORD, USER, digest, entry, fetch, hasty, once, open, run, text};
use test_http::pki::Authority;
use test_http::{Server, ok};
use vm_harness::{Port, Scratch};

/// A name that only the node's `/etc/hosts` knows is asked at the addresses of its entry, and the
/// certificate is verified for the name. Through a proxy they have no effect.
#[test]
fn a_host_is_asked_where_its_entry_says() {
    let authority = Authority::new("test").unwrap();
    let identity = authority.sign(&["hub.invalid"]).unwrap();
    let mut content = Content::default();
    content.add_manifest(CONTENT.into());
    let tls = Tls { identity: &identity, name: "hub.invalid", http: Http::One };
    let registry = FaultRegistry::start(content, Script::new(), Some(&tls)).unwrap();
    let get = |name: &str, keys: &str| {
        let document = entry(name, USER, PASSWORD, authority.certificate()) + keys;
        run(async {
            let host = format!("{name}:{}", registry.address().port());
            let registry = open(&document, &host, &once())?;
            registry.manifest(&digest()).await.map(drop)
        })
    };
    let there = "addresses = [\"127.0.0.1\"]\n";
    get("hub.invalid", "").unwrap_err();
    get("hub.invalid", there).unwrap();
    let error = get("other.invalid", there).unwrap_err();
    assert!(text(&error).contains("certificate"), "{error}");
    let count = registry.connections();
    // Nothing is looked up beside them.
    get("localhost", "addresses = [\"127.0.0.9\"]\n").unwrap_err();
    let proxy = "[extra-env]\nHTTPS_PROXY = \"http://127.0.0.1:1\"\n";
    let error = get("hub.invalid", &format!("{there}{proxy}")).unwrap_err();
    assert!(text(&error).contains("proxy"), "{error}");
    assert_eq!(registry.connections(), count);
}

/// `openssl s_server`, which shows every visitor what was negotiated.
struct OpenSsl {
    process: Child,
    port: u16,
}

impl OpenSsl {
    fn start(scratch: &Scratch, authority: &Authority, arguments: &[&str]) -> Self {
        // Who sends no name, or another one, gets a certificate that nobody trusts.
        let unnamed = Authority::new("unnamed").unwrap().sign(&["other.corp"]).unwrap();
        let named = authority.sign(&["localhost"]).unwrap();
        let path = |name: &str, text: &str| scratch.write(name, text).unwrap();
        let files = [
            ("-cert", path("unnamed.pem", &unnamed.certificate)),
            ("-key", path("unnamed.key", &unnamed.key)),
            ("-cert2", path("named.pem", &named.certificate)),
            ("-key2", path("named.key", &named.key)),
        ];
        let reserved = Port::reserve().unwrap();
        let port = reserved.number();
        let mut command = Command::new("openssl");
        command.args([
            "s_server",
            "-www",
            "-quiet",
            "-servername",
            "localhost",
            "-servername_fatal",
            "-accept",
        ]);
        command.arg(format!("127.0.0.1:{port}")).args(arguments);
        files.iter().for_each(|(option, path)| {
            command.arg(option).arg(path);
        });
        let silent = command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut server = Self { process: silent.spawn().unwrap(), port };
        let deadline = Instant::now() + Duration::from_secs(60);
        while server.process.try_wait().unwrap().is_none() && Instant::now() < deadline {
            if TcpStream::connect(("127.0.0.1", port)).is_ok() {
                return server;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        panic!("openssl s_server did not start");
    }

    fn ask(&self, authority: &Authority, host: &str) -> Result<String, String> {
        let host = format!("{host}:{}", self.port);
        let document = entry(&host, USER, PASSWORD, authority.certificate());
        run(async {
            let registry = open(&document, &host, &once()).map_err(|error| error.to_string())?;
            let page = registry.tag("latest").await.map_err(|error| text(&error))?;
            Ok(String::from_utf8(page.name_by_content().1).unwrap())
        })
    }
}

impl Drop for OpenSsl {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn both_versions_of_tls_and_the_name_are_sent() {
    let scratch = Scratch::new().unwrap();
    let authority = Authority::new("test").unwrap();
    for (option, version) in [("-tls1_2", "TLSv1.2"), ("-tls1_3", "TLSv1.3")] {
        let server = OpenSsl::start(&scratch, &authority, &[option, "-alpn", "http/1.1"]);
        let page = server.ask(&authority, "localhost").unwrap();
        assert!(page.contains(version), "{page}");
        // An address is no name, and is not sent as one.
        let error = server.ask(&authority, "127.0.0.1").unwrap_err();
        assert!(error.contains("certificate of 127.0.0.1"), "{error}");
    }
    let old = OpenSsl::start(&scratch, &authority, &["-tls1_1", "-cipher", "ALL:@SECLEVEL=0"]);
    let error = old.ask(&authority, "localhost").unwrap_err();
    assert!(error.contains("cannot reach localhost"), "{error}");
}

#[test]
fn http2_is_spoken_where_nothing_else_is() {
    for http in [Http::Two, Http::TwoHangsUp, Http::TwoFrames] {
        let authority = Authority::new("test").unwrap();
        let identity = authority.sign(&["localhost"]).unwrap();
        let mut content = Content::default();
        content.add_manifest(CONTENT.into());
        let tls = Tls { identity: &identity, name: "localhost", http };
        let registry = FaultRegistry::start(content, Script::new(), Some(&tls)).unwrap();
        let document = entry("localhost", USER, PASSWORD, authority.certificate());
        let fetched = fetch(&document, registry.address().port(), &hasty());
        assert_eq!(fetched.unwrap(), CONTENT.as_bytes());
        // The first connection agreed on something else.
        assert_eq!(registry.connections(), 2, "{http:?}");
        let requests = registry.requests();
        assert!(requests.len() == 1 && requests[0].is_http2, "{requests:?}");
    }
    // Where there is a choice it is HTTP/1.1, and servers that know nothing of choices have it too.
    for protocols in [vec![b"h2".to_vec(), b"http/1.1".to_vec()], Vec::new()] {
        let authority = Authority::new("test").unwrap();
        let mut config = authority.server_config(&["localhost"]).unwrap();
        config.alpn_protocols = protocols;
        let server = Server::start_with(Some(config), |_| ok(CONTENT));
        let document = entry("localhost", USER, PASSWORD, authority.certificate());
        assert!(fetch(&document, server.port, &once()).is_ok());
        assert!(server.requests()[0].starts_with("GET /v2/team/app/manifests/"));
    }
}

#[test]
fn a_wrong_certificate_is_described() {
    let (known, unknown) = (Authority::new("known").unwrap(), Authority::new("unknown").unwrap());
    let server = Server::start(Some(&unknown), |_| ok(CONTENT));
    let host = format!("localhost:{}", server.port);
    let refusal = |document: &str, host: &str| {
        run(async {
            let registry = open(document, host, &once()).unwrap();
            text(&registry.tag("latest").await.err().unwrap())
        })
    };
    let error = refusal(&entry("localhost", USER, PASSWORD, known.certificate()), &host);
    for words in [
        format!(
            "the certificate of {host} is not trusted: it was issued by an unknown \
            authority, \"CN=unknown\""
        ),
        "for \"localhost\", issued by \"CN=unknown\", valid from 1975-01-01 to 4096-01-01"
            .to_owned(),
        "expected was one for \"localhost\"".to_owned(),
        "trusted roots: only the 1 in \"ca-certs\" of entry \"localhost.\"".to_owned(),
    ] {
        assert!(error.contains(&words), "{words}: {error}");
    }
    let error = refusal(
        &entry("127.0.0.1", USER, PASSWORD, unknown.certificate()),
        &host.replace("localhost", "127.0.0.1"),
    );
    assert!(error.contains("it is for other names (it is"), "{error}");
    assert!(
        error.contains("for \"localhost\"") && error.contains("expected was one for \"127.0.0.1\""),
        "{error}"
    );
    let error = refusal("", &host);
    assert!(error.contains("trusted roots: the web's public roots: no entry of"), "{error}");
    assert!(server.requests().is_empty());
}

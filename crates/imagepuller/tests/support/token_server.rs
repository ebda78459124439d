//! A token server for `docker-registry`, over TLS: it signs tokens for who knows the password or the refresh token.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    dead_code,
    reason = "test code; each test file uses a part of it"
)]

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use super::server::Server;
use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use vm_harness::Scratch;
use vm_harness::pki::Authority;

pub const REFRESH_TOKEN: &str = "a-refresh-token";
const SERVICE: &str = "registry.test";

/// A token server in a thread, and the certificate that its tokens are signed under.
pub struct TokenServer {
    pub port: u16,
    directory: PathBuf,
    server: Server,
}

impl TokenServer {
    pub fn start(scratch: &Scratch, authority: &Authority) -> Self {
        let directory = scratch.path().to_owned();
        openssl(
            &directory,
            "req -x509 -newkey rsa:2048 -nodes -keyout token.key -out token.pem -days 1 -subj /CN=tokens",
        );
        let place = directory.clone();
        let server = Server::start(Some(authority), move |request| answer(&place, request));
        Self {
            port: server.port,
            directory,
            server,
        }
    }

    /// First line and body of each request.
    pub fn requests(&self) -> Vec<String> {
        self.server.requests()
    }

    /// A registry that takes these tokens, with the storage of another one; gives its port.
    pub fn registry(
        &self,
        scratch: &Scratch,
        authority: &Authority,
        storage: &Path,
    ) -> (Running, u16) {
        let identity = authority.sign(&["localhost"]).unwrap();
        let certificate = scratch.write("bearer.pem", identity.certificate).unwrap();
        let key = scratch.write("bearer.key", identity.key).unwrap();
        let config = format!(
            "version: 0.1\nstorage: {{filesystem: {{rootdirectory: {}}}}}\n\
             http: {{addr: '127.0.0.1:0', tls: {{certificate: {}, key: {}}}}}\n\
             auth: {{token: {{realm: 'https://localhost:{}/token?kept=1', service: {SERVICE}, issuer: tests, rootcertbundle: {}}}}}\n",
            storage.display(),
            certificate.display(),
            key.display(),
            self.port,
            self.directory.join("token.pem").display(),
        );
        let config = scratch.write("bearer.yml", config).unwrap();
        let log = scratch.path().join("bearer.log");
        let output = fs::File::create(&log).unwrap();
        let child = Command::new("docker-registry")
            .arg("serve")
            .arg(config)
            .stdout(Stdio::null())
            .stderr(output)
            .spawn()
            .unwrap();
        let running = Running(child);
        let deadline = Instant::now() + Duration::from_secs(20);
        loop {
            let text = fs::read_to_string(&log).unwrap();
            let port = text
                .split_once("listening on 127.0.0.1:")
                .and_then(|(_, rest)| rest.split_once(','));
            if let Some((port, _)) = port {
                return (running, port.parse().unwrap());
            }
            assert!(Instant::now() < deadline, "{text}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// A process that ends with the test.
pub struct Running(pub Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn answer(directory: &Path, request: &str) -> String {
    let basic = BASE64_STANDARD.encode(format!("{}:{}", super::USER, super::PASSWORD));
    let is_known = request.contains(&format!("Basic {basic}"))
        || request.starts_with("POST ")
            && request.contains("grant_type=refresh_token")
            && request.contains(&format!("refresh_token={REFRESH_TOKEN}"));
    if !is_known {
        return "HTTP/1.1 401 Unauthorized\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
            .to_owned();
    }
    let field = if request.starts_with("POST ") {
        "access_token"
    } else {
        "token"
    };
    let body = format!(
        "{{\"{field}\":\"{}\",\"expires_in\":300}}",
        token(directory)
    );
    format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
}

/// A JSON web token as docker-registry takes it: RS256, the certificate in its header.
fn token(directory: &Path) -> String {
    let pem = fs::read(directory.join("token.pem")).unwrap();
    let certificate = CertificateDer::from_pem_slice(&pem).unwrap();
    let header = format!(
        r#"{{"typ":"JWT","alg":"RS256","x5c":["{}"]}}"#,
        BASE64_STANDARD.encode(&certificate)
    );
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs();
    let claims = format!(
        r#"{{"iss":"tests","aud":"{SERVICE}","sub":"puller","jti":"1","iat":{now},"nbf":{},"exp":{},"access":[{{"type":"repository","name":"team/app","actions":["pull"]}}]}}"#,
        now - 60,
        now + 300,
    );
    let signed = format!(
        "{}.{}",
        BASE64_URL_SAFE_NO_PAD.encode(header),
        BASE64_URL_SAFE_NO_PAD.encode(claims)
    );
    let mut signer = Command::new("openssl")
        .args(["dgst", "-sha256", "-sign", "token.key"])
        .current_dir(directory)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    signer
        .stdin
        .take()
        .unwrap()
        .write_all(signed.as_bytes())
        .unwrap();
    let signature = signer.wait_with_output().unwrap();
    assert!(signature.status.success());
    format!(
        "{signed}.{}",
        BASE64_URL_SAFE_NO_PAD.encode(signature.stdout)
    )
}

fn openssl(directory: &Path, arguments: &str) {
    let output = Command::new("openssl")
        .args(arguments.split(' '))
        .current_dir(directory)
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

//! Servers that misbehave, and clients that ask them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    dead_code,
    reason = "test code; each test file uses a part of it"
)]

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use kbs_client::{Client, Error, Limits};
use puller_config::{AttesterKind, ResourceSource, ResourceUri, Resources};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use vm_harness::pki::Authority;

/// In every secret, and in whatever a hostile server says that could be one.
pub const PLANTED: &str = "hunter2";

/// The same in base64, at each of the three places where it may begin.
const PLANTED_BASE64: [&str; 3] = ["aHVudGVyM", "h1bnRlcj", "odW50ZXIy"];

/// Longer than any answer takes, however slow the machine is.
pub const PATIENT: Limits = Limits {
    request: Duration::from_secs(60),
    whole: Duration::from_secs(600),
};

/// For servers that never answer.
pub const HASTY: Limits = Limits {
    request: Duration::from_millis(300),
    whole: Duration::from_secs(180),
};

/// What the gateway's answers are.
pub const OCTETS: &str = "Content-Type: application/octet-stream\r\n";

/// The error of an attempt that says whether its request was answered as planned. Whoever never
/// answers is given little time, and more of it where the machine was too slow to get that far.
pub fn error(end: End, attempt: impl Fn(Limits) -> (String, bool)) -> String {
    if !matches!(end, End::Silence | End::Drip) {
        let (error, was_asked) = attempt(PATIENT);
        assert!(was_asked, "{error}");
        return error;
    }
    for request in [300, 3_000, 30_000, 90_000].map(Duration::from_millis) {
        let limits = Limits { request, ..PATIENT };
        let (error, was_asked) = attempt(limits);
        if was_asked {
            return error;
        }
    }
    panic!("the server was not asked")
}

pub fn uri(path: &str) -> ResourceUri {
    ResourceUri::parse(&format!("kbs:///{path}")).unwrap()
}

/// `[resources]` with these sources and the `sample` attester.
pub fn resources(sources: &[&str]) -> Resources {
    Resources {
        sources: sources
            .iter()
            .map(|source| ResourceSource::parse(source).unwrap())
            .collect(),
        kbs_attester: Some(AttesterKind::Sample),
        ..Resources::default()
    }
}

pub fn client(sources: &[&str], limits: Limits) -> Client {
    Client::new(&resources(sources), limits).unwrap()
}

/// Asks for `repo/type/tag`.
pub fn ask(client: &Client) -> Result<Vec<u8>, String> {
    run(client.resource(&uri("repo/type/tag")))
}

/// Runs a request; errors as text that holds no secret.
pub fn run(
    work: impl Future<Output = Result<zeroize::Zeroizing<Vec<u8>>, Error>>,
) -> Result<Vec<u8>, String> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime
        .block_on(work)
        .map(|bytes| bytes.to_vec())
        .map_err(|error| shown(&error))
}

/// An error as users see it: without a secret, short, and on one line.
pub fn shown(error: &Error) -> String {
    let text = error.to_string();
    let mut all = format!("{text}{error:?}");
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        all.push_str(&format!("{error}{error:?}"));
        source = error.source();
    }
    assert_clean(&all);
    assert!(!text.chars().any(char::is_control), "{text:?}");
    assert!(text.len() < 4000, "{text}");
    text
}

pub fn assert_clean(text: &str) {
    for planted in [PLANTED].iter().chain(&PLANTED_BASE64) {
        assert!(!text.contains(planted), "{text}");
    }
}

/// How an answer ends.
#[derive(Clone, Copy, Debug)]
pub enum End {
    /// The connection is closed.
    Close,
    /// Nothing more comes, and the connection stays.
    Silence,
    /// A byte now and then, for ever.
    Drip,
    /// As many bytes as the connection takes, for ever.
    Flood,
}

/// A server in a thread.
pub struct Server {
    pub port: u16,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Starts it; with an authority it speaks TLS as `localhost`.
    pub fn start(
        authority: Option<&Authority>,
        answer: impl Fn(&str) -> (String, End) + Send + Sync + 'static,
    ) -> Self {
        let tls = authority.map(|authority| Arc::new(server_config(authority)));
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests: Arc<Mutex<Vec<String>>> = Arc::default();
        let (seen, answer) = (requests.clone(), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (seen, tls, answer) = (seen.clone(), tls.clone(), answer.clone());
                std::thread::spawn(move || match tls {
                    None => serve(&mut &stream, &*answer, &seen),
                    Some(config) => {
                        let connection = rustls::ServerConnection::new(config).unwrap();
                        let mut stream = rustls::StreamOwned::new(connection, stream);
                        serve(&mut stream, &*answer, &seen);
                        stream.conn.send_close_notify();
                        let _ = stream.flush();
                    }
                });
            }
        });
        Self { port, requests }
    }

    /// As [`Server::start`], always with the same answer.
    pub fn always(answer: &str, end: End) -> Self {
        let answer = answer.to_owned();
        Self::start(None, move |_| (answer.clone(), end))
    }

    /// Head and body of each request.
    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }

    pub fn gateway(&self) -> String {
        format!("rest=http://127.0.0.1:{}", self.port)
    }

    pub fn broker(&self) -> String {
        format!("kbs=http://127.0.0.1:{}", self.port)
    }
}

/// A whole answer.
pub fn reply(status: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "HTTP/1.1 {status}\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
}

pub fn server_config(authority: &Authority) -> rustls::ServerConfig {
    let identity = authority.sign(&["localhost"]).unwrap();
    let certificate = CertificateDer::from_pem_slice(identity.certificate.as_bytes()).unwrap();
    let key = PrivateKeyDer::from_pem_slice(identity.key.as_bytes()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap()
}

fn serve(
    stream: &mut (impl Read + Write),
    answer: &impl Fn(&str) -> (String, End),
    seen: &Mutex<Vec<String>>,
) {
    let Some(request) = read(stream) else {
        return;
    };
    let (answer, end) = answer(&request);
    seen.lock().unwrap().push(request);
    let _ = stream.write_all(answer.as_bytes());
    let _ = stream.flush();
    match end {
        End::Close => {}
        // Until the other side gives up.
        End::Silence => {
            let _ = stream.read(&mut [0]);
        }
        End::Drip => {
            while stream.write_all(b"a").and_then(|()| stream.flush()).is_ok() {
                std::thread::sleep(Duration::from_millis(5));
            }
        }
        End::Flood => while stream.write_all(&[b'a'; 1 << 16]).is_ok() {},
    }
}

/// Head and body of one request.
fn read(stream: &mut impl Read) -> Option<String> {
    let mut request = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        let text = String::from_utf8_lossy(&request).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let head = head.to_ascii_lowercase();
            let mut lines = head.lines();
            let length = lines.find_map(|line| line.strip_prefix("content-length:"));
            let length = length.map_or(0, |length| length.trim().parse().unwrap());
            if body.len() >= length {
                return Some(text);
            }
        }
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return None,
            Ok(read) => request.extend_from_slice(&buffer[..read]),
        }
        // A TLS handshake where none is expected.
        if request.first() == Some(&0x16) {
            return Some("TLS".to_owned());
        }
    }
}

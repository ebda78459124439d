//! An HTTP server that answers what a test wants, over TLS or not, and remembers what it was asked.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    dead_code,
    reason = "test code; each test file uses a part of it"
)]

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use vm_harness::pki::Authority;

/// A server in a thread.
pub struct Server {
    pub port: u16,
    requests: Arc<Mutex<Vec<String>>>,
}

impl Server {
    /// Starts it; with an authority it speaks TLS as `localhost`.
    pub fn start(
        authority: Option<&Authority>,
        answer: impl Fn(&str) -> String + Send + Sync + 'static,
    ) -> Self {
        Self::start_with(authority.map(server_config), answer)
    }

    /// Starts it with a configuration of the test's own.
    pub fn start_with(
        tls: Option<rustls::ServerConfig>,
        answer: impl Fn(&str) -> String + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let requests = Arc::new(Mutex::new(Vec::new()));
        let (seen, tls, answer) = (requests.clone(), tls.map(Arc::new), Arc::new(answer));
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let (seen, tls, answer) = (seen.clone(), tls.clone(), answer.clone());
                let stream = stream.unwrap();
                std::thread::spawn(move || connection(stream, tls, &*answer, &seen));
            }
        });
        Self { port, requests }
    }

    /// Head and body of each request.
    pub fn requests(&self) -> Vec<String> {
        self.requests.lock().unwrap().clone()
    }
}

/// An answer without a body.
pub fn head(status: &str, headers: &str) -> String {
    format!("HTTP/1.1 {status}\r\n{headers}Content-Length: 0\r\nConnection: close\r\n\r\n")
}

/// An answer with a body.
pub fn ok(body: &str) -> String {
    let length = body.len();
    format!("HTTP/1.1 200 OK\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{body}")
}

/// At the end of an answer: the connection stays open, and nothing more comes.
pub const SILENCE: &str = "\0silence";

fn connection(
    mut stream: TcpStream,
    tls: Option<Arc<rustls::ServerConfig>>,
    answer: &impl Fn(&str) -> String,
    seen: &Mutex<Vec<String>>,
) {
    match tls {
        None => serve(&mut stream, answer, seen),
        Some(config) => {
            let connection = rustls::ServerConnection::new(config).unwrap();
            let mut stream = rustls::StreamOwned::new(connection, stream);
            serve(&mut stream, answer, seen);
            stream.conn.send_close_notify();
            let _ = stream.flush();
        }
    }
}

fn serve(
    stream: &mut (impl Read + Write),
    answer: &impl Fn(&str) -> String,
    seen: &Mutex<Vec<String>>,
) {
    let Some(request) = read_request(stream) else {
        return;
    };
    let answer = match request.as_str() {
        "TLS" => head("400 Bad Request", ""),
        request => answer(request),
    };
    seen.lock().unwrap().push(request);
    match answer.strip_suffix(SILENCE) {
        None => {
            let _ = stream.write_all(answer.as_bytes());
        }
        Some(answer) => {
            let _ = stream.write_all(answer.as_bytes());
            let _ = stream.flush();
            // Until the other side gives up.
            let _ = stream.read(&mut [0]);
        }
    }
}

fn read_request(stream: &mut impl Read) -> Option<String> {
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
        // A TLS handshake where none is expected: real servers answer that it is no HTTP request.
        if request.first() == Some(&0x16) {
            return Some("TLS".to_owned());
        }
    }
}

/// What it speaks TLS with, as `localhost`.
pub fn server_config(authority: &Authority) -> rustls::ServerConfig {
    server_config_as(authority, "localhost")
}

/// What it speaks TLS with under another name.
pub fn server_config_as(authority: &Authority, name: &str) -> rustls::ServerConfig {
    let identity = authority.sign(&[name]).unwrap();
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

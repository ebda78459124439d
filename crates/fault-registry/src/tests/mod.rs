//! Each kind of misbehaviour really appears on the wire, as seen by a raw socket and by curl.

mod breaks;
mod faithful;
mod heads;
mod http2;
mod lies;
mod program;
mod scripts;

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Command, Output};
use std::time::Duration;

use crate::{Content, FaultRegistry, Http, Image, Layer, Script, Tls};
use test_http::pki::Authority;

/// A registry without TLS, and what it serves.
struct Plain {
    registry: FaultRegistry,
    manifest: String,
    layer: String,
    /// The layer's bytes.
    bytes: Vec<u8>,
    /// After what time of silence nothing more is expected.
    patience: Duration,
}

/// How a raw exchange ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Closed,
    Reset,
    /// Nothing more came, or as much as was wanted.
    Silent,
}

fn content() -> (Content, String, Layer) {
    let noise: Vec<u8> = (0..100_000u32).map(|n| (n.wrapping_mul(n) >> 7) as u8).collect();
    let layer = Layer::gzip(&[("file", &noise)]).unwrap();
    let mut content = Content::default();
    let manifest = Image::new(vec![layer.clone()]).publish(&mut content);
    (content, manifest, layer)
}

fn start(script: Script) -> Plain {
    let (content, manifest, layer) = content();
    Plain {
        registry: FaultRegistry::start(content, script, None).unwrap(),
        manifest,
        layer: super::image::digest_of(&layer.bytes),
        bytes: layer.bytes,
        patience: Duration::from_secs(60),
    }
}

impl Plain {
    /// The same, where silence is what is expected.
    fn hasty(mut self) -> Self {
        self.patience = Duration::from_secs(2);
        self
    }

    fn layer_path(&self) -> String {
        format!("/v2/team/app/blobs/{}", self.layer)
    }

    fn manifest_path(&self) -> String {
        format!("/v2/team/app/manifests/{}", self.manifest)
    }

    fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.registry.address()).unwrap();
        stream.set_read_timeout(Some(self.patience)).unwrap();
        stream
    }

    /// Sends a request with these further header lines, and reads until the connection ends or
    /// falls silent, or `limit` bytes came.
    fn ask_up_to(&self, path: &str, headers: &str, limit: usize) -> (Vec<u8>, Ending) {
        let mut stream = self.connect();
        let request =
            format!("GET {path} HTTP/1.1\r\nHost: test\r\nConnection: close\r\n{headers}\r\n");
        // Who is reset at once may notice it only here.
        if stream.write_all(request.as_bytes()).is_err() {
            return (Vec::new(), Ending::Reset);
        }
        let mut received = Vec::new();
        let mut buffer = vec![0; 64 << 10];
        while received.len() < limit {
            match stream.read(&mut buffer) {
                Ok(0) => return (received, Ending::Closed),
                Ok(read) => received.extend_from_slice(&buffer[..read]),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) if error.kind() == ErrorKind::ConnectionReset => {
                    return (received, Ending::Reset);
                }
                Err(error) => panic!("{error}"),
            }
        }
        (received, Ending::Silent)
    }

    fn ask(&self, path: &str, headers: &str) -> (Vec<u8>, Ending) {
        self.ask_up_to(path, headers, usize::MAX)
    }

    /// As [`Plain::ask`] for the layer, taken apart into head and body.
    fn ask_layer(&self, headers: &str) -> (String, Vec<u8>, Ending) {
        let (received, ending) = self.ask(&self.layer_path(), headers);
        let end = received
            .windows(4)
            .position(|four| four == b"\r\n\r\n")
            .map_or(received.len(), |end| end + 4);
        let head = String::from_utf8_lossy(&received[..end]).to_ascii_lowercase();
        (head, received[end..].to_vec(), ending)
    }
}

/// A registry with TLS, and what curl needs to trust it.
struct Secure {
    registry: FaultRegistry,
    bytes: Vec<u8>,
    path: String,
    roots: tempfile::NamedTempFile,
}

fn start_secure(script: Script, http: Http) -> Secure {
    let (content, _, layer) = content();
    let authority = Authority::new("test").unwrap();
    let identity = authority.sign(&["localhost"]).unwrap();
    let tls = Tls { identity: &identity, name: "localhost", http };
    let registry = FaultRegistry::start(content, script, Some(&tls)).unwrap();
    let mut roots = tempfile::NamedTempFile::new().unwrap();
    roots.write_all(authority.certificate().as_bytes()).unwrap();
    Secure {
        registry,
        path: format!("/v2/team/app/blobs/{}", super::image::digest_of(&layer.bytes)),
        bytes: layer.bytes,
        roots,
    }
}

impl Secure {
    /// Asks for the layer with curl, which gives up after a minute.
    fn curl(&self, arguments: &[&str]) -> Output {
        self.curl_within(60, arguments)
    }

    /// The same with other seconds. curl itself does not look at the time while it is flooded.
    fn curl_within(&self, seconds: u32, arguments: &[&str]) -> Output {
        Command::new("timeout")
            .args(["--signal=KILL", &(seconds + 5).to_string(), "curl"])
            .args(["--silent", "--show-error", "--cacert"])
            .arg(self.roots.path())
            .args(["--max-time", &seconds.to_string()])
            .args(arguments)
            .arg(format!("{}{}", self.registry.base(), self.path))
            .output()
            .unwrap()
    }
}

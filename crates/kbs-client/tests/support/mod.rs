//! Servers that misbehave, and clients that ask them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    dead_code,
    reason = "test code; each test file uses a part of it"
)]

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use kbs_client::{Client, Error, Limits, Sources};
use puller_config::{AttesterKind, ResourceSource, ResourceUri, Resources};
use test_http::{End, Server};

/// In every secret, and in whatever a hostile server says that could be one.
pub const PLANTED: &str = "hunter2";

/// The same in base64, at each of the three places where it may begin.
const PLANTED_BASE64: [&str; 3] = ["aHVudGVyM", "h1bnRlcj", "odW50ZXIy"];

/// Longer than any answer takes, however slow the machine is.
pub const PATIENT: Limits =
    Limits { request: Duration::from_secs(60), whole: Duration::from_secs(600) };

/// For servers that never answer.
pub const HASTY: Limits =
    Limits { request: Duration::from_millis(300), whole: Duration::from_secs(180) };

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
        sources: sources.iter().map(|source| ResourceSource::parse(source).unwrap()).collect(),
        kbs_attester: Some(AttesterKind::Sample),
        ..Resources::default()
    }
}

pub fn client(sources: &[&str], limits: Limits) -> Client {
    new_client(&resources(sources), limits).unwrap()
}

/// A client of a guest without initdata.
pub fn new_client(resources: &Resources, limits: Limits) -> Result<Client, Error> {
    let sources = Sources::new(resources, None, limits)?;
    Ok(Client::new(Arc::new(sources)))
}

/// Asks for `repo/type/tag`.
pub fn ask(client: &Client) -> Result<Vec<u8>, String> {
    run(client.resource(&uri("repo/type/tag")))
}

/// Runs a request; errors as text that holds no secret.
pub fn run(
    work: impl Future<Output = Result<zeroize::Zeroizing<Vec<u8>>, Error>>,
) -> Result<Vec<u8>, String> {
    wait(work).map(|bytes| bytes.to_vec()).map_err(|error| shown(&error))
}

/// Waits on a runtime of its own.
pub fn wait<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(work)
}

/// What stays in the guest, of each source.
pub fn inside(error: &Error) -> String {
    let Error::Unavailable { failures, .. } = error else {
        return String::new();
    };
    let inside = failures.iter().map(|failure| failure.fault.inside());
    inside.map(ToString::to_string).collect()
}

/// An error as users see it: without a secret, short, and on one line.
pub fn shown(error: &Error) -> String {
    let text = error.to_string();
    let mut all = format!("{text}{error:?}{}", inside(error));
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

/// A program that answers one request with these bytes, `None` being silence, and gives what it was
/// asked. One that stays hangs up after its client.
pub fn answering(socket: &Path, answer: Option<Vec<u8>>, stays: bool) -> JoinHandle<Vec<u8>> {
    let listener = UnixListener::bind(socket).unwrap();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut request = vec![0; 4096];
        let length = stream.read(&mut request).unwrap_or_default();
        request.truncate(length);
        if let Some(bytes) = answer {
            let _ = stream.write_all(&bytes);
        }
        if stays {
            let _ = stream.read(&mut [0]);
        }
        request
    })
}

/// What a source is called that a server stands for.
pub fn broker(server: &Server) -> String {
    format!("kbs=http://127.0.0.1:{}", server.port)
}

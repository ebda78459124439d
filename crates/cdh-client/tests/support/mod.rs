//! Programs that misbehave, and clients that ask them.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    dead_code,
    reason = "test code; each test file uses a part of it"
)]

use std::io::{Read as _, Write as _};
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::thread::JoinHandle;
use std::time::Duration;

use cdh_client::{Error, resource};
use registry_config::{ResourceSource, ResourceUri};

/// In every secret, and in whatever a hostile server says that could be one.
pub const PLANTED: &str = "hunter2";

/// The same in base64, at each of the three places where it may begin.
const PLANTED_BASE64: [&str; 3] = ["aHVudGVyM", "h1bnRlcj", "odW50ZXIy"];

/// Longer than any answer takes, however slow the machine is.
pub const PATIENT: Duration = Duration::from_secs(60);

/// For servers that never answer.
pub const HASTY: Duration = Duration::from_millis(300);

pub fn uri(path: &str) -> ResourceUri {
    ResourceUri::parse(&format!("kbs:///{path}")).unwrap()
}

pub fn source(text: &str) -> ResourceSource {
    ResourceSource::parse(text).unwrap()
}

/// Asks a source for a resource.
pub fn ask(text: &str, uri: &ResourceUri, limit: Duration) -> Result<Vec<u8>, String> {
    let source = source(text);
    run(resource(Some(&source), uri, limit))
}

/// The resource that tests ask for.
pub const TAG: &str = "repo/type/tag";

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

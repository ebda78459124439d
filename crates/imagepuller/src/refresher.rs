//! What came to the node a moment ago: the configuration disk, read again because a pull failed.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use registry_client::Documents;
use tokio::io::AsyncReadExt;
use tokio::net::UnixStream;

use crate::blocking::blocking;
use crate::error::Error;

/// How long is waited for the disk: reading it takes milliseconds, and two seconds where the host is
/// writing to it.
const LIMIT: Duration = Duration::from_secs(5);

/// Asks `initdata-processor refresh --listen` to read the configuration disk.
#[derive(Debug)]
pub struct Refresher<'a> {
    socket: &'a Path,
    /// The host's document, and the refusal that may stand in its place.
    files: [PathBuf; 2],
    before: State,
}

/// Which files there are: each is replaced as a whole, so that another content is another file.
type State = [Option<(u64, i64, i64)>; 2];

impl<'a> Refresher<'a> {
    /// Remembers which documents there are now.
    pub async fn new(socket: &'a Path, documents: &Documents) -> Result<Self, Error> {
        let files = documents.of_host();
        let before = state(&files).await?;
        Ok(Self { socket, files, before })
    }

    /// Whether the host's document is another one by now, at the latest because of this question.
    pub async fn has_another_document(&self) -> Result<bool, Error> {
        match tokio::time::timeout(LIMIT, ask(self.socket)).await {
            Ok(Ok(())) => {}
            // It may have been replaced all the same.
            Ok(Err(error)) => tracing::debug!(%error, "the configuration is not read again"),
            Err(_) => {
                tracing::warn!("the configuration disk is not read within {} s", LIMIT.as_secs())
            }
        }
        Ok(state(&self.files).await? != self.before)
    }
}

/// Returns when the disk has been read, whatever came of it.
async fn ask(socket: &Path) -> io::Result<()> {
    let mut stream = UnixStream::connect(socket).await?;
    stream.read(&mut [0; 16]).await.map(drop)
}

async fn state(files: &[PathBuf; 2]) -> Result<State, Error> {
    let files = files.clone();
    let of = |file: &PathBuf| {
        let metadata = fs::metadata(file).ok()?;
        Some((metadata.ino(), metadata.ctime(), metadata.ctime_nsec()))
    };
    blocking(move || Ok(files.each_ref().map(of))).await
}

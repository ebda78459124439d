//! The parts of a pull, each alone on one core and without anything that a bare minimum would not
//! do.
//!
//! Only the part itself is timed: reading its input from the page cache is not, because in a pull
//! that is in memory already.

use std::fs::{self, File};
use std::hint::black_box;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use clap::ValueEnum;
use layer_unpack::chunks::Chunks;
use layer_unpack::compression;
use rustix::time::{ClockId, clock_gettime};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

mod write;

/// How much is handed on at once.
const BUFFER_BYTES: usize = 256 << 10;

/// Which part.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    /// HTTP to nowhere; layers are `ADDRESS/PATH`
    Download,
    /// SHA-256 of files
    Hash,
    /// gzip or zstd to nowhere, as the puller does it
    Inflate,
    /// A plain tar to files; the first path is where
    Write,
}

/// What a part cost for one layer.
#[derive(Clone, Copy, Debug, Default, PartialEq, PartialOrd, Serialize, Deserialize)]
pub struct Part {
    /// From start to end.
    pub wall_secs: f64,
    /// User and system.
    pub cpu_secs: f64,
}

/// Does one part for all `layers` and writes a [`Part`] for each to the file `report`.
pub fn run(kind: Kind, report: &Path, layers: &[PathBuf]) -> Result<()> {
    let parts: Vec<Part> = match kind {
        Kind::Download => download(layers)?,
        Kind::Hash => each(layers, hash)?,
        Kind::Inflate => each(layers, inflate)?,
        Kind::Write => {
            let (into, layers) = layers.split_first().context("no directory")?;
            let mut number = 0;
            each(layers, |tar, watch| {
                number += 1;
                write::unpack(
                    &mut BufReader::with_capacity(BUFFER_BYTES, tar),
                    watch,
                    &into.join(number.to_string()),
                )
            })?
        }
    };
    Ok(fs::write(report, serde_json::to_vec(&parts)?)?)
}

fn each(
    layers: &[PathBuf],
    mut part: impl FnMut(Source, &Stopwatch) -> Result<()>,
) -> Result<Vec<Part>> {
    let one = |path: &PathBuf| {
        let watch = Stopwatch::default();
        let source = Source {
            file: File::open(path)?,
            buffer: vec![0; 4 << 20],
            filled: 0..0,
            watch: watch.clone(),
        };
        watch.start();
        part(source, &watch).with_context(|| format!("failed to measure {}", path.display()))?;
        watch.stop();
        Ok(watch.total())
    };
    layers.iter().map(one).collect()
}

fn hash(mut source: Source, _: &Stopwatch) -> Result<()> {
    let mut hasher = Sha256::new();
    loop {
        let bytes = source.fill_buf()?;
        if bytes.is_empty() {
            break;
        }
        let read = bytes.len().min(BUFFER_BYTES);
        hasher.update(&bytes[..read]);
        source.consume(read);
    }
    black_box(hasher.finalize());
    Ok(())
}

/// What stands in the puller between receiving and the tar.
fn inflate(source: Source, watch: &Stopwatch) -> Result<()> {
    let mut file = source.file;
    let chunks = std::iter::from_fn(|| {
        watch.stop();
        let mut chunk = vec![0; BUFFER_BYTES];
        let read = file.read(&mut chunk);
        watch.start();
        chunk.truncate(read.ok()?);
        (!chunk.is_empty()).then(|| Bytes::from(chunk))
    });
    let mut stream = compression::decode(Chunks::new(chunks))?;
    let mut buffer = vec![0; BUFFER_BYTES];
    while !stream.fill(&mut buffer)?.is_empty() {
        black_box(&buffer);
    }
    Ok(())
}

/// One connection, one request after the other.
fn download(layers: &[PathBuf]) -> Result<Vec<Part>> {
    let mut connection: Option<BufReader<TcpStream>> = None;
    let mut parts = Vec::new();
    for layer in layers {
        let text = layer.to_string_lossy();
        let (address, path) = text.split_once('/').context("no path")?;
        let watch = Stopwatch::default();
        watch.start();
        let stream = match &mut connection {
            Some(stream) => stream,
            None => connection
                .insert(BufReader::with_capacity(BUFFER_BYTES, TcpStream::connect(address)?)),
        };
        fetch(stream, address, path)?;
        watch.stop();
        parts.push(watch.total());
    }
    Ok(parts)
}

fn fetch(stream: &mut BufReader<TcpStream>, address: &str, path: &str) -> Result<()> {
    stream
        .get_mut()
        .write_all(format!("GET /{path} HTTP/1.1\r\nHost: {address}\r\n\r\n").as_bytes())?;
    let mut length = None;
    loop {
        let mut line = String::new();
        ensure!(stream.read_line(&mut line)? > 0, "the registry hung up");
        let line = line.trim_end().to_ascii_lowercase();
        if line.starts_with("http/") {
            ensure!(line.contains(" 200"), "the registry answered {line}");
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = Some(value.trim().parse::<u64>()?);
        }
        if line.is_empty() {
            break;
        }
    }
    let mut left = length.context("the registry told no length")?;
    while left > 0 {
        let read = stream.fill_buf()?.len();
        ensure!(read > 0, "the registry hung up");
        stream.consume(read);
        left -= read as u64;
    }
    Ok(())
}

/// A file whose reading is not timed.
struct Source {
    file: File,
    buffer: Vec<u8>,
    filled: std::ops::Range<usize>,
    watch: Stopwatch,
}

impl BufRead for Source {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.filled.is_empty() {
            self.watch.stop();
            let read = self.file.read(&mut self.buffer)?;
            self.filled = 0..read;
            self.watch.start();
        }
        Ok(&self.buffer[self.filled.clone()])
    }

    fn consume(&mut self, read: usize) {
        self.filled.start += read;
    }
}

impl Read for Source {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let filled = self.fill_buf()?;
        let read = filled.len().min(buffer.len());
        buffer[..read].copy_from_slice(&filled[..read]);
        self.consume(read);
        Ok(read)
    }
}

/// Wall and CPU time of this thread between starts and stops.
#[derive(Clone, Debug, Default)]
struct Stopwatch(std::rc::Rc<std::cell::Cell<Readings>>);

#[derive(Clone, Copy, Debug, Default)]
struct Readings {
    started: Part,
    total: Part,
}

impl Stopwatch {
    fn start(&self) {
        let mut readings = self.0.get();
        readings.started = present();
        self.0.set(readings);
    }

    fn stop(&self) {
        let mut readings = self.0.get();
        let now = present();
        readings.total.wall_secs += now.wall_secs - readings.started.wall_secs;
        readings.total.cpu_secs += now.cpu_secs - readings.started.cpu_secs;
        self.0.set(readings);
    }

    fn total(&self) -> Part {
        self.0.get().total
    }
}

fn present() -> Part {
    let secs = |clock| {
        let time = clock_gettime(clock);
        time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
    };
    Part { wall_secs: secs(ClockId::Monotonic), cpu_secs: secs(ClockId::ThreadCPUTime) }
}

//! Unpacks layers from files into fresh directories, and says how fast, on how many cores and with
//! how much memory.
//!
//! ```text
//! cargo bench -p layer-unpack --bench unpack -- [--to DIR] [--rounds N] [--encrypted] BLOB...
//! ```
//!
//! `--to` names a directory on the file system to write to, `/dev/shm` if not given. With
//! `--encrypted` each round unpacks the blob as it is and encrypted; that takes `openssl`.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a program for the people who work on this"
)]

use std::fs::{self, File};
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use layer_unpack::blob::Expected;
use layer_unpack::caller::Waiting;
use layer_unpack::chunks::Chunks;
use layer_unpack::{compression, removal};
use oci_image::digest::{Digest, Hasher};
use ocicrypt::{LayerKey, PublicOptions};

/// What a transfer hands over at once.
const CHUNK_BYTES: usize = 128 << 10;

/// Kernel clock ticks in a second, as programs see them.
const TICKS_PER_SECOND: f64 = 100.0;

fn main() {
    let (mut to, mut rounds, mut blobs) = (PathBuf::from("/dev/shm"), 3, Vec::new());
    let mut with_encrypted = false;
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            // Cargo's own.
            "--bench" => {}
            "--to" => to = arguments.next().expect("a directory after --to").into(),
            "--rounds" => rounds = arguments.next().expect("a number").parse().unwrap(),
            "--encrypted" => with_encrypted = true,
            _ => blobs.push(PathBuf::from(argument)),
        }
    }
    if blobs.is_empty() {
        println!("no blobs given; see the head of this program");
        return;
    }
    println!("| blob | plain MB | wall s | MB/s | CPU s | cores | peak MiB |");
    println!("|---|---|---|---|---|---|---|");
    for path in blobs {
        let (expected, diff_id) = digests(&path);
        let name = path.file_name().unwrap().display().to_string();
        let plain = Layer {
            name: name.clone(),
            path,
            expected,
            key: None,
            diff_id,
        };
        let directory = tempfile::tempdir().unwrap();
        let encrypted = with_encrypted.then(|| encrypt(&plain, directory.path()));
        let layers: Vec<_> = [plain].into_iter().chain(encrypted).collect();
        let mut runs = vec![Vec::new(); layers.len()];
        for _ in 0..rounds {
            for (layer, runs) in layers.iter().zip(&mut runs) {
                runs.push(run(layer, &to));
            }
        }
        let mut walls = Vec::new();
        for (layer, mut runs) in layers.iter().zip(runs) {
            runs.sort_by_key(|run| run.wall);
            walls.push(show(&layer.name, runs[rounds / 2]));
        }
        if let [plain, encrypted] = walls[..] {
            println!(
                "{name}: encrypted takes {:.3} of the time",
                encrypted / plain
            );
        }
    }
}

/// Gives the wall time in seconds.
fn show(name: &str, run: Run) -> f64 {
    let Run {
        wall,
        cpu_secs,
        peak_mib,
        plain_bytes,
    } = run;
    let (wall, plain) = (wall.as_secs_f64(), plain_bytes as f64 / 1e6);
    println!(
        "| {name} | {plain:.1} | {wall:.3} | {:.0} | {cpu_secs:.2} | {:.2} | {peak_mib:.1} |",
        plain / wall,
        cpu_secs / wall,
    );
    wall
}

/// What is unpacked.
struct Layer {
    name: String,
    path: PathBuf,
    expected: Expected,
    key: Option<LayerKey>,
    diff_id: Digest,
}

/// The same layer, encrypted with a key and a nonce of zeros.
fn encrypt(plain: &Layer, directory: &Path) -> Layer {
    let path = directory.join("encrypted");
    let openssl = |from: &Path, to: &Path, arguments: &[&str]| {
        let mut command = Command::new("openssl");
        command.args(arguments).arg("-out").arg(to);
        let status = command.stdin(File::open(from).unwrap()).status();
        assert!(status.unwrap().success(), "openssl {arguments:?}");
    };
    let (key, iv) = ("00".repeat(32), "00".repeat(16));
    let cipher = ["enc", "-aes-256-ctr", "-K", &key, "-iv", &iv];
    openssl(&plain.path, &path, &cipher);
    let (option, hmac) = (format!("hexkey:{key}"), directory.join("hmac"));
    let arguments = [
        "dgst", "-sha256", "-mac", "HMAC", "-macopt", &option, "-binary",
    ];
    openssl(&path, &hmac, &arguments);
    let hmac = STANDARD.encode(fs::read(hmac).unwrap());
    let public = format!(r#"{{"cipher":"AES_256_CTR_HMAC_SHA256","hmac":"{hmac}"}}"#);
    let (key, nonce) = (STANDARD.encode([0; 32]), STANDARD.encode([0; 16]));
    let private = format!(
        r#"{{"symkey":"{key}","digest":"{}","cipheroptions":{{"nonce":"{nonce}"}}}}"#,
        plain.expected.digest
    );
    let public = PublicOptions::parse(public.as_bytes()).unwrap();
    let mut received = hasher();
    chunks(&path).for_each(|chunk| received.update(&chunk));
    Layer {
        name: format!("{}, encrypted", plain.name),
        expected: Expected {
            digest: received.finish(),
            size: plain.expected.size,
        },
        key: Some(LayerKey::parse(private.as_bytes(), &public).unwrap()),
        diff_id: plain.diff_id.clone(),
        path,
    }
}

#[derive(Clone, Copy)]
struct Run {
    wall: Duration,
    cpu_secs: f64,
    peak_mib: f64,
    plain_bytes: u64,
}

fn run(layer: &Layer, to: &Path) -> Run {
    let directory = to.join(format!("unpack-bench-{}", std::process::id()));
    fs::create_dir(&directory).unwrap();
    let root = File::open(&directory).unwrap();
    // The peak of what comes, not of what came before.
    fs::write("/proc/self/clear_refs", "5").unwrap();
    let waiting = Waiting::default();
    let (cpu, started) = (cpu_secs(), Instant::now());
    let unpacked = layer_unpack::unpack(
        chunks(&layer.path),
        &layer.expected,
        layer.key.as_ref(),
        &layer.diff_id,
        root.into(),
        &waiting.caller(),
    );
    let (wall, cpu) = (started.elapsed(), cpu_secs() - cpu);
    let peak_mib = peak_mib();
    let plain_bytes = unpacked.unwrap().plain_bytes;
    removal::remove_path(&directory).unwrap();
    Run {
        wall,
        cpu_secs: cpu,
        peak_mib,
        plain_bytes,
    }
}

/// A file as a transfer gives it.
fn chunks(path: &Path) -> impl Iterator<Item = Bytes> + use<> {
    let mut file = File::open(path).unwrap();
    std::iter::from_fn(move || {
        let mut chunk = vec![0; CHUNK_BYTES];
        let read = file.read(&mut chunk).unwrap();
        chunk.truncate(read);
        (read > 0).then(|| Bytes::from(chunk))
    })
}

fn digests(blob: &Path) -> (Expected, Digest) {
    let mut received = hasher();
    chunks(blob).for_each(|chunk| received.update(&chunk));
    let expected = Expected {
        digest: received.finish(),
        size: fs::metadata(blob).unwrap().len(),
    };
    let mut plain = compression::decode(Chunks::new(chunks(blob))).unwrap();
    let (mut hasher, mut buffer) = (hasher(), vec![0; 2 * compression::MIN_BUFFER_BYTES]);
    loop {
        let filled = plain.fill(&mut buffer).unwrap();
        if filled.is_empty() {
            return (expected, hasher.finish());
        }
        hasher.update(&buffer[filled]);
    }
}

fn hasher() -> Hasher {
    let zero = format!("sha256:{}", "0".repeat(64));
    Digest::parse(&zero).unwrap().hasher()
}

/// User and system time of this process, of all its threads.
fn cpu_secs() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let (_, fields) = stat.rsplit_once(')').unwrap();
    let times = fields.split_whitespace().skip(11).take(2);
    let ticks: u64 = times.map(|time| time.parse::<u64>().unwrap()).sum();
    ticks as f64 / TICKS_PER_SECOND
}

fn peak_mib() -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM"));
    let kib = line.unwrap().split_whitespace().nth(1).unwrap();
    kib.parse::<f64>().unwrap() / 1024.0
}

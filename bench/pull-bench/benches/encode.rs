//! Packing a document: into memory as this project does it, and the way that the Kata runtimes do
//! it for initdata (best compression, a temporary file, `fsync`, `rename`).

#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs, reason = "a benchmark")]

use std::fs::File;
use std::hint::black_box;
use std::io::Write;
use std::path::Path;

use config_image::{Magic, encode};
use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use flate2::{Compression, write::GzEncoder};

/// A document of exactly `bytes` bytes as nodes have them: entries with a token and a certificate,
/// which hardly compress, between keys that do. No two entries are alike.
fn document(bytes: usize) -> String {
    const BASE64: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut random = |length: usize| -> String {
        (0..length)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                char::from(BASE64[(state >> 58) as usize])
            })
            .collect()
    };
    let mut text = String::with_capacity(bytes + 4096);
    for entry in 0.. {
        if text.len() >= bytes {
            break;
        }
        let token = random(120);
        text += &format!("[registries.\"registry-{entry}.corp\"]\nauth = \"{token}\"\n");
        text += "ca-certs = \"\"\"\n-----BEGIN CERTIFICATE-----\n";
        for _ in 0..12 {
            text += &random(64);
            text.push('\n');
        }
        text += "-----END CERTIFICATE-----\n\"\"\"\n\n";
    }
    text.truncate(bytes);
    text
}

/// The same image through a file that survives a power failure.
fn pack_to_file(document: &[u8], directory: &Path) {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(document).unwrap();
    let gzip = gzip.finish().unwrap();
    let temporary = directory.join("image.tmp");
    let mut file = File::create(&temporary).unwrap();
    file.write_all(b"imgpullr").unwrap();
    file.write_all(&(gzip.len() as u64).to_le_bytes()).unwrap();
    file.write_all(&gzip).unwrap();
    let size = (16 + gzip.len()).next_multiple_of(512);
    file.set_len(size as u64).unwrap();
    file.sync_all().unwrap();
    std::fs::rename(&temporary, directory.join("image")).unwrap();
}

fn pack(criterion: &mut Criterion) {
    // In the build directory: a temporary directory is often memory, where fsync costs nothing.
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let mut group = criterion.benchmark_group("pack");
    for (name, bytes) in [("1 KiB", 1 << 10), ("64 KiB", 64 << 10), ("1 MiB", 1 << 20)] {
        let document = document(bytes);
        let image = encode(Magic::IMAGEPULLER, document.as_bytes()).unwrap();
        println!("{name}: image of {} bytes", image.len());
        group.throughput(Throughput::Bytes(bytes as u64));
        group.bench_function(BenchmarkId::new("memory", name), |bencher| {
            bencher.iter(|| encode(Magic::IMAGEPULLER, black_box(document.as_bytes())).unwrap());
        });
        group.bench_function(BenchmarkId::new("file", name), |bencher| {
            bencher.iter(|| pack_to_file(black_box(document.as_bytes()), directory.path()));
        });
    }
    group.finish();
}

criterion_group!(benches, pack);
criterion_main!(benches);

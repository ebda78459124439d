//! What real programs wrote and answered; `recorded/README.md` says which.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The text of a recorded file: `images/expect.json`.
///
/// # Errors
///
/// Where there is no such file.
pub fn recorded(name: &str) -> Result<String> {
    std::fs::read_to_string(recorded_path(name)).with_context(|| format!("failed to read {name}"))
}

/// The bytes of a recorded file: `keyprovider/kek.bin`.
///
/// # Errors
///
/// Where there is no such file.
pub fn recorded_bytes(name: &str) -> Result<Vec<u8>> {
    std::fs::read(recorded_path(name)).with_context(|| format!("failed to read {name}"))
}

/// Where a recorded file or folder lies: `images/buildah-push`.
#[must_use]
pub fn recorded_path(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("recorded");
    folder.join(name)
}

/// The frames of `recorded/ttrpc/NAME.txt`: what was asked, and what was answered.
///
/// # Errors
///
/// Where there is no such file, or a side is missing in it.
pub fn recorded_call(name: &str) -> Result<[Vec<u8>; 2]> {
    let text = recorded(&format!("ttrpc/{name}.txt"))?;
    let frame = |mark: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(mark));
        let hex: Vec<u8> = line.context("a side is missing")?.replace(' ', "").into();
        let pairs =
            hex.chunks(2).map(|pair| Ok(u8::from_str_radix(std::str::from_utf8(pair)?, 16)?));
        pairs.collect::<Result<Vec<u8>>>()
    };
    Ok([frame("> ")?, frame("< ")?])
}

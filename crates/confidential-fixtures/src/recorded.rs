//! What real programs wrote and answered; `recorded/README.md` says which.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};
use test_http::{Answer, End, Incoming, Request};

/// The text of a recorded file: `tokens/p521.json`.
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

/// One exchange with the real key broker, of `recorded/kbs`.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// What was asked.
    pub request: Request,
    /// What the broker answered.
    pub answer: Answer,
    /// The answer's body.
    pub body: String,
}

impl Exchange {
    /// Reads `recorded/kbs/NAME.txt`.
    ///
    /// # Errors
    ///
    /// Where there is no such exchange.
    pub fn read(name: &str) -> Result<Self> {
        let text = recorded(&format!("kbs/{name}.txt"))?;
        let (asked, _) = side(&text, '>');
        let Incoming::Request(request) = Request::read(&mut asked.as_bytes())? else {
            bail!("{name} has no request");
        };
        let (answered, body) = side(&text, '<');
        let answer = Answer { bytes: answered.into_bytes(), end: End::Close };
        Ok(Self { request, answer, body })
    }

    /// The names of all exchanges, sorted.
    ///
    /// # Errors
    ///
    /// Where the folder cannot be listed.
    pub fn names() -> Result<Vec<String>> {
        let files = std::fs::read_dir(recorded_path("kbs"))?;
        let mut names = Vec::new();
        for file in files {
            let name = file?.file_name();
            let name = name.to_str().and_then(|name| name.strip_suffix(".txt"));
            names.extend(name.map(str::to_owned));
        }
        names.sort();
        Ok(names)
    }
}

/// The message of one side as it was sent, and its body alone.
fn side(text: &str, mark: char) -> (String, String) {
    let lines = text.lines().filter_map(|line| line.strip_prefix(mark));
    let lines: Vec<&str> = lines.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect();
    let end = lines.iter().position(|line| line.is_empty());
    let (head, body) = lines.split_at(end.map_or(lines.len(), |end| end + 1));
    let body = body.concat();
    (head.join("\r\n") + "\r\n" + &body, body)
}

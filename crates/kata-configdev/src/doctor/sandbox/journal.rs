//! The node's journal, read by `journalctl` where there is one.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use foreign_text::one_line;
use serde::Deserialize;

use crate::doctor::node::Node;

/// The program.
const PROGRAM: &str = "journalctl";

/// Where it keeps its files.
const KEPT: [&str; 2] = ["/var/log/journal", "/run/log/journal"];

/// The most entries that are asked for, the newest first.
const MAX_ENTRIES: usize = 20_000;

/// The most bytes of them that are read. Free to change.
const MAX_BYTES: usize = 32 << 20;

/// The same of what it says of itself.
const MAX_SAID_BYTES: usize = 16 << 10;

/// How much of it is held at once, and how often, before somebody takes it. Free to change.
const CHUNK_BYTES: usize = 64 << 10;
const CHUNKS: usize = 4;

/// The longest time that it may take. Free to change.
const PATIENCE: Duration = Duration::from_secs(30);

/// How long the words of a program that has ended are waited for: another may hold its end.
const SOON: Duration = Duration::from_secs(1);

/// The priority of an error, as syslog counts.
const ERROR: u8 = 3;

/// Both runtimes' identifier, and the container engines'.
pub const IDENTIFIERS: [&str; 6] = ["kata", "kata-runtime", "containerd", "crio", "k3s", "rke2"];

/// An entry.
#[derive(Debug, PartialEq, Eq)]
pub struct Entry {
    /// What was said, as it is.
    pub text: String,
    /// How bad that was, as syslog counts.
    priority: Option<u8>,
}

impl Entry {
    /// Whether it tells of an error: containerd says so in the text only.
    #[must_use]
    pub fn is_error(&self) -> bool {
        let says_so = ["level=error", "level=fatal", "\"level\":\"ERRO\""];
        self.priority.is_some_and(|priority| priority <= ERROR)
            || says_so.iter().any(|mark| self.text.contains(mark))
    }
}

/// A node's journal.
#[derive(Debug)]
pub struct Journal(Command);

/// A text, or bytes where it is no UTF-8; null where it was too long.
#[derive(Deserialize)]
#[serde(untagged)]
enum Message {
    Text(String),
    Bytes(Vec<u8>),
}

#[derive(Deserialize)]
struct Raw {
    #[serde(rename = "MESSAGE")]
    message: Option<Message>,
    #[serde(rename = "PRIORITY")]
    priority: Option<String>,
}

impl Journal {
    /// That of `node`. Of another machine than this, it is what is on its disk.
    ///
    /// # Errors
    ///
    /// Why there is none, as a sentence's beginning.
    pub fn of(node: &Node) -> Result<Self, String> {
        let mut command = Command::new(PROGRAM);
        command.args(["--output=json", "--no-pager", "--reverse"]);
        command.args(["--lines", &MAX_ENTRIES.to_string()]);
        if !node.is_here() {
            let mut kept = KEPT.iter().filter_map(|path| node.real(Path::new(path)).ok());
            let kept = kept.next().ok_or("the node keeps no journal on its disk")?;
            let here = node.host.join(kept.strip_prefix("/").unwrap_or(&kept));
            command.arg("--directory").arg(here);
        }
        command.args(IDENTIFIERS.map(|identifier| format!("SYSLOG_IDENTIFIER={identifier}")));
        command.stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        Ok(Self(command))
    }

    /// Its entries, the newest first.
    ///
    /// # Errors
    ///
    /// Why there are none, as a sentence's beginning.
    pub fn read(mut self) -> Result<Found, String> {
        let child = self.0.spawn();
        let mut child = child.map_err(|error| format!("{PROGRAM} cannot be started: {error}"))?;
        let text = child.stdout.take().map(chunks);
        let said = child.stderr.take().map(chunks);
        let text = text.map(|chunks| gather(&chunks, MAX_BYTES, Instant::now() + PATIENCE));
        // It may still have more to say.
        let _ = child.kill();
        let _ = child.wait();
        let (text, end) = text.unwrap_or_default();
        let entries = entries(&text);
        if entries.is_empty() {
            let soon = Instant::now() + SOON;
            let said = said.map(|chunks| gather(&chunks, MAX_SAID_BYTES, soon).0);
            return Err(why_nothing(end, &said.unwrap_or_default()));
        }
        let cut = match end {
            End::Late => Some(format!(
                "what {PROGRAM} had not said after {} s, the older entries",
                PATIENCE.as_secs()
            )),
            End::TooLong => Some(format!(
                "entries that are older than the newest {} MiB of them",
                MAX_BYTES >> 20
            )),
            End::All if entries.len() >= MAX_ENTRIES => Some(format!(
                "entries that are older than the newest {MAX_ENTRIES} of Kata and the container \
                engine"
            )),
            End::All => None,
        };
        Ok(Found { entries, cut })
    }
}

/// What was read of a journal.
#[derive(Debug)]
pub struct Found {
    /// The entries, the newest first.
    pub entries: Vec<Entry>,
    /// What was left out, where something was, as a phrase.
    pub cut: Option<String>,
}

/// Why reading ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum End {
    /// There is no more.
    #[default]
    All,
    /// There may be more, but it is enough.
    TooLong,
    /// It took too long.
    Late,
}

fn why_nothing(end: End, said: &[u8]) -> String {
    let said = String::from_utf8_lossy(said);
    // Hints come first.
    let last = said.lines().rfind(|line| !line.trim().is_empty());
    match (last, end) {
        (Some(line), _) => format!("{PROGRAM} says: {}", one_line(line)),
        (None, End::Late) => format!("{PROGRAM} says nothing for {} s", PATIENCE.as_secs()),
        (None, _) => format!("{PROGRAM} has no entry of Kata or the container engine"),
    }
}

/// What `source` says, as it comes. Who listens no more ends it, at the latest at its next word.
fn chunks(mut source: impl Read + Send + 'static) -> Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::sync_channel(CHUNKS);
    thread::spawn(move || {
        let mut chunk = vec![0; CHUNK_BYTES];
        while let Ok(length @ 1..) = source.read(&mut chunk) {
            if sender.send(chunk[..length].to_vec()).is_err() {
                break;
            }
        }
    });
    receiver
}

/// The chunks that come before `deadline`, about `limit` bytes of them.
fn gather(chunks: &Receiver<Vec<u8>>, limit: usize, deadline: Instant) -> (Vec<u8>, End) {
    let mut text = Vec::new();
    loop {
        if text.len() >= limit {
            return (text, End::TooLong);
        }
        match chunks.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(chunk) => text.extend(chunk),
            Err(RecvTimeoutError::Disconnected) => return (text, End::All),
            Err(RecvTimeoutError::Timeout) => return (text, End::Late),
        }
    }
}

/// The entries of its output, one object in a line. What is none is left out.
#[must_use]
pub fn entries(text: &[u8]) -> Vec<Entry> {
    let entry = |line: &[u8]| {
        let raw: Raw = serde_json::from_slice(line).ok()?;
        let text = match raw.message? {
            Message::Text(text) => text,
            Message::Bytes(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        };
        let priority = raw.priority.and_then(|priority| priority.parse().ok());
        Some(Entry { text, priority })
    };
    text.split(|byte| *byte == b'\n').filter_map(entry).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All entries were thrown away where the end was late, and "nothing" was said.
    #[test]
    fn what_came_in_time_is_kept() {
        let (sender, receiver) = mpsc::sync_channel(CHUNKS);
        sender.send(b"one".to_vec()).unwrap();
        let late = gather(&receiver, 100, Instant::now());
        assert_eq!(late, (b"one".to_vec(), End::Late));
        sender.send(b"two".to_vec()).unwrap();
        let long = gather(&receiver, 3, Instant::now() + PATIENCE);
        assert_eq!(long, (b"two".to_vec(), End::TooLong));
        drop(sender);
        let all = gather(&receiver, 3, Instant::now() + PATIENCE);
        assert_eq!(all, (Vec::new(), End::All));
        let denied = b"Hint: x\nNo journal files were opened.\n\n";
        assert!(why_nothing(End::All, denied).ends_with("says: No journal files were opened."));
        assert!(why_nothing(End::Late, b"").ends_with("says nothing for 30 s"));
        assert!(why_nothing(End::All, b"").contains("has no entry of"));
    }

    #[test]
    fn entries_are_read_in_every_form() {
        let text = br#"{"MESSAGE":"one","PRIORITY":"3","X":["a","b"]}
{"MESSAGE":[116,119,111,255],"PRIORITY":"6"}
{"MESSAGE":null,"PRIORITY":"3"}
not an object
{"MESSAGE":"level=error msg=three"}"#;
        let read = entries(text);
        let read: Vec<_> = read.iter().map(|one| (one.text.as_str(), one.is_error())).collect();
        let expected = [("one", true), ("two\u{fffd}", false), ("level=error msg=three", true)];
        assert_eq!(read, expected);
    }
}

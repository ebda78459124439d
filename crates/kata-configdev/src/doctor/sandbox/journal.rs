//! The node's journal, read by `journalctl` where there is one.

use std::io::Read;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use serde::Deserialize;

use crate::doctor::node::Node;

/// The program.
const PROGRAM: &str = "journalctl";

/// Where it keeps its files.
const KEPT: [&str; 2] = ["/var/log/journal", "/run/log/journal"];

/// The most entries that are asked for, the newest first.
const MAX_ENTRIES: &str = "20000";

/// The most bytes of them that are read. Free to change.
const MAX_BYTES: u64 = 32 << 20;

/// The longest time that it may take. Free to change.
const PATIENCE: Duration = Duration::from_secs(30);

/// The priority of an error, as syslog counts.
const ERROR: u8 = 3;

/// Both runtimes' identifier, and the container engines'.
const IDENTIFIERS: [&str; 6] = ["kata", "kata-runtime", "containerd", "crio", "k3s", "rke2"];

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
        command.args(["--output=json", "--no-pager", "--quiet", "--reverse"]);
        command.args(["--lines", MAX_ENTRIES]);
        if !node.is_here() {
            let mut kept = KEPT
                .iter()
                .filter_map(|path| node.real(Path::new(path)).ok());
            let kept = kept.next().ok_or("the node keeps no journal on its disk")?;
            let here = node.host.join(kept.strip_prefix("/").unwrap_or(&kept));
            command.arg("--directory").arg(here);
        }
        command.args(IDENTIFIERS.map(|identifier| format!("SYSLOG_IDENTIFIER={identifier}")));
        command.stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::null());
        Ok(Self(command))
    }

    /// Its entries, the newest first.
    ///
    /// # Errors
    ///
    /// Why there are none, as a sentence's beginning.
    pub fn read(mut self) -> Result<Vec<Entry>, String> {
        let child = self.0.spawn();
        let mut child = child.map_err(|error| format!("{PROGRAM} cannot be started: {error}"))?;
        let read = bounded(&mut child);
        // It may still have more to say.
        let _ = child.kill();
        let _ = child.wait();
        let text = read?;
        let entries = entries(&text);
        if entries.is_empty() {
            return Err(format!(
                "{PROGRAM} has no entry of Kata or the container engine"
            ));
        }
        Ok(entries)
    }
}

/// What the program prints, up to a limit of bytes and of time.
fn bounded(child: &mut Child) -> Result<Vec<u8>, String> {
    let stdout = child.stdout.take().ok_or("no output")?;
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let mut text = Vec::new();
        let read = stdout.take(MAX_BYTES).read_to_end(&mut text);
        // Nobody listens any more where it took too long.
        let _ = sender.send(read.map(|_| text));
    });
    match receiver.recv_timeout(PATIENCE) {
        Ok(Ok(text)) => Ok(text),
        Ok(Err(error)) => Err(format!("{PROGRAM} cannot be read: {error}")),
        Err(_) => Err(format!(
            "{PROGRAM} says nothing for {} s",
            PATIENCE.as_secs()
        )),
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
    text.split(|byte| *byte == b'\n')
        .filter_map(entry)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_read_in_every_form() {
        let text = br#"{"MESSAGE":"one","PRIORITY":"3","X":["a","b"]}
{"MESSAGE":[116,119,111,255],"PRIORITY":"6"}
{"MESSAGE":null,"PRIORITY":"3"}
not an object
{"MESSAGE":"level=error msg=three"}"#;
        let read = entries(text);
        let read: Vec<_> = read
            .iter()
            .map(|one| (one.text.as_str(), one.is_error()))
            .collect();
        let expected = [
            ("one", true),
            ("two\u{fffd}", false),
            ("level=error msg=three", true),
        ];
        assert_eq!(read, expected);
    }
}

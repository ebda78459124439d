//! Asks the registries of a document, by the guest's own puller.

use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::cli::CommandError;
use crate::exit;

/// The guest's puller, whose command `probe` goes the way of a pull.
const PROGRAM: &str = "imagepuller";

/// The most that is read of what it says: its lines are few and bounded.
const MAX_SAID_BYTES: u64 = 4 << 20;

/// Where the questions come from, for whoever reads the answers.
pub const FROM: &str =
    "asked from this host, by its own network and names; a guest's may be others";

/// What is asked.
#[derive(Debug)]
pub struct Question<'q> {
    /// The document to ask by.
    document: &'q Path,
    is_measured: bool,
    /// The images; none for each entry of the document.
    images: &'q [PathBuf],
    /// Whether the answer is to be an object.
    json: bool,
}

/// What came of it.
#[derive(Debug)]
pub struct Answer {
    /// The program's words.
    pub said: Vec<u8>,
    /// Its exit code, which is as those of this one.
    pub code: u8,
}

impl<'q> Question<'q> {
    /// What `arguments` ask of the document `path`.
    pub fn of(path: &'q Path, arguments: &super::Arguments, images: &'q [PathBuf]) -> Self {
        Self { document: path, is_measured: arguments.measured, images, json: arguments.json }
    }

    /// Asks. What goes wrong at all stands on standard error.
    pub fn ask(&self) -> Result<Answer, CommandError> {
        let program = program();
        let failed = |source: io::Error| CommandError::Puller { source };
        let mut command = Command::new(&program);
        command.arg("probe");
        let option = if self.is_measured { "--measured" } else { "--config" };
        command.arg(option).arg(self.document);
        if self.json {
            command.arg("--json");
        }
        command.arg("--").args(self.images);
        command.stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn().map_err(failed)?;
        let mut said = Vec::new();
        if let Some(output) = child.stdout.take() {
            output.take(MAX_SAID_BYTES).read_to_end(&mut said).map_err(failed)?;
        }
        let ended = child.wait().map_err(failed)?;
        let code = ended.code().and_then(|code| u8::try_from(code).ok());
        Ok(Answer { said, code: code.unwrap_or(exit::INTERNAL) })
    }
}

impl Answer {
    /// The object that it is; `null` where it is none, and standard error says why.
    pub fn object(&self) -> Value {
        serde_json::from_slice(&self.said).unwrap_or_default()
    }
}

/// The one that was installed with this program, or else that of `PATH`.
fn program() -> PathBuf {
    let beside = std::env::current_exe().map(|own| own.with_file_name(PROGRAM));
    match beside {
        Ok(path) if path.is_file() => path,
        _ => PROGRAM.into(),
    }
}

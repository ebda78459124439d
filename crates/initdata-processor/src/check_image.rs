//! Whether a guest image's parts fit together, asked where it is built.
//!
//! Everything below the root may be wrong in any way: links are resolved inside of it, every file
//! is read up to a limit, and what is quoted is shown safely.
//!
//! `agent`: the agent, its policy, and what it finds of initdata. `boot`: who starts what.
//! `configuration`: the file that the agent reads in the place of kernel parameters. `hub`: who
//! listens where the agent asks for images. `kernel`: the kernel's options. `tree`: files below the
//! root. `unit`: systemd's units with their drop-ins.

mod agent;
mod boot;
mod configuration;
mod hub;
mod kernel;
mod tree;
mod unit;

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use foreign_text::bounded::read_path;

use crate::deny::quoted;
use crate::line::line;
use crate::settings::Settings;
use tree::Tree;

/// The longest text that is read: a kernel's list of modules has half a mebibyte.
const MAX_TEXT_BYTES: usize = 4 << 20;

/// The longest line of a finding.
const MAX_LINE_BYTES: usize = 1024;

/// What is checked.
#[derive(Clone, Debug)]
pub struct Options {
    /// The image's root directory.
    pub root: PathBuf,
    /// The agent, below it.
    pub agent: PathBuf,
    /// The kernel's configuration; without it the one in the image.
    pub kernel_config: Option<PathBuf>,
    /// The kernel's parameters, which Kata's configuration has.
    pub kernel_parameters: Option<String>,
}

/// How bad it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// A guest of this image does not work, or runs what it must not.
    Error,
    /// Worth to know, or not checked.
    Warning,
}

/// Something that does not fit.
#[derive(Clone, Debug)]
pub struct Finding {
    /// How bad it is.
    pub level: Level,
    /// What it is about: a file, an option, a parameter.
    pub subject: String,
    /// What is wrong, and what to do.
    pub text: String,
}

impl Finding {
    /// One object.
    #[must_use]
    pub fn json(&self) -> String {
        let [subject, text] = [&self.subject, &self.text].map(|text| quoted(text, MAX_LINE_BYTES));
        let level = self.level;
        format!("{{\"level\": \"{level}\", \"subject\": {subject}, \"text\": {text}}}")
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format!("{}: {}: {}", self.level, self.subject, self.text);
        f.write_str(&line(&text, MAX_LINE_BYTES))
    }
}

impl fmt::Display for Level {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Error => "error",
            Self::Warning => "warning",
        })
    }
}

/// The image, and what was found so far.
#[derive(Debug)]
struct Check<'a> {
    options: &'a Options,
    tree: Tree,
    settings: Settings,
    findings: Vec<Finding>,
}

/// Checks an image.
///
/// # Errors
///
/// The root, or the kernel's configuration that the options name, cannot be read.
pub fn check(options: &Options) -> io::Result<Vec<Finding>> {
    let mut check = Check {
        options,
        tree: Tree::open(&options.root).map_err(|error| at(&options.root, &error))?,
        settings: Settings::default(),
        findings: Vec::new(),
    };
    let settings = "etc/initdata-processor.toml";
    if let Some(text) = check.text(settings) {
        match Settings::parse(text.as_bytes()) {
            Ok(parsed) => check.settings = parsed,
            Err(error) => check.error(settings, format!("initdata is refused: {error}")),
        }
    }
    let Some(agent) = check.agent() else {
        return Ok(check.findings);
    };
    let boot = check.boot(&agent);
    check.hub(&agent, &boot);
    check.kernel(&boot)?;
    Ok(check.findings)
}

impl Check<'_> {
    fn error(&mut self, subject: impl Into<String>, text: impl Into<String>) {
        self.find(Level::Error, subject, text);
    }

    fn warn(&mut self, subject: impl Into<String>, text: impl Into<String>) {
        self.find(Level::Warning, subject, text);
    }

    fn find(&mut self, level: Level, subject: impl Into<String>, text: impl Into<String>) {
        self.findings.push(Finding { level, subject: subject.into(), text: text.into() });
    }

    /// The text of a file, if there is one; one that cannot be read is a finding.
    fn text(&mut self, path: &str) -> Option<String> {
        let text = self.tree.text(path, MAX_TEXT_BYTES).unwrap_or_else(|error| {
            self.error(path, format!("cannot be read: {error}"));
            None
        });
        text.map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
    }

    /// A word of the kernel's parameters, without its key: the last counts, as for the kernel.
    fn parameter(&self, key: &str) -> Option<&str> {
        let words = self.options.kernel_parameters.iter();
        let words = words.flat_map(|text| text.split_ascii_whitespace());
        words.filter_map(|word| word.strip_prefix(key)).next_back()
    }
}

/// The text of a file that the caller names.
fn outside(path: &Path) -> io::Result<String> {
    let text = read_path(path, MAX_TEXT_BYTES).map_err(|error| at(path, &error.into()))?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}

/// The error with the path that it is about.
fn at(path: &Path, error: &io::Error) -> io::Error {
    io::Error::new(error.kind(), format!("{}: {error}", path.display()))
}

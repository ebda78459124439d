//! The guest's puller run on this machine: the same static program, `imagepuller pull`, without a
//! VM.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use sha2::{Digest, Sha256};
use vm_harness::Program;

/// A pull with its documents, in a directory of its own.
#[derive(Debug)]
pub struct HostPull {
    directory: tempfile::TempDir,
    arguments: Vec<String>,
    /// What was measured.
    measured: String,
}

/// What came of a pull.
#[derive(Debug)]
pub struct Outcome {
    /// The exit code.
    pub code: Option<i32>,
    /// Everything that the program said.
    pub said: String,
    /// What it kept for who asks in the guest.
    pub reasons: String,
    output: PathBuf,
    _directory: tempfile::TempDir,
}

impl HostPull {
    /// A pull with the host's document.
    ///
    /// # Errors
    ///
    /// Those of the file system.
    pub fn new(document: &str) -> Result<Self> {
        // A file system in memory, which has what a layer may need.
        let directory = tempfile::tempdir_in("/dev/shm")?;
        let path = directory.path().join("imagepuller.toml");
        fs::write(&path, document)?;
        let arguments = vec!["--config".to_owned(), path.display().to_string()];
        Ok(Self { directory, arguments, measured: String::new() })
    }

    /// With a document that was measured, behind what was before.
    #[must_use]
    pub fn measured(mut self, document: &str) -> Self {
        self.measured.push_str(document);
        self
    }

    /// With the place to ask for resources.
    #[must_use]
    pub fn resources(self, source: &str) -> Self {
        self.measured(&format!("[resources]\nsource = \"{source}\"\n"))
    }

    /// Pulls an image.
    ///
    /// # Errors
    ///
    /// Where the program cannot be started.
    pub fn run(self, image: &str) -> Result<Outcome> {
        let output = self.directory.path().join("out");
        let mut command = Command::new(Program::Imagepuller.path()?);
        command.arg("pull").args(&self.arguments);
        if !self.measured.is_empty() {
            let measured = self.directory.path().join("measured.toml");
            fs::write(&measured, &self.measured)?;
            command.arg("--measured").arg(measured);
        }
        let reasons = self.directory.path().join("reasons");
        command.arg("--reasons").arg(&reasons);
        command.arg("--output").arg(&output).arg(image);
        // A proxy of this machine's is none of the test's.
        for name in ["HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"] {
            command.env_remove(name).env_remove(name.to_ascii_lowercase());
        }
        let ran = command.stdin(Stdio::null()).output()?;
        let said = [ran.stdout, ran.stderr].concat();
        Ok(Outcome {
            code: ran.status.code(),
            said: String::from_utf8_lossy(&said).into_owned(),
            reasons: fs::read_to_string(reasons).unwrap_or_default(),
            output,
            _directory: self.directory,
        })
    }
}

impl Outcome {
    /// The regular files of the image: path, then mode and SHA-256.
    ///
    /// # Errors
    ///
    /// Where the pull failed.
    pub fn files(&self) -> Result<BTreeMap<String, (u32, String)>> {
        ensure!(self.code == Some(0), "the pull failed: {}", self.said);
        tree(&self.output.join("rootfs"))
    }

    /// Why there is no image, and the proof that there is none.
    ///
    /// # Errors
    ///
    /// Where there is one.
    pub fn refusal(&self) -> Result<&str> {
        ensure!(self.code.is_some_and(|code| code != 0), "the pull was not refused: {}", self.said);
        ensure!(!self.output.exists(), "something was left behind: {}", self.said);
        ensure!(!self.said.is_empty(), "the refusal gives no reason");
        ensure!(!self.said.contains("panicked"), "{}", self.said);
        println!("{}", self.said.trim_end());
        Ok(&self.said)
    }
}

/// The regular files below a directory: path, then mode and SHA-256 in hexadecimal.
///
/// # Errors
///
/// Those of the file system.
pub fn tree(root: &Path) -> Result<BTreeMap<String, (u32, String)>> {
    let mut files = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            let (path, kind) = (entry.path(), entry.file_type()?);
            if kind.is_dir() {
                folders.push(path);
            } else if kind.is_file() {
                let mode = entry.metadata()?.permissions().mode() & 0o7777;
                let digest = Sha256::digest(fs::read(&path)?);
                let digest = digest.iter().map(|byte| format!("{byte:02x}")).collect();
                let name = path.strip_prefix(root)?.to_str();
                let name = name.context("a name that is not UTF-8")?.to_owned();
                files.insert(name, (mode, digest));
            }
        }
    }
    Ok(files)
}

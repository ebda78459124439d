//! The guest's first file system, a `newc` cpio archive.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use cpio::newc;

use crate::Program;
use crate::fixture::{Fixture, source};

const DIRECTORY: u32 = 0o040_755;
const PROGRAM: u32 = 0o100_755;
const FILE: u32 = 0o100_644;

/// An archive being written.
#[derive(Debug)]
pub struct Initramfs {
    bytes: Vec<u8>,
    next_inode: u32,
    folders: BTreeSet<PathBuf>,
}

impl Initramfs {
    /// The file system that every guest with a pod shares: a shell, the modules, and this project's
    /// two guest programs.
    ///
    /// # Errors
    ///
    /// Where a part is missing; the message says what makes it.
    pub fn base(fixture: &Fixture) -> Result<Self> {
        let mut archive = Self::shell(&fixture.modules)?;
        for program in [Program::InitdataProcessor, Program::Imagepuller] {
            archive.program(program)?;
        }
        for module in &fixture.optional_modules {
            archive.module(module)?;
        }
        Ok(archive)
    }

    /// A shell that loads `modules` and runs `job/run`.
    ///
    /// # Errors
    ///
    /// Where a part is missing.
    pub fn shell(modules: &[PathBuf]) -> Result<Self> {
        let mut archive = Self { bytes: Vec::new(), next_inode: 1, folders: BTreeSet::new() };
        for folder in ["bin", "dev", "etc", "job", "modules", "proc", "run", "sys", "tmp"] {
            archive.folder(Path::new(folder))?;
        }
        archive.executable("bin/busybox", Path::new("/bin/busybox"))?;
        archive.executable("init", &source("guest/init"))?;
        let mut order = String::new();
        for module in modules {
            order.push_str(&archive.module(module)?);
            order.push('\n');
        }
        archive.file("modules/order", order.as_bytes())?;
        Ok(archive)
    }

    /// Adds a plain file.
    ///
    /// # Errors
    ///
    /// Where the file is larger than the format can say.
    pub fn file(&mut self, name: &str, content: &[u8]) -> Result<()> {
        self.add(name, FILE, content)
    }

    /// Adds a program of this workspace to `/bin`.
    ///
    /// # Errors
    ///
    /// Where it was not built.
    pub fn program(&mut self, program: Program) -> Result<()> {
        let name = format!("bin/{}", program.name());
        self.executable(&name, &program.path()?)
    }

    /// Adds the program, or the library, that lies at `from`.
    ///
    /// # Errors
    ///
    /// Where it cannot be read.
    pub fn executable(&mut self, name: &str, from: &Path) -> Result<()> {
        self.add(name, PROGRAM, &read(from)?)
    }

    /// Ends the archive.
    ///
    /// # Errors
    ///
    /// None in practice: it is written to memory.
    pub fn finish(self) -> Result<Vec<u8>> {
        Ok(newc::trailer(self.bytes)?)
    }

    /// Adds a kernel module and returns its file name.
    fn module(&mut self, from: &Path) -> Result<String> {
        let name = from.file_name().unwrap_or_default().to_string_lossy();
        self.add(&format!("modules/{name}"), FILE, &read(from)?)?;
        Ok(name.into_owned())
    }

    /// Adds a directory, and those above it, unless they are there.
    fn folder(&mut self, folder: &Path) -> Result<()> {
        if folder.as_os_str().is_empty() || !self.folders.insert(folder.to_owned()) {
            return Ok(());
        }
        self.add(&folder.to_string_lossy(), DIRECTORY, b"")
    }

    fn add(&mut self, name: &str, mode: u32, content: &[u8]) -> Result<()> {
        if let Some(parent) = Path::new(name).parent() {
            self.folder(parent)?;
        }
        let size = u32::try_from(content.len()).map_err(io::Error::other)?;
        let mut entry = newc::Builder::new(name)
            .ino(self.next_inode)
            .mode(mode)
            .nlink(1)
            .write(&mut self.bytes, size);
        entry.write_all(content)?;
        entry.finish()?;
        self.next_inode += 1;
        Ok(())
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).with_context(|| format!("failed to read {}", path.display()))
}

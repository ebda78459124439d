//! The guest's first file system, a `newc` cpio archive.

use std::fs;
use std::io::{self, Write};
use std::path::Path;

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
}

impl Initramfs {
    /// The file system that every guest shares: a shell, the modules, and this project's two guest
    /// programs.
    ///
    /// # Errors
    ///
    /// Where a part is missing; the message says what makes it.
    pub fn base(fixture: &Fixture) -> Result<Self> {
        let mut archive = Self {
            bytes: Vec::new(),
            next_inode: 1,
        };
        for folder in [
            "bin", "dev", "etc", "job", "modules", "proc", "run", "sys", "tmp",
        ] {
            archive.add(folder, DIRECTORY, b"")?;
        }
        archive.copy("bin/busybox", PROGRAM, Path::new("/bin/busybox"))?;
        archive.copy("init", PROGRAM, &source("guest/init"))?;
        for program in [Program::InitdataProcessor, Program::Imagepuller] {
            archive.program(program)?;
        }
        let mut order = String::new();
        for module in &fixture.modules {
            let name = module.file_name().unwrap_or_default().to_string_lossy();
            archive.copy(&format!("modules/{name}"), FILE, module)?;
            order.push_str(&name);
            order.push('\n');
        }
        for module in &fixture.optional_modules {
            let name = module.file_name().unwrap_or_default().to_string_lossy();
            archive.copy(&format!("modules/{name}"), FILE, module)?;
        }
        archive.add("modules/order", FILE, order.as_bytes())?;
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
        self.copy(&name, PROGRAM, &program.path()?)
    }

    /// Ends the archive.
    ///
    /// # Errors
    ///
    /// None in practice: it is written to memory.
    pub fn finish(self) -> Result<Vec<u8>> {
        Ok(newc::trailer(self.bytes)?)
    }

    fn copy(&mut self, name: &str, mode: u32, from: &Path) -> Result<()> {
        let content =
            fs::read(from).with_context(|| format!("failed to read {}", from.display()))?;
        self.add(name, mode, &content)
    }

    fn add(&mut self, name: &str, mode: u32, content: &[u8]) -> Result<()> {
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

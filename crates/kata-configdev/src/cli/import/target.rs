//! Where a new document goes, and what it is added to.

use std::io::{Write, stdout};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use clap::Args;
use rustix::fs::fstat;

use super::outcome::{label, require_one_stdin};
use crate::cli::finding::Input;
use crate::cli::{CommandError, UsageError};
use crate::image_file;

/// The first line of a document that was written anew.
const WRITTEN: &str = "# Written by kata-configdev with --into; comments are not kept.\n";

/// The options for it.
#[derive(Args, Debug)]
pub struct Target {
    /// Add to this document, whose own words win, and write it anew in its place: its mode stays,
    /// its comments go. Nothing is printed then.
    #[arg(long, value_name = "DOCUMENT")]
    pub into: Option<PathBuf>,
    /// Write the document to this file, mode 0600, instead of standard output or the file of
    /// --into; "-" is standard output.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace the file of --output if it is there.
    #[arg(long, requires = "output")]
    force: bool,
}

impl Target {
    /// Requires that standard input is named once, `files` included, and that nothing is lost.
    pub fn require<'a>(
        &'a self,
        files: impl IntoIterator<Item = &'a PathBuf>,
    ) -> Result<(), UsageError> {
        require_one_stdin(files.into_iter().chain(&self.into))?;
        let own = [&self.into, &self.output].into_iter().flatten();
        if let Some(path) = own.clone().find(|path| is_emptied(path)) {
            return Err(UsageError::OutputEmptied(path.clone()));
        }
        match self.file() {
            Some(path) if !self.force && self.into.as_deref() != Some(path) => {
                let is_there = path.symlink_metadata().is_ok();
                let lost = is_there.then(|| UsageError::OutputExists(path.to_owned()));
                lost.map_or(Ok(()), Err)
            }
            _ => Ok(()),
        }
    }

    /// The document that is added to.
    pub fn base(&self) -> Result<Option<Input>, CommandError> {
        self.into.as_deref().map(Input::read).transpose()
    }

    /// How messages call the document that is added to.
    pub fn base_name(&self) -> String {
        self.into.as_deref().map_or_else(|| "the document".to_owned(), label)
    }

    /// The file that is written, if it is one.
    pub fn file(&self) -> Option<&Path> {
        let path = self.output.as_deref().or(self.into.as_deref());
        path.filter(|path| *path != Path::new("-"))
    }

    /// The lines that are put in front of a document: none but where comments were lost.
    pub fn header(&self) -> &'static str {
        if self.into.is_some() { WRITTEN } else { "" }
    }

    /// Writes a document; one to which nothing was added is left as it is.
    pub fn write(
        &self,
        base: Option<&Input>,
        text: &[u8],
        out: &mut impl Write,
    ) -> Result<(), CommandError> {
        let Some(path) = self.file() else {
            return Ok(out.write_all(text)?);
        };
        let same = base.filter(|_| self.into.as_deref() == Some(path));
        if same.is_some_and(|base| *base.text == *text) {
            return Ok(());
        }
        let mode = same.and_then(Input::mode).unwrap_or(image_file::MODE);
        image_file::write_as(path, text, mode).map_err(CommandError::output)
    }
}

/// Whether standard output is this file, which was emptied for that.
fn is_emptied(path: &Path) -> bool {
    let (Ok(file), Ok(own)) = (path.metadata(), fstat(stdout())) else {
        return false;
    };
    file.is_file() && file.len() == 0 && (file.dev(), file.ino()) == (own.st_dev, own.st_ino)
}

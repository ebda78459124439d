//! The documents that a pull goes by, as options of a person at a terminal.

use std::collections::BTreeSet;
use std::fs::File;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::path::PathBuf;

use clap::Args;
use foreign_text::bounded::ReadError;
use registry_client::{Documents, HubConfiguration, Piped};
use registry_config::MAX_DOCUMENT_BYTES;

/// Where the documents are.
#[derive(Clone, Debug, Args)]
pub struct DocumentOptions {
    /// The configuration, a file or a pipe; none means no credentials and the web's public CAs
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// A measured document; its entries come before those of --config, and "source" of its
    /// [resources] answers for what is given by reference: cdh=unix:PATH or file=FILE
    #[arg(long, value_name = "FILE")]
    pub measured: Option<PathBuf>,
    /// A data hub's measured configuration; what it says of image pulls completes --measured
    #[arg(long, value_name = "FILE")]
    cdh: Option<PathBuf>,
}

impl DocumentOptions {
    /// The files. One that is missing is refused: that means something in a guest; here it is a
    /// slip. A pipe, which keeps secrets off the disk, is read once, into memory.
    ///
    /// # Errors
    ///
    /// Words about the first one that is missing or cannot be read.
    pub fn open(&self) -> Result<Documents, String> {
        let files = [&self.config, &self.measured, &self.cdh];
        if let Some(path) = files.into_iter().flatten().find(|path| !path.exists()) {
            return Err(format!("the file {} does not exist", path.display()));
        }
        let mut piped = Piped::default();
        // By what they are: one pipe has several names (/dev/stdin, /dev/fd/0), and what was read
        // by one of them is empty by the next.
        let mut read = BTreeSet::new();
        for path in files.into_iter().flatten() {
            let failed = |error| format!("failed to read {}: {error}", path.display());
            if let Ok(found) = path.metadata()
                && found.file_type().is_fifo()
            {
                if !read.insert((found.dev(), found.ino())) {
                    let twice = "a pipe can be read only once, and it is named twice";
                    return Err(failed(twice.to_owned()));
                }
                let pipe = File::open(path).map_err(ReadError::from);
                let kept = pipe.and_then(|pipe| piped.keep(path, pipe, MAX_DOCUMENT_BYTES));
                kept.map_err(|error| failed(error.to_string()))?;
            }
        }
        Ok(Documents {
            configuration: self.config.clone().unwrap_or_default(),
            measured: self.measured.clone(),
            hub: self.cdh.clone().map(|file| HubConfiguration {
                file,
                // Those of this machine are no guest's.
                parameters: PathBuf::new(),
            }),
            piped,
            any_address: true,
        })
    }

    /// Whether a document is named at all.
    pub fn is_any(&self) -> bool {
        self.config.is_some() || self.measured.is_some() || self.cdh.is_some()
    }
}

//! The documents that a pull goes by, as options of a person at a terminal.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::IntoRawFd;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use clap::Args;
use foreign_text::bounded::read_stream;
use puller_config::{MAX_DOCUMENT_BYTES, ResourceSource, Resources};
use registry_client::{Documents, HubConfiguration};
use rustix::fs::{MemfdFlags, memfd_create};

/// Where the documents are, and what answers for their references.
#[derive(Clone, Debug, Args)]
pub struct DocumentOptions {
    /// The configuration, a file or a pipe; none means no credentials and the web's public CAs
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// A measured document; its entries come before those of --config, and it may have [resources]
    #[arg(long, value_name = "FILE")]
    pub measured: Option<PathBuf>,
    /// A data hub's measured configuration; what it says of image pulls completes --measured
    #[arg(long, value_name = "FILE")]
    cdh: Option<PathBuf>,
    /// The text of the initdata, which a key broker gets with the evidence
    #[arg(long, value_name = "FILE")]
    pub initdata: Option<PathBuf>,
    /// A source of credentials, roots and keys that are given by reference: cdh=unix:PATH
    /// or offline=FILE; may be repeated, and the sources are asked in this order
    #[arg(long, value_name = "SOURCE", value_parser = super::simple_source)]
    resources: Vec<ResourceSource>,
}

impl DocumentOptions {
    /// The files. One that is missing is refused: that means something in a guest; here it is a
    /// slip. A pipe, which keeps secrets off the disk, is read once into memory, and stands there
    /// as a file.
    ///
    /// # Errors
    ///
    /// Words about the first one that is missing or cannot be read.
    pub fn open(&self) -> Result<Documents, String> {
        let files = [&self.config, &self.measured, &self.cdh, &self.initdata];
        if let Some(path) = files.into_iter().flatten().find(|path| !path.exists()) {
            return Err(format!("the file {} does not exist", path.display()));
        }
        let file = |path: &Option<PathBuf>| path.as_deref().map(as_file).transpose();
        let [config, measured, hub] = [&self.config, &self.measured, &self.cdh].map(file);
        Ok(Documents {
            configuration: config?.unwrap_or_default(),
            measured: measured?,
            hub: hub?.map(|file| HubConfiguration {
                file,
                // Those of this machine are no guest's.
                parameters: PathBuf::new(),
            }),
        })
    }

    /// Whether a document is named at all.
    pub fn is_any(&self) -> bool {
        self.config.is_some() || self.measured.is_some() || self.cdh.is_some()
    }

    /// What answers for references.
    pub fn resources(&self) -> Resources {
        super::resources(&self.resources)
    }
}

/// The path of a file with what `path` has. Of a pipe it is in memory until this program ends.
fn as_file(path: &Path) -> Result<PathBuf, String> {
    let is_pipe = path
        .metadata()
        .is_ok_and(|found| found.file_type().is_fifo());
    if !is_pipe {
        return Ok(path.to_owned());
    }
    let copied = || -> io::Result<PathBuf> {
        let text = read_stream(File::open(path)?, MAX_DOCUMENT_BYTES)?;
        let mut file = File::from(memfd_create("document", MemfdFlags::CLOEXEC)?);
        file.write_all(&text)?;
        Ok(format!("/proc/self/fd/{}", file.into_raw_fd()).into())
    };
    copied().map_err(|error| format!("failed to read {}: {error}", path.display()))
}

//! The documents that a pull goes by, as options of a person at a terminal.

use std::path::PathBuf;

use clap::Args;
use puller_config::{ResourceSource, Resources};
use registry_client::{Documents, HubConfiguration};

/// Where the documents are, and what answers for their references.
#[derive(Clone, Debug, Args)]
pub struct DocumentOptions {
    /// The configuration; none means no credentials and the web's public CAs
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
    /// Refuses a file that is missing: that means something in a guest; here it is a slip.
    ///
    /// # Errors
    ///
    /// Words about the first one.
    pub fn check(&self) -> Result<(), String> {
        let files = [&self.config, &self.measured, &self.cdh, &self.initdata];
        match files.into_iter().flatten().find(|path| !path.exists()) {
            Some(path) => Err(format!("the file {} does not exist", path.display())),
            None => Ok(()),
        }
    }

    /// The files.
    pub fn documents(&self) -> Documents {
        Documents {
            configuration: self.config.clone().unwrap_or_default(),
            measured: self.measured.clone(),
            hub: self.cdh.clone().map(|file| HubConfiguration {
                file,
                // Those of this machine are no guest's.
                parameters: PathBuf::new(),
            }),
        }
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

//! The registry: Debian's `docker-registry` on loopback, plain HTTP, no password: the cheapest
//! server there is.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::corpus::{self, Image};
use crate::daemon::Daemon;

/// A running registry with the corpus in it.
#[derive(Debug)]
pub struct Server {
    daemon: Daemon,
    port: u16,
    storage: PathBuf,
}

impl Server {
    /// Starts it on a free port.
    pub fn start(work: &Path) -> Result<Self> {
        let storage = corpus::directory().join("registry");
        fs::create_dir_all(&storage)?;
        let config = work.join("registry.yml");
        fs::write(
            &config,
            format!(
                "version: 0.1\n\
                 log: {{level: info, accesslog: {{disabled: true}}}}\n\
                 storage: {{filesystem: {{rootdirectory: {}}}}}\n\
                 http: {{addr: '127.0.0.1:0'}}\n",
                storage.display()
            ),
        )?;
        let mut command = Command::new("docker-registry");
        command.arg("serve").arg(config);
        let mut daemon = Daemon::start("docker-registry", &command, &work.join("registry.log"))?;
        let port = daemon
            .wait_for(|log| {
                let (_, rest) = log.split_once("listening on 127.0.0.1:")?;
                rest.split_once(|after: char| !after.is_ascii_digit())?
                    .0
                    .parse()
                    .ok()
            })
            .context("failed to start docker-registry")?;
        Ok(Self {
            daemon,
            port,
            storage,
        })
    }

    /// Its process.
    pub const fn daemon(&self) -> &Daemon {
        &self.daemon
    }

    /// Host and port.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// An image by tag, for tools that take no digest everywhere.
    pub fn tagged(&self, image: &Image) -> String {
        format!("{}/{}:{}", self.address(), image.name, image.tag())
    }

    /// An image by digest.
    pub fn pinned(&self, image: &Image) -> String {
        format!("{}/{}@{}", self.address(), image.name, image.digest)
    }

    /// The file that the registry serves a blob from.
    pub fn blob(&self, digest: &str) -> PathBuf {
        let hex = digest.trim_start_matches("sha256:");
        let prefix = hex.get(..2).unwrap_or_default();
        self.storage
            .join("docker/registry/v2/blobs/sha256")
            .join(prefix)
            .join(hex)
            .join("data")
    }

    /// How many bytes of bodies it has sent since it was started.
    pub fn sent_bytes(&self) -> u64 {
        let log = self.daemon.log();
        log.lines()
            .filter(|line| line.contains("http.request.method=GET"))
            .filter_map(|line| {
                let (_, rest) = line.split_once("http.response.written=")?;
                rest.split(|after: char| !after.is_ascii_digit())
                    .next()?
                    .parse::<u64>()
                    .ok()
            })
            .sum()
    }
}

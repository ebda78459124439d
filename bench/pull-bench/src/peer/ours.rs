//! This project's puller, as a service or alone.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::daemon::Daemon;
use crate::encryption;
use crate::job::Job;
use crate::measure::Cost;
use crate::options::Mode;

/// A build of this project's puller.
#[derive(Clone, Debug)]
pub struct Ours {
    /// Its name in the table.
    pub name: String,
    /// The program.
    pub program: PathBuf,
    /// How it is called.
    pub mode: Mode,
}

impl Ours {
    /// Writes the document that lets it talk to the registry.
    pub fn document(&self, job: Job<'_>) -> Result<PathBuf> {
        let path = job.work.join("imagepuller.toml");
        let mut document = format!("[registries.\"{}\"]\n", job.address());
        if job.has_tls() {
            let roots = fs::read_to_string(job.authority)?;
            document.push_str(&format!("ca-certs = \"\"\"\n{roots}\"\"\"\n"));
        } else {
            document.push_str("plain-http = true\n");
        }
        if job.image.is_encrypted {
            let key = STANDARD.encode(fs::read(encryption::key())?);
            document.push_str(&format!("[decryption-keys]\nkeys = [\"{key}\"]\n"));
        }
        fs::write(&path, document)?;
        Ok(path)
    }

    /// Starts the service, with its store on the measured file system; returns it with its socket.
    pub fn serve(&self, job: Job<'_>) -> Result<(Daemon, PathBuf)> {
        let socket = job.work.join("imagepuller.socket");
        let mut serve = Command::new(&self.program);
        serve.arg("serve").arg("--listen").arg(format!("unix:{}", socket.display()));
        let document = self.document(job)?;
        serve.arg("--store").arg(job.ground.join("store"));
        // The registry is on this machine, which takes the owner's word.
        serve.arg("--config").arg(&document);
        serve.arg("--measured").arg(&document);
        let mut daemon = job.start(&self.name, &serve, "imagepuller.log")?;
        daemon.wait_for_socket(&socket)?;
        Ok((daemon, socket))
    }

    /// The client's command for a bundle below the measured file system.
    pub fn request(&self, job: Job<'_>, socket: &Path, bundle: &str) -> Result<Command> {
        let bundle = job.ground.join(bundle);
        fs::create_dir_all(&bundle)?;
        let mut request = Command::new(&self.program);
        request.arg("request").arg("--socket").arg(socket).arg(job.pinned()).arg(bundle);
        Ok(request)
    }

    pub(super) fn ask(&self, job: Job<'_>) -> Result<Cost> {
        let (daemon, socket) = self.serve(job)?;
        job.cost_with(&daemon, &self.request(job, &socket, "bundle")?)
    }

    pub(super) fn pull(&self, job: Job<'_>) -> Result<Cost> {
        let mut pull = Command::new(&self.program);
        pull.arg("pull").arg("--config").arg(self.document(job)?);
        pull.arg("--output").arg(job.ground.join("image")).arg(job.pinned());
        job.cost(&pull)
    }
}

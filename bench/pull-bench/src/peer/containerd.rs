//! containerd, asked by `ctr images pull`, which unpacks for the overlayfs snapshotter.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

use crate::job::Job;
use crate::measure::{Cost, checked};

/// Which containerd, and how it is set up.
#[derive(Clone, Debug)]
pub struct Containerd {
    /// Its name in the table.
    pub name: &'static str,
    /// Where `containerd` and `ctr` are, if not where the system has them.
    pub directory: Option<PathBuf>,
    /// Whether it is told to do more at once than it does by itself.
    pub is_parallel: bool,
}

/// What its documentation offers for fast lines and many layers. Versions before 2.2 know no
/// `max_concurrent_unpacks`; they warn of it and go on.
const PARALLEL: &str = "[plugins.\"io.containerd.transfer.v1.local\"]\n\
    max_concurrent_downloads = 8\n\
    max_concurrent_unpacks = 4\n\
    concurrent_layer_fetch_buffer = 8388608\n";

impl Containerd {
    /// Debian's own.
    pub const DEBIAN: Self = Self { name: "containerd", directory: None, is_parallel: false };

    /// A newer one, with its defaults or in parallel.
    pub const fn two(directory: PathBuf, is_parallel: bool) -> Self {
        Self {
            name: if is_parallel { "containerd 2 (parallel)" } else { "containerd 2" },
            directory: Some(directory),
            is_parallel,
        }
    }

    /// What it says of itself, if it is not the system's.
    pub fn version(&self) -> Option<String> {
        self.directory.as_ref()?;
        let output = self.program("containerd").arg("--version").output().ok()?;
        let said = String::from_utf8_lossy(&output.stdout);
        let number = said.split_whitespace().nth(2).unwrap_or("?").to_owned();
        let more = if self.is_parallel {
            ", told to use 8 downloads, 4 unpacks if it knows that,\n  chunks of 8 MiB"
        } else {
            ""
        };
        Some(format!("{}: {number}{more}", self.name))
    }

    /// Starts the daemon and pulls.
    pub fn pull(&self, job: Job<'_>) -> Result<Cost> {
        let config = job.work.join("containerd.toml");
        let socket = job.work.join("containerd.socket");
        let (root, state) = (job.ground.join("root"), job.ground.join("state"));
        let more = if self.is_parallel { PARALLEL } else { "" };
        let text = format!(
            "version = 2\nroot = {root:?}\nstate = {state:?}\n\
             disabled_plugins = [\"io.containerd.grpc.v1.cri\", \"io.containerd.cri.v1.images\", \
             \"io.containerd.cri.v1.runtime\", \"io.containerd.nri.v1.nri\"]\n\
             [grpc]\naddress = {socket:?}\n{more}",
        );
        fs::write(&config, text)?;
        let mut command = self.program("containerd");
        command.arg("--config").arg(&config);
        let mut daemon = job.start(self.name, &command, "containerd.log")?;
        daemon.wait_for_socket(&socket)?;
        let ctr = || {
            let mut ctr = self.program("ctr");
            ctr.arg("--address").arg(&socket).args(["--namespace", "bench"]);
            ctr
        };
        // An answer means that all of it is up; the socket alone does not.
        checked(ctr().arg("version"))?;
        let mut pull = ctr();
        pull.args(["images", "pull"]);
        if job.has_tls() {
            pull.arg("--hosts-dir").arg(hosts(job)?);
        } else {
            pull.arg("--plain-http");
        }
        pull.arg(job.tagged());
        job.cost_with(&daemon, &pull)
    }

    fn program(&self, name: &str) -> Command {
        match &self.directory {
            Some(directory) => Command::new(directory.join(name)),
            None => Command::new(name),
        }
    }
}

/// Its directory of hosts, with the certificate that vouches for the registry.
fn hosts(job: Job<'_>) -> Result<PathBuf> {
    let (hosts, address) = (job.work.join("hosts"), job.address());
    let host = hosts.join(&address);
    fs::create_dir_all(&host)?;
    let authority: &Path = job.authority;
    let text = format!(
        "server = \"https://{address}\"\n[host.\"https://{address}\"]\nca = {authority:?}\n"
    );
    fs::write(host.join("hosts.toml"), text)?;
    Ok(hosts)
}

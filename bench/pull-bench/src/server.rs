//! The registry: Debian's `docker-registry` without a password, the cheapest server there is; one
//! process for each transport, all with the same storage.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result};
use line_emulator::FAR_ADDRESS;
use test_http::pki::Authority;

use crate::corpus::{self, Image};
use crate::daemon::Daemon;
use crate::way::{Transport, Way};

/// A running registry with the corpus in it.
#[derive(Debug)]
pub struct Server {
    transport: Transport,
    daemon: Daemon,
    port: u16,
    storage: PathBuf,
}

/// The registries of all transports.
#[derive(Debug)]
pub struct Servers {
    plain: Server,
    others: Vec<Server>,
    /// The certificate of who vouches for those with TLS, in a directory of its own.
    authority: PathBuf,
}

impl Servers {
    /// Starts one for each transport in `ways`, and one without TLS in any case.
    pub fn start(work: &Path, ways: &[Way]) -> Result<Self> {
        let authority = Authority::new("pull-bench")?;
        let identity = authority.sign(&["127.0.0.1", FAR_ADDRESS])?;
        let trust = work.join("trust");
        fs::create_dir_all(&trust)?;
        let path = trust.join("ca.crt");
        fs::write(&path, authority.certificate())?;
        fs::write(work.join("registry.crt"), identity.certificate)?;
        fs::write(work.join("registry.key"), identity.key)?;
        let mut others = Vec::new();
        for transport in [Transport::Tls, Transport::Http2] {
            if ways.iter().any(|way| way.transport == transport) {
                others.push(Server::start(work, transport)?);
            }
        }
        Ok(Self { plain: Server::start(work, Transport::Plain)?, others, authority: path })
    }

    /// The one without TLS.
    pub const fn plain(&self) -> &Server {
        &self.plain
    }

    /// The one that speaks so; without TLS if none was asked for.
    pub fn of(&self, transport: Transport) -> &Server {
        let speaks_so = |server: &&Server| server.transport == transport;
        self.others.iter().find(speaks_so).unwrap_or(&self.plain)
    }

    /// Whose certificates the tools trust, as a file called `ca.crt`.
    pub fn authority(&self) -> &Path {
        &self.authority
    }
}

impl Server {
    /// Starts it on a free port of all addresses.
    fn start(work: &Path, transport: Transport) -> Result<Self> {
        let storage = corpus::directory().join("registry");
        fs::create_dir_all(&storage)?;
        let speaks = match transport {
            Transport::Plain => String::new(),
            Transport::Tls => tls(work) + ", http2: {disabled: true}",
            Transport::Http2 => tls(work),
        };
        let name = format!("registry-{transport:?}").to_lowercase();
        let config = work.join(format!("{name}.yml"));
        fs::write(
            &config,
            format!(
                "version: 0.1\n\
                 log: {{level: info, accesslog: {{disabled: true}}}}\n\
                 storage: {{filesystem: {{rootdirectory: {}}}}}\n\
                 http: {{addr: ':0'{speaks}}}\n",
                storage.display()
            ),
        )?;
        let mut command = Command::new("docker-registry");
        command.arg("serve").arg(config);
        let log = work.join(format!("{name}.log"));
        let mut daemon = Daemon::start("docker-registry", &command, &log)?;
        let port = daemon.wait_for(listening).context("failed to start docker-registry")?;
        Ok(Self { transport, daemon, port, storage })
    }

    /// Its process.
    pub const fn daemon(&self) -> &Daemon {
        &self.daemon
    }

    /// What it speaks.
    pub const fn transport(&self) -> Transport {
        self.transport
    }

    /// Where it listens, on every address.
    pub const fn port(&self) -> u16 {
        self.port
    }

    /// Host and port on loopback.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    /// An image by tag, on loopback.
    pub fn tagged(&self, image: &Image) -> String {
        format!("{}/{}:{}", self.address(), image.name, image.tag())
    }

    /// The file that the registry serves a blob from.
    pub fn blob(&self, digest: &str) -> PathBuf {
        let hex = digest.trim_start_matches("sha256:");
        let prefix = hex.get(..2).unwrap_or_default();
        self.storage.join("docker/registry/v2/blobs/sha256").join(prefix).join(hex).join("data")
    }

    /// What it was asked for since it was started, as far as it has told.
    pub fn served(&self) -> Served {
        let log = self.daemon.log();
        let mut served = Served::default();
        for line in log.lines().filter(|line| line.contains(COMPLETED)) {
            served.requests += 1;
            if line.contains("http.request.method=GET") {
                served.sent_bytes += written(line).unwrap_or_default();
            }
        }
        served
    }

    /// The same a moment later: it tells of a request after the client has its answer.
    pub fn served_in_all(&self) -> Served {
        std::thread::sleep(Duration::from_millis(200));
        self.served()
    }
}

/// What it says at the end of each request, with an error or without.
const COMPLETED: &str = "msg=\"response completed";

/// What a registry was asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Served {
    /// Requests of any kind.
    pub requests: u64,
    /// Bytes of bodies.
    pub sent_bytes: u64,
}

/// The port in what it says once it is ready, `listening on [::]:PORT` and perhaps `, tls`.
fn listening(log: &str) -> Option<u16> {
    let (_, rest) = log.split_once("listening on ")?;
    let (address, _) = rest.split_once(['"', ','])?;
    address.rsplit_once(':')?.1.parse().ok()
}

fn written(line: &str) -> Option<u64> {
    let (_, rest) = line.split_once("http.response.written=")?;
    let digits = rest.split(|after: char| !after.is_ascii_digit()).next()?;
    digits.parse().ok()
}

fn tls(work: &Path) -> String {
    format!(
        ", tls: {{certificate: {}, key: {}}}",
        work.join("registry.crt").display(),
        work.join("registry.key").display()
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_registry_says_is_understood() {
        for (said, port) in [
            ("msg=\"listening on [::]:5000\" go.version=1", Some(5000)),
            ("msg=\"listening on [::]:5000, tls\"", Some(5000)),
            ("msg=\"listening on 0.0.0.0:5001\"", Some(5001)),
            ("msg=\"listening on [::]:50", None),
            ("", None),
        ] {
            assert_eq!(listening(said), port, "{said}");
        }
        let line = "http.response.status=200 http.response.written=4651";
        assert_eq!(written(line), Some(4651));
        assert_eq!(written("http.response.written="), None);
    }
}

//! One pull to be done: what, from where, over which line.

use std::path::Path;
use std::process::Command;

use anyhow::Result;
use line_emulator::{FAR_ADDRESS, Line};

use crate::corpus::Image;
use crate::daemon::Daemon;
use crate::measure::{self, Cost};
use crate::server::Server;
use crate::way::Transport;

/// One pull to be done.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// From here.
    pub server: &'a Server,
    /// At the far end of this line, or on loopback.
    pub line: Option<&'a Line>,
    /// Whose certificates are trusted, `ca.crt` in a directory of its own.
    pub authority: &'a Path,
    /// This image.
    pub image: &'a Image,
    /// The measured file system.
    pub ground: &'a Path,
    /// For sockets, logs and configuration.
    pub work: &'a Path,
}

impl Job<'_> {
    /// The registry's host and port.
    pub fn address(&self) -> String {
        match self.line {
            Some(_) => format!("{FAR_ADDRESS}:{}", self.server.port()),
            None => self.server.address(),
        }
    }

    /// The image by tag, for tools that take no digest everywhere.
    pub fn tagged(&self) -> String {
        format!("{}/{}:{}", self.address(), self.image.name, self.image.tag())
    }

    /// The image by digest.
    pub fn pinned(&self) -> String {
        format!("{}/{}@{}", self.address(), self.image.name, self.image.digest)
    }

    /// Whether there is TLS to the registry.
    pub fn has_tls(&self) -> bool {
        self.server.transport() != Transport::Plain
    }

    /// What `command` costs at this end of the line.
    pub fn cost(&self, command: &Command) -> Result<Cost> {
        match self.line {
            Some(line) => measure::cost(&line.enter(command), self.work),
            None => measure::cost(command, self.work),
        }
    }

    /// Starts a daemon at this end of the line.
    pub fn start(&self, name: &str, command: &Command, log: &str) -> Result<Daemon> {
        let log = self.work.join(log);
        match self.line {
            Some(line) => Daemon::start(name, &line.enter(command), &log),
            None => Daemon::start(name, command, &log),
        }
    }

    /// The cost of a client's command, and of what its daemon did for it.
    pub fn cost_with(&self, daemon: &Daemon, client: &Command) -> Result<Cost> {
        daemon.wait_until_idle();
        daemon.forget_peak()?;
        let before = daemon.cpu_secs();
        let client = self.cost(client)?;
        Ok(Cost {
            wall_secs: client.wall_secs,
            cpu_secs: client.cpu_secs + daemon.cpu_secs() - before,
            peak_kib: client.peak_kib.max(daemon.peak_kib()),
        })
    }
}

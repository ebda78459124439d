//! A service in a directory of its own, on the sockets that a test wants; it needs no root.

use std::fs::{self, File};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{Child, Command, ExitStatus, Stdio};

use rustix::process::Signal;
use tempfile::TempDir;

use crate::support::{imagepuller, signal, wait_until, with_local_hosts};

/// A directory, and the service in it. Ends when dropped.
pub struct Served {
    directory: TempDir,
    process: Option<Child>,
}

impl Served {
    /// A directory without a service.
    pub fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let measured = directory.path().join("measured.toml");
        fs::write(measured, with_local_hosts("", None)).unwrap();
        Self { directory, process: None }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The path of a socket as an address.
    pub fn address(&self, name: &str) -> String {
        format!("unix:{}", self.path(name).display())
    }

    /// The command that serves on these sockets, with store and document below the directory.
    pub fn command(&self, sockets: &[&str]) -> Command {
        let mut command = imagepuller(["serve"]);
        command.arg("--store").arg(self.path("store"));
        command.arg("--config").arg(self.path("imagepuller.toml"));
        command.arg("--measured").arg(self.path("measured.toml"));
        for name in sockets {
            command.args(["--listen", &self.address(name)]);
        }
        command.env_remove("NOTIFY_SOCKET").env_remove("WATCHDOG_USEC");
        command
    }

    /// The command that holds an agent's connection, in a `/run` of its own: the service is looked
    /// for in the directory `run`.
    pub fn hub(&self) -> Command {
        fs::create_dir_all(self.path("run")).unwrap();
        let script = "mount -t tmpfs tmpfs /run && mkdir /run/guest-services && \
            mount --bind \"$0\" /run/guest-services && exec \"$@\"";
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", script]).arg(self.path("run"));
        command.args([env!("CARGO_BIN_EXE_imagepuller"), "hub"]);
        command
    }

    /// Starts a command that serves.
    pub fn start(&mut self, command: &mut Command) {
        let log = File::create(self.path("log")).unwrap();
        let process = command.stdin(Stdio::null()).stderr(log).spawn();
        self.process = Some(process.unwrap());
    }

    /// The process.
    pub fn id(&self) -> u32 {
        self.process.as_ref().unwrap().id()
    }

    /// Waits until a socket takes connections.
    pub fn wait_for(&self, socket: &str) {
        let path = self.path(socket);
        wait_until(|| self.log(), || UnixStream::connect(&path).is_ok());
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap()
    }

    /// Waits for its end.
    pub fn end(&mut self) -> ExitStatus {
        self.process.take().unwrap().wait().unwrap()
    }

    /// Ends it as a service manager does.
    pub fn terminate(&mut self) -> ExitStatus {
        signal(self.process.as_ref().unwrap(), Signal::TERM);
        self.end()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

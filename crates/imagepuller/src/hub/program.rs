//! A program that is started again whenever it ends.

use std::io;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::io::retry_on_intr;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use tokio::task::spawn_blocking;
use tokio::time::sleep;

/// The pause before a program is started again.
const PAUSE: Duration = Duration::from_secs(1);

/// How long a program may take to end: the service lets pulls end for 20 s.
const STOP_TIMEOUT: Timespec = Timespec { tv_sec: 25, tv_nsec: 0 };

/// What the service manager told this process, and only this one.
const OF_MANAGER: [&str; 5] =
    ["NOTIFY_SOCKET", "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_FDS", "LISTEN_PID"];

/// A program, and its process while there is one. A handle, not a number: the kernel gives a number
/// to another process once this one has ended.
#[derive(Debug)]
pub struct Program {
    name: &'static str,
    command: Command,
    process: Option<OwnedFd>,
}

impl Program {
    /// Does not start it yet.
    pub fn new(name: &'static str, mut command: Command) -> Self {
        command.stdin(Stdio::null());
        for variable in OF_MANAGER {
            command.env_remove(variable);
        }
        Self { name, command, process: None }
    }

    /// Has it running. Does not end; the process stays when this is dropped.
    pub async fn keep(&mut self) {
        loop {
            match self.run().await {
                Ok(status) => tracing::error!("{} ended and is started again: {status}", self.name),
                Err(error) => {
                    let program = self.command.get_program().display();
                    tracing::error!("{} cannot be started: {program}: {error}", self.name);
                }
            }
            self.process = None;
            sleep(PAUSE).await;
        }
    }

    /// Ends it as a service manager does.
    pub async fn end(&mut self) {
        let Some(process) = self.process.take() else {
            return;
        };
        let end = move || {
            let told = pidfd_send_signal(&process, Signal::TERM);
            let mut ended = [PollFd::new(&process, PollFlags::IN)];
            if told.is_ok() && retry_on_intr(|| poll(&mut ended, Some(&STOP_TIMEOUT))) != Ok(1) {
                let _ = pidfd_send_signal(&process, Signal::KILL);
            }
        };
        let _ = spawn_blocking(end).await;
    }

    async fn run(&mut self) -> io::Result<ExitStatus> {
        let mut child = self.command.spawn()?;
        match pidfd_open(Pid::from_child(&child), PidfdFlags::empty()) {
            Ok(process) => self.process = Some(process),
            Err(error) => {
                child.kill()?;
                child.wait()?;
                return Err(error.into());
            }
        }
        let ended = spawn_blocking(move || child.wait()).await;
        ended.unwrap_or_else(|error| Err(io::Error::other(error)))
    }
}

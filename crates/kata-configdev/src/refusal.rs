//! What becomes of a sandbox that must not start.
//!
//! - [`Refusal`]: the line for its owner. [`Refuse`]: the way that the line takes.
//! - [`monitor`], with [`command`]: an error in QEMU's place. [`last`]: what is kept of it
//!   for a day.

pub mod command;
pub mod last;
pub mod monitor;

use std::io::{self, Write};

use config_image::Magic;
use foreign_text::one_line;
use registry_config::NodeError;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde::{Deserialize, Serialize};

use crate::disk::{Device, Disk};
use crate::invocation::Invocation;
use crate::wrapper::NAME;
use crate::{SandboxError, exit};

/// How the sandbox's owner gets to know that it was refused, and why. The line on standard error
/// and the exit code are the same each time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Refuse {
    /// As the runtime that started the wrapper can read it.
    #[default]
    Auto,
    /// By an error on QEMU's monitor, where Kata's Go runtime waits.
    Monitor,
    /// By a document that refuses each pull: the VM starts, and its puller says why.
    Disk,
    /// Not at all: the wrapper ends.
    Exit,
}

impl Refuse {
    /// Whether the VM of `invocation` starts with the reason on its disk, if it can have one. Where
    /// the guest does not pull, nobody would read it.
    #[must_use]
    pub const fn is_by_disk(self, invocation: &Invocation, guest_pull: bool) -> bool {
        match self {
            Self::Auto => invocation.rust_runtime && guest_pull,
            Self::Disk => true,
            Self::Monitor | Self::Exit => false,
        }
    }

    /// What is left where no VM can start.
    ///
    /// Kata's Rust runtime takes an answer on the monitor for a QEMU that is not ready, and asks on
    /// until its own time is up. Every other runtime is answered, also one that nobody knows.
    #[must_use]
    pub const fn without_disk(self, invocation: &Invocation) -> Self {
        match self {
            Self::Auto | Self::Disk if invocation.rust_runtime => Self::Exit,
            Self::Auto | Self::Disk => Self::Monitor,
            Self::Monitor | Self::Exit => self,
        }
    }
}

/// A sandbox that must not start.
#[derive(Debug)]
pub struct Refusal {
    /// What stands on standard error and is shown to the sandbox's owner: one line in plain
    /// characters, without a secret.
    pub line: String,
    /// How the wrapper ends, one of [`exit`].
    pub exit_code: u8,
    /// What kind of cause it is, one of [`last::CAUSES`].
    pub cause: &'static str,
}

impl Refusal {
    /// Why `invocation` starts no sandbox.
    #[must_use]
    pub fn new(error: &SandboxError, invocation: &Invocation) -> Self {
        let sandbox = invocation.sandbox.as_ref();
        let sandbox = sandbox.map(|id| format!("sandbox {id}: "));
        let line =
            format!("{NAME}: {}failed to {error}: {}", sandbox.unwrap_or_default(), error.remedy());
        Self {
            line: one_line(&line).to_string(),
            exit_code: error.exit_code(),
            cause: error.cause(),
        }
    }

    /// A bug, which has said this already.
    #[must_use]
    pub fn of_panic(said: &str) -> Self {
        Self { line: one_line(said).to_string(), exit_code: exit::INTERNAL, cause: "bug" }
    }

    /// Writes the line to standard error. Without one the exit code is all that can be said.
    pub fn tell(&self) {
        let stderr = io::stderr();
        let mut reader = [PollFd::new(&stderr, PollFlags::OUT)];
        let looked = poll(&mut reader, Some(&Timespec::default()));
        // An `exec` that failed has left SIGPIPE with its default action, and the runtime still
        // waits for an answer.
        if looked.is_err() || !reader[0].revents().contains(PollFlags::ERR) {
            let _ = writeln!(&stderr, "{}", self.line);
        }
    }

    /// A disk that has the line in the place of a document.
    ///
    /// # Errors
    ///
    /// [`SandboxError::Pack`] and [`SandboxError::Memory`].
    pub fn disk(&self, device: Device) -> Result<Disk, SandboxError> {
        let document = NodeError::new(&self.line).to_document();
        let image = config_image::encode(Magic::IMAGEPULLER, document.as_bytes())?;
        Disk::in_memory(&image, device)
    }
}

//! What becomes of a sandbox that must not start.

use serde::{Deserialize, Serialize};

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

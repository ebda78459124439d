//! The events of a disk that is being served.

use std::fmt;

use process_sandbox::files::Enforced;

/// An event that an operator may want to know of. `Display` gives the log line, which never holds
/// content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The process can open no file and make no connection any more; nothing was read from the VMM
    /// yet.
    Sandboxed {
        /// How much the kernel has of Landlock, the second wall behind the system call filter.
        landlock: Enforced,
    },
    /// A VMM connected.
    Connected,
    /// A driver took the device; now its requests are waited for. Firmware and kernel do so one
    /// after the other.
    Negotiated,
    /// The guest read for the first time.
    FirstRead,
    /// The guest has read every sector, but for zeroes at the end.
    Complete,
    /// The content is zeroed; further reads are refused.
    Dark,
}

impl fmt::Display for Event {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sandboxed { landlock } => write!(
                formatter,
                "sandboxed: no files, no network, no new programs{}",
                match landlock {
                    Enforced::Full => "",
                    Enforced::Partial => " (this kernel's Landlock knows not all of it)",
                    Enforced::Absent =>
                        " (this kernel has no Landlock; the system call filter stands alone)",
                }
            ),
            Self::Connected => formatter.write_str("the VMM connected"),
            Self::Negotiated => formatter.write_str("the guest's driver took the disk"),
            Self::FirstRead => formatter.write_str("the guest's first read"),
            Self::Complete => formatter.write_str("the guest has read the whole disk"),
            Self::Dark => {
                formatter.write_str("the disk is dark: content zeroed, reads are refused")
            }
        }
    }
}

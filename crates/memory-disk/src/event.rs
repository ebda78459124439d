//! The events of a disk that is being served.

use std::fmt;
use std::time::Duration;

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
    /// A driver took the device, but asked for nothing in time or until the VMM went away. The one
    /// line that explains an otherwise silent hang.
    Silent {
        /// The time since the driver took the device.
        waited: Duration,
        /// What is known about the reason.
        silence: Silence,
    },
    /// The guest read for the first time.
    FirstRead,
    /// The guest has read every sector, but for zeroes at the end.
    Complete,
    /// New content took the place of the old one.
    Updated,
    /// The content is zeroed; further reads are refused.
    Dark,
}

/// How far a driver got that then asked for nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Silence {
    /// The VMM handed over no guest memory.
    NoMemory,
    /// There is memory, but no queue was started.
    NoQueue,
    /// A queue was started, but all of it and of what lies around it is zero in the memory that was
    /// handed over.
    MemoryNotShared,
    /// Everything is in place; the guest has no request.
    NoRequest,
}

impl Event {
    /// Whether something is wrong that needs a person.
    #[must_use]
    pub const fn is_error(&self) -> bool {
        matches!(
            self,
            Self::Silent {
                silence: Silence::NoMemory | Silence::NoQueue | Silence::MemoryNotShared,
                ..
            }
        )
    }
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
            Self::Silent { waited, silence } => write!(
                formatter,
                "no request in the {:.1} s since the guest's driver took the disk: {silence}",
                waited.as_secs_f32()
            ),
            Self::FirstRead => formatter.write_str("the guest's first read"),
            Self::Complete => formatter.write_str("the guest has read the whole disk"),
            Self::Updated => formatter.write_str("the disk has new content"),
            Self::Dark => {
                formatter.write_str("the disk is dark: content zeroed, reads are refused")
            }
        }
    }
}

impl fmt::Display for Silence {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        const REMEDY: &str = "back the whole RAM with shared memory, for QEMU: -object \
                              memory-backend-memfd,id=ram,size=...,share=on and -machine \
                              memory-backend=ram";
        match self {
            Self::NoMemory => write!(
                formatter,
                "the VMM handed over no guest memory, as it does where none is shareable; {REMEDY}"
            ),
            Self::NoQueue => write!(
                formatter,
                "the VMM started no queue; guest memory may be shared only in part; {REMEDY}"
            ),
            Self::MemoryNotShared => write!(
                formatter,
                "the guest's memory looks empty from here, so it is not shared with this process; \
                {REMEDY}"
            ),
            Self::NoRequest => formatter.write_str(
                "memory and queue are in place, but the guest sent no request; it may still be \
                starting",
            ),
        }
    }
}

//! The network namespace of the machine.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// Moves this thread, and what it will start, into the network namespace of the machine's first
/// process. All other threads stay where they are.
///
/// Where that namespace cannot be looked at, as by a hypervisor without root, the thread stays,
/// too: it then may do no more than its pod.
///
/// # Errors
///
/// Those of `setns(2)`, where the namespace is another one.
pub fn enter() -> io::Result<()> {
    let (Ok(host), Ok(own)) =
        (File::open("/proc/1/ns/net"), File::open("/proc/thread-self/ns/net"))
    else {
        return Ok(());
    };
    let (one, other) = (host.metadata()?, own.metadata()?);
    if (one.dev(), one.ino()) == (other.dev(), other.ino()) {
        return Ok(());
    }
    move_into_link_name_space(host.as_fd(), Some(LinkNameSpaceType::Network))?;
    Ok(())
}

//! The kernel's announcements of devices.

use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::netlink::{KOBJECT_UEVENT, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SocketFlags, SocketType, bind, recv, socket_with};

/// The kernel's own announcements; group 2 is udev's.
const KERNEL: u32 = 1;

/// The most of one announcement that is looked at; the kernel's own limit is 2 KiB of variables
/// behind a path.
const MAX_EVENT_BYTES: usize = 8 << 10;

/// Announcements since the socket was opened: open it before looking at what is there.
///
/// What one says is not believed, only that something about block devices has changed.
#[derive(Debug)]
pub struct Uevents(OwnedFd);

impl Uevents {
    /// Listens from now on.
    ///
    /// # Errors
    ///
    /// Those of the socket, such as in a kernel without networking.
    pub fn open() -> io::Result<Self> {
        let socket = socket_with(
            AddressFamily::NETLINK,
            SocketType::DGRAM,
            SocketFlags::CLOEXEC | SocketFlags::NONBLOCK,
            Some(KOBJECT_UEVENT),
        )?;
        bind(&socket, &SocketAddrNetlink::new(0, KERNEL))?;
        Ok(Self(socket))
    }

    /// Waits until something about block devices has changed; `false` when `deadline` came first.
    ///
    /// A storm of announcements is taken together, and none of them moves the deadline.
    ///
    /// # Errors
    ///
    /// Those of the socket.
    pub fn wait(&self, deadline: Instant) -> io::Result<bool> {
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            let mut readable = [PollFd::new(&self.0, PollFlags::IN)];
            match poll(&mut readable, Some(&timespec(left))) {
                Ok(0) => return Ok(false),
                Ok(_) | Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            if self.drain(deadline)? {
                return Ok(true);
            }
        }
    }

    /// Takes what is waiting; whether any of it was about block devices.
    fn drain(&self, deadline: Instant) -> io::Result<bool> {
        let mut about_block = false;
        let mut event = [0; MAX_EVENT_BYTES];
        while Instant::now() < deadline {
            match recv(&self.0, &mut event[..], RecvFlags::DONTWAIT) {
                Ok((length, _)) => about_block |= is_about_block(&event[..length]),
                Err(Errno::AGAIN) => break,
                // The kernel dropped some for want of space: one of them may have been ours.
                Err(Errno::NOBUFS) => about_block = true,
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(about_block)
    }
}

fn is_about_block(event: &[u8]) -> bool {
    event.split(|byte| *byte == 0).any(|variable| variable == b"SUBSYSTEM=block")
}

fn timespec(duration: Duration) -> Timespec {
    // The only error is a duration of millennia.
    Timespec::try_from(duration).unwrap_or(Timespec { tv_sec: 1, tv_nsec: 0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_block_devices_count() {
        let event = b"add@/devices/x\0ACTION=add\0SUBSYSTEM=block\0DEVNAME=vda\0";
        assert!(is_about_block(event));
        assert!(!is_about_block(b"add@/devices/x\0SUBSYSTEM=blockx\0"));
        assert!(!is_about_block(b"add@SUBSYSTEM=block/x\0SUBSYSTEM=net\0"));
        assert!(!is_about_block(b""));
    }

    #[test]
    fn the_deadline_ends_the_wait() {
        let events = Uevents::open().unwrap();
        assert!(!events.wait(Instant::now()).unwrap());
        // Real devices may come and go meanwhile; then it answers earlier.
        events.wait(Instant::now() + Duration::from_millis(20)).unwrap();
    }

    #[test]
    fn privileged_a_change_of_a_block_device_ends_the_wait() {
        let Some(path) = std::fs::read_dir("/sys/class/block")
            .unwrap()
            .map(|entry| entry.unwrap().path().join("uevent"))
            .find(|path| {
                path.exists() && std::fs::OpenOptions::new().write(true).open(path).is_ok()
            })
        else {
            assert!(std::env::var_os("CONFIGDEV_REQUIRE_ALL").is_none());
            println!("skipped: no block device can be made to announce itself");
            return;
        };
        let events = Uevents::open().unwrap();
        std::fs::write(path, "change").unwrap();
        assert!(events.wait(Instant::now() + Duration::from_secs(30)).unwrap());
    }
}

//! Tap and TUN interfaces: the queue that a container runtime opens for a VMM, and one for packets.
//!
//! Source: Linux `include/uapi/linux/if_tun.h`, `include/uapi/linux/if.h`.

#![expect(unsafe_code, reason = "an ioctl of a device driver is unsafe to call")]

use std::io;
use std::os::fd::AsFd;

use rustix::io::Errno;
use rustix::ioctl::{Opcode, Setter, ioctl, opcode};

/// `TUNSETIFF`.
const SET_INTERFACE: Opcode = opcode::write::<libc::c_int>(b'T', 202);

/// Makes `device`, an open `/dev/net/tun`, a queue of the tap interface `name`, with the header of
/// virtio before each frame. The interface is made if need be, and goes with its last queue.
///
/// # Errors
///
/// `EINVAL` where `name` is longer than 15 bytes; otherwise those of the ioctl: `EBUSY` where the
/// interface has a queue and is not `multi_queue`.
pub fn attach(device: impl AsFd, name: &str, multi_queue: bool) -> io::Result<()> {
    let mut flags = libc::IFF_TAP | libc::IFF_NO_PI | libc::IFF_VNET_HDR;
    if multi_queue {
        flags |= libc::IFF_MULTI_QUEUE;
    }
    set_interface(device, name, flags)
}

/// Makes `device`, an open `/dev/net/tun`, the other side of the new interface `name`: each read
/// gives one IP packet that was sent there, each write is one that arrives there. The interface
/// belongs to the network namespace that `device` was opened in, and goes with it.
///
/// # Errors
///
/// `EINVAL` where `name` is longer than 15 bytes; otherwise those of the ioctl: `EBUSY` where there
/// is such an interface.
pub fn attach_tun(device: impl AsFd, name: &str) -> io::Result<()> {
    set_interface(device, name, libc::IFF_TUN | libc::IFF_NO_PI)
}

fn set_interface(device: impl AsFd, name: &str, flags: libc::c_int) -> io::Result<()> {
    if name.len() >= libc::IFNAMSIZ {
        return Err(Errno::INVAL.into());
    }
    let mut bytes = name.bytes().map(|byte| byte as libc::c_char);
    let request = libc::ifreq {
        ifr_name: std::array::from_fn(|_| bytes.next().unwrap_or(0)),
        ifr_ifru: libc::__c_anonymous_ifr_ifru { ifru_flags: flags as libc::c_short },
    };
    // SAFETY: the opcode is TUNSETIFF, whose argument is a `struct ifreq` despite the size in its
    // number; the kernel looks at the name and the flags, and nothing in it points anywhere.
    unsafe { ioctl(device, Setter::<SET_INTERFACE, _>::new(request)) }.map_err(Into::into)
}

#[cfg(test)]
mod tests {
    use std::fs::File;

    use super::*;

    #[test]
    fn other_devices_and_long_names_are_refused() {
        // _IOW('T', 202, int)
        assert_eq!(SET_INTERFACE, (1 << 30) | (4 << 16) | (0x54 << 8) | 202);
        let null = File::open("/dev/null").unwrap();
        for (name, expected) in [("tap0", Errno::NOTTY), ("a-name-too-long-x", Errno::INVAL)] {
            let errors = [attach(&null, name, false), attach_tun(&null, name)];
            for error in errors.map(Result::unwrap_err) {
                assert_eq!(error.raw_os_error(), Some(expected.raw_os_error()));
            }
        }
    }
}

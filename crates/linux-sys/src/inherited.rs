//! Sockets that the parent process made, listens on and hands over: systemd's socket activation,
//! and the monitor that Kata's runtimes give their hypervisor.

#![expect(unsafe_code, reason = "a descriptor that comes as a number has no owner yet")]

use std::io::{self, ErrorKind};
use std::os::fd::{FromRawFd as _, OwnedFd, RawFd};
use std::os::unix::net::UnixListener;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::net::sockopt::{socket_acceptconn, socket_domain, socket_type};
use rustix::net::{AddressFamily, SocketType};

/// Whether the descriptors have an owner already.
static TAKEN: AtomicBool = AtomicBool::new(false);

/// The unix sockets that `LISTEN_FDS` counts, if `LISTEN_PID` is this process. Only the first call
/// gets them.
///
/// # Errors
///
/// `InvalidInput` where a variable is not a number, and for a descriptor that is not a listening
/// unix stream socket.
pub fn unix_listeners() -> io::Result<Vec<UnixListener>> {
    let numbers = sd_notify::listen_fds()?;
    if TAKEN.swap(true, Ordering::Relaxed) {
        return Ok(Vec::new());
    }
    numbers.map(take).collect()
}

fn take(number: RawFd) -> io::Result<UnixListener> {
    // SAFETY: the descriptor is open, for `listen_fds` has just marked it close-on-exec, and it was
    // so when this process began, so nothing in here opened it under this number. `TAKEN` sees to
    // it that nobody else gets to own it.
    let socket = unsafe { OwnedFd::from_raw_fd(number) };
    listener(socket, number)
}

/// A second descriptor for the unix socket that the parent process listens on and handed over under
/// this number. The number itself stays open, whoever it belongs to.
///
/// # Errors
///
/// Those of `fcntl(2)` where nothing is open, and `InvalidInput` as for [`unix_listeners`].
pub fn unix_listener(number: RawFd) -> io::Result<UnixListener> {
    // SAFETY: the call takes any number, and answers with an error where nothing is open.
    let copy = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) };
    if copy < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just made this descriptor, and nobody else knows of it.
    let socket = unsafe { OwnedFd::from_raw_fd(copy) };
    listener(socket, number)
}

/// The socket that was handed over under this number, if it is one to accept connections from.
fn listener(socket: OwnedFd, number: RawFd) -> io::Result<UnixListener> {
    let is_fit = socket_domain(&socket)? == AddressFamily::UNIX
        && socket_type(&socket)? == SocketType::STREAM
        && socket_acceptconn(&socket)?;
    if !is_fit {
        return Err(io::Error::new(
            ErrorKind::InvalidInput,
            format!("descriptor {number} is not a listening unix stream socket"),
        ));
    }
    Ok(socket.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsRawFd as _;
    use std::os::unix::net::UnixStream;
    use std::process::Command;

    /// Runs one of the ignored tests in a process whose descriptor 3 is the one given, as a service
    /// manager would.
    fn run_with(descriptor: RawFd, test: &str) -> bool {
        let script = format!(
            "LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" --exact inherited::tests::{test} --ignored \
            3<&{descriptor}"
        );
        let output = Command::new("/bin/bash")
            .args(["-c", &script])
            .arg(std::env::current_exe().unwrap())
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains("running 1 test"), "{text}");
        output.status.success()
    }

    /// A copy without close-on-exec, for the shell.
    fn inheritable(descriptor: impl Into<OwnedFd>) -> OwnedFd {
        let copy = descriptor.into();
        rustix::io::fcntl_setfd(&copy, rustix::io::FdFlags::empty()).unwrap();
        copy
    }

    #[test]
    #[ignore = "started by the test below"]
    fn child_takes_its_socket_once() {
        let sockets = unix_listeners().unwrap();
        assert_eq!(sockets.len(), 1);
        assert_eq!(sockets[0].as_raw_fd(), 3);
        assert!(unix_listeners().unwrap().is_empty());
    }

    #[test]
    fn sockets_are_taken_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let listener = inheritable(UnixListener::bind(folder.path().join("a")).unwrap());
        assert!(run_with(listener.as_raw_fd(), "child_takes_its_socket_once"));
        let file = inheritable(tempfile::tempfile().unwrap());
        assert!(!run_with(file.as_raw_fd(), "child_takes_its_socket_once"));
        // Not in this process: it was not started with any.
        assert!(unix_listeners().unwrap().is_empty());
    }

    #[test]
    fn a_number_is_a_listener_or_an_error() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        let socket = UnixListener::bind(&path).unwrap();
        drop(unix_listener(socket.as_raw_fd()).unwrap());
        let client = UnixStream::connect(&path).unwrap();
        socket.accept().expect("still open, and still listening");
        let file = tempfile::tempfile().unwrap();
        for other in [client.as_raw_fd(), file.as_raw_fd(), 1 << 20, -1] {
            assert!(unix_listener(other).is_err(), "{other}");
        }
    }
}

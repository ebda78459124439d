//! Telling systemd how far the work is.
//!
//! Spec: `sd_notify(3)`: one datagram of `KEY=VALUE` lines to the socket that `NOTIFY_SOCKET`
//! names.

use std::ffi::OsStr;
use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};

use crate::journal::Journal;

/// A connection to systemd, or none.
#[derive(Debug, Default)]
pub struct Notifier(Option<UnixDatagram>);

impl Notifier {
    /// Connects to the socket that the environment names. Without a name, or where connecting
    /// fails, [`Notifier::tell`] does nothing.
    pub fn from_environment(journal: &mut Journal<'_>) -> Self {
        let Some(socket) = std::env::var_os("NOTIFY_SOCKET") else {
            return Self::default();
        };
        Self::connect(&socket).unwrap_or_else(|error| {
            journal.warn(format_args!("NOTIFY_SOCKET cannot be used: {error}"));
            Self::default()
        })
    }

    /// Connects to `socket`, the value of `NOTIFY_SOCKET`: a path, or an abstract name after an
    /// `@`.
    ///
    /// # Errors
    ///
    /// Those of the socket.
    pub fn connect(socket: &OsStr) -> io::Result<Self> {
        let address = match socket.as_bytes() {
            [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
            _ => SocketAddr::from_pathname(socket)?,
        };
        let datagrams = UnixDatagram::unbound()?;
        datagrams.connect_addr(&address)?;
        // A listener that does not read must not stop the verification.
        datagrams.set_nonblocking(true)?;
        Ok(Self(Some(datagrams)))
    }

    /// Says what became of it, and, if `is_ready`, that a verdict is in place.
    pub fn tell(&self, status: &str, is_ready: bool) {
        if let Some(datagrams) = &self.0 {
            let ready = if is_ready { "READY=1\n" } else { "" };
            let _ = datagrams.send(format!("{ready}STATUS={status}\n").as_bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_and_an_abstract_name() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("notify");
        let name = format!("initdata-processor-test-{}", std::process::id());
        let listeners = [
            UnixDatagram::bind(&path).unwrap(),
            UnixDatagram::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap(),
        ];
        for (listener, socket) in
            listeners.iter().zip([path.as_os_str().to_owned(), format!("@{name}").into()])
        {
            Notifier::connect(&socket).unwrap().tell("done", true);
            let mut buffer = [0; 64];
            let length = listener.recv(&mut buffer).unwrap();
            assert_eq!(&buffer[..length], b"READY=1\nSTATUS=done\n");
        }
        assert!(Notifier::connect(OsStr::new("/nowhere/at/all")).is_err());
        Notifier::default().tell("nobody listens", true);
    }
}

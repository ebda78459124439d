//! From QEMU's network to the registry in this program: QEMU starts it for each connection of the
//! guest to the one address that is open to it (`guestfwd=...-cmd:`).

use std::fs::File;
use std::io::{self, stdin, stdout};
use std::net::{Ipv4Addr, Shutdown, TcpStream};
use std::os::fd::AsFd as _;
use std::thread;

/// The word that makes this program a relay.
pub const COMMAND: &str = "relay";

/// Where the guest finds the registry.
pub const ADDRESS: &str = "10.0.2.100";

/// The port there.
pub const PORT: u16 = 5000;

/// Copies between standard input and output and this port of 127.0.0.1, until either side ends.
///
/// # Errors
///
/// Those of the connection.
pub fn run(port: u16) -> io::Result<()> {
    let registry = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    let (mut to, mut from) = (registry.try_clone()?, registry.try_clone()?);
    thread::spawn(move || {
        let _ = io::copy(&mut stdin().lock(), &mut to);
        let _ = to.shutdown(Shutdown::Write);
    });
    // Not Rust's standard output, which waits for the end of a line.
    let mut output = File::from(stdout().as_fd().try_clone_to_owned()?);
    io::copy(&mut from, &mut output)?;
    Ok(())
}

//! A port for a program that has to be told where to listen.

use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::os::fd::OwnedFd;

use anyhow::{Context, Result};
use rustix::net::{
    AddressFamily, SocketFlags, SocketType, bind, getsockname, socket_with, sockopt,
};

/// A TCP port of 127.0.0.1 that nobody else gets as long as this is held.
///
/// It is bound and does not listen: who connects to it is refused, and the kernel gives it to
/// nobody who asks for any port, so that neither another test nor a connection takes it meanwhile.
/// A program that sets `SO_REUSEADDR`, as servers do, can be told to listen on it.
#[derive(Debug)]
pub struct Port {
    number: u16,
    // Held: the port is free again without it.
    _socket: OwnedFd,
}

impl Port {
    /// Takes a free one.
    ///
    /// # Errors
    ///
    /// Where there is none.
    pub fn reserve() -> Result<Self> {
        let reserve = || -> std::io::Result<Self> {
            let flags = SocketFlags::CLOEXEC;
            let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None)?;
            sockopt::set_socket_reuseaddr(&socket, true)?;
            bind(&socket, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0))?;
            let number = SocketAddr::try_from(getsockname(&socket)?)?.port();
            Ok(Self { number, _socket: socket })
        };
        reserve().context("failed to reserve a port")
    }

    /// Its number.
    #[must_use]
    pub const fn number(&self) -> u16 {
        self.number
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn it_refuses_connections_until_somebody_who_is_told_listens() {
        let port = Port::reserve().unwrap();
        let address = (Ipv4Addr::LOCALHOST, port.number());
        assert!(TcpStream::connect(address).is_err());
        // Rust's listeners set SO_REUSEADDR.
        let listener = TcpListener::bind(address).unwrap();
        TcpStream::connect(address).unwrap();
        drop(listener);
    }
}

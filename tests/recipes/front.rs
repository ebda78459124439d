//! One host name with several servers behind it, told apart by the path.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context as _, Result};
use test_http::pki::Authority;
use test_http::{Answer, End, Request, Server, head};
use vm_harness::process::bound_command;
use vm_harness::{Background, Port, Scratch};

use crate::recipes::world::World;

/// A running front; stopped when dropped.
#[derive(Debug)]
pub struct Front {
    _server: Server,
    _ways: Vec<Way>,
}

/// Debian's `socat`, which speaks TLS to a port for those who do not; stopped when dropped.
#[derive(Debug)]
pub struct Way {
    reserved: Port,
    _process: Background,
}

impl Front {
    /// Makes `name` a host whose requests go to the first port whose path they begin with. All
    /// ports speak TLS.
    pub fn open(
        world: &World,
        authority: &Authority,
        name: &str,
        ports: &[(&str, u16)],
    ) -> Result<Self> {
        let (mut ways, mut known) = (Vec::new(), Vec::new());
        for (path, port) in ports {
            let way = Way::open(&world.scratch, *port)?;
            known.push(((*path).to_owned(), way.port()));
            ways.push(way);
        }
        let answer = move |request: &Request| -> Answer {
            let way = known.iter().find(|(path, _)| request.target.starts_with(path));
            let passed = way.and_then(|(_, port)| pass(request, *port).ok());
            passed.map_or_else(
                || head("502 Bad Gateway", "").into(),
                |bytes| Answer { bytes, end: End::Close },
            )
        };
        let tls = authority.server_config(&[name])?;
        let server = Server::listen(([127, 0, 0, 1], 0).into(), Some(tls), answer)?;
        world.lead(name, 443, server.port)?;
        Ok(Self { _server: server, _ways: ways })
    }
}

impl Way {
    /// Opens one to this port.
    pub fn open(scratch: &Scratch, to: u16) -> Result<Self> {
        let reserved = Port::reserve()?;
        let port = reserved.number();
        let mut command = bound_command("socat");
        command
            .arg(format!("TCP-LISTEN:{port},bind=127.0.0.1,reuseaddr,fork"))
            .arg(format!("OPENSSL:127.0.0.1:{to},verify=0"));
        let mut process = Background::spawn(&format!("way-{port}"), command, scratch)?;
        let listens = |_: &str| TcpStream::connect(("127.0.0.1", port)).ok();
        process.wait_for(Duration::from_secs(60), listens).context("socat did not start")?;
        Ok(Self { reserved, _process: process })
    }

    /// Where it listens.
    pub const fn port(&self) -> u16 {
        self.reserved.number()
    }
}

/// Sends a request on, and reads the whole answer.
fn pass(request: &Request, port: u16) -> std::io::Result<Vec<u8>> {
    let mut server = TcpStream::connect(("127.0.0.1", port))?;
    let closing = request.replacen("\r\n\r\n", "\r\nConnection: close\r\n\r\n", 1);
    server.write_all(closing.as_bytes())?;
    let mut answer = Vec::new();
    server.read_to_end(&mut answer)?;
    Ok(answer)
}

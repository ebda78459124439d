//! A proxy that keeps every byte that goes through it.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// A proxy in a thread.
pub struct Tunnel {
    pub port: u16,
    seen: Arc<Mutex<Vec<u8>>>,
}

impl Tunnel {
    /// Starts it. Whatever clients want to reach, they get to this port.
    pub fn start(to: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = Arc::new(Mutex::new(Vec::new()));
        let kept = seen.clone();
        std::thread::spawn(move || {
            for client in listener.incoming() {
                let (client, kept) = (client.unwrap(), kept.clone());
                std::thread::spawn(move || serve(client, to, &kept));
            }
        });
        Self { port, seen }
    }

    /// Everything that came from clients and servers, in the order in which it was passed on.
    pub fn seen(&self) -> String {
        String::from_utf8_lossy(&self.seen.lock().unwrap()).into_owned()
    }
}

/// Whoever hangs up ends the thread.
fn serve(mut client: TcpStream, to: u16, seen: &Arc<Mutex<Vec<u8>>>) -> std::io::Result<()> {
    let mut head = Vec::new();
    let mut byte = [0];
    while !head.ends_with(b"\r\n\r\n") {
        if client.read(&mut byte)? == 0 {
            return Ok(());
        }
        head.push(byte[0]);
        seen.lock().unwrap().push(byte[0]);
    }
    let mut server = TcpStream::connect(("127.0.0.1", to))?;
    client.write_all(b"HTTP/1.1 200 Connection established\r\n\r\n")?;
    let (mut from, mut to, kept) = (server.try_clone()?, client.try_clone()?, seen.clone());
    std::thread::spawn(move || {
        let _ = pass(&mut from, &mut to, &kept);
        let _ = to.shutdown(Shutdown::Write);
    });
    let passed = pass(&mut client, &mut server, seen);
    let _ = server.shutdown(Shutdown::Write);
    passed
}

fn pass(from: &mut TcpStream, to: &mut TcpStream, seen: &Mutex<Vec<u8>>) -> std::io::Result<()> {
    let mut buffer = [0; 4096];
    loop {
        let read = from.read(&mut buffer)?;
        if read == 0 {
            return Ok(());
        }
        seen.lock().unwrap().extend_from_slice(&buffer[..read]);
        to.write_all(&buffer[..read])?;
    }
}

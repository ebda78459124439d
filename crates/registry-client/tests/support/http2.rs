//! A server that speaks HTTP/2 and nothing else: one answer for each connection, in as few frames
//! as there can be.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::{Arc, Mutex};

use test_http::pki::Authority;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;

/// How it tells clients that offer something else.
#[derive(Clone, Copy, PartialEq)]
pub enum Refusal {
    /// In the handshake, as RFC 7301 wants it.
    Alert,
    /// By hanging up.
    HangUp,
    /// Not at all: it answers in frames.
    Frames,
}

/// Starts it as `localhost`; gives its port and what the clients of the connections agreed on.
pub fn start(
    authority: &Authority,
    refusal: Refusal,
    body: &'static str,
) -> (u16, Arc<Mutex<Vec<String>>>) {
    let mut config = authority.server_config(&["localhost"]).unwrap();
    config.alpn_protocols = vec![b"h2".to_vec()];
    if refusal != Refusal::Alert {
        config.alpn_protocols.push(b"http/1.1".to_vec());
    }
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let agreed = seen.clone();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let connection = rustls::ServerConnection::new(config.clone()).unwrap();
            let mut stream = rustls::StreamOwned::new(connection, stream.unwrap());
            let served = serve(&mut stream, refusal, body);
            let protocol = stream.conn.alpn_protocol().unwrap_or(b"none");
            let protocol = String::from_utf8_lossy(protocol).into_owned();
            agreed.lock().unwrap().push(protocol);
            if served.is_ok() {
                let _ = stream.read_to_end(&mut Vec::new());
            }
        }
    });
    (port, seen)
}

fn serve(
    stream: &mut rustls::StreamOwned<rustls::ServerConnection, std::net::TcpStream>,
    refusal: Refusal,
    body: &str,
) -> std::io::Result<()> {
    let mut preface = [0; PREFACE.len()];
    stream.read_exact(&mut preface)?;
    if preface != PREFACE && refusal == Refusal::HangUp {
        return Err(std::io::Error::other("not HTTP/2"));
    }
    stream.write_all(&frame(SETTINGS, 0, 0, b""))?;
    if preface != PREFACE {
        return stream.flush();
    }
    loop {
        let mut head = [0; 9];
        stream.read_exact(&mut head)?;
        let length = u32::from_be_bytes([0, head[0], head[1], head[2]]);
        let mut payload = vec![0; length as usize];
        stream.read_exact(&mut payload)?;
        let id = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
        match head[3] {
            // Acknowledged, unless it is an acknowledgement.
            SETTINGS if head[4] == 0 => stream.write_all(&frame(SETTINGS, 1, 0, b""))?,
            HEADERS => {
                // Entry 8 of the static table is ":status: 200".
                stream.write_all(&frame(HEADERS, 4, id, &[0x88]))?;
                stream.write_all(&frame(0, 1, id, body.as_bytes()))?;
                return stream.flush();
            }
            _ => {}
        }
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend_from_slice(&[kind, flags]);
    frame.extend_from_slice(&stream.to_be_bytes());
    frame.extend_from_slice(payload);
    frame
}

//! The guest's network as the host asks the agent for it, over netlink (rtnetlink(7)).

use std::fs;
use std::io;
use std::net::Ipv4Addr;

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with,
};

use super::{late, modprobe};
use crate::seen::Seen;

/// The guest's address and the gateway on QEMU's own network.
const ADDRESS: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 15);
const GATEWAY: Ipv4Addr = Ipv4Addr::new(10, 0, 2, 2);

/// Message types of rtnetlink.
const NEW_LINK: u16 = 16;
const NEW_ADDRESS: u16 = 20;
const NEW_ROUTE: u16 = 24;

/// Request, with an answer, of something new.
const FLAGS: u16 = 0x1 | 0x4 | 0x400;

/// It is there already.
const EXISTS: i32 = 17;

/// Brings the network up.
pub fn up(name_server: Option<&str>) -> Seen {
    let mut interface = find();
    let mut loaded = false;
    if interface.is_none() {
        if modprobe("virtio_net") {
            late(|| find().is_some());
        }
        interface = find();
        loaded = interface.is_some();
    }
    let error = match &interface {
        None => Some("there is no interface".to_owned()),
        Some(name) => configure(name, name_server).err().map(|error| error.to_string()),
    };
    Seen::Network { interface, loaded, error }
}

/// The first interface that is not the loopback.
fn find() -> Option<String> {
    let folder = fs::read_dir("/sys/class/net").ok()?;
    let mut names: Vec<String> = folder
        .flatten()
        .filter(|entry| entry.path().join("device").exists())
        .filter_map(|entry| entry.file_name().into_string().ok())
        .collect();
    names.sort();
    names.into_iter().next()
}

fn configure(name: &str, name_server: Option<&str>) -> io::Result<()> {
    let loopback = index("lo")?;
    let card = index(name)?;
    ask(NEW_LINK, &link(loopback))?;
    ask(NEW_LINK, &link(card))?;
    ask(NEW_ADDRESS, &address(card))?;
    ask(NEW_ROUTE, &route(card))?;
    if let Some(server) = name_server {
        // As the agent, which gets it from the host.
        let path = "/etc/resolv.conf";
        fs::write(path, format!("nameserver {server}\n"))
            .map_err(|error| io::Error::other(format!("{path} cannot be written: {error}")))?;
    }
    Ok(())
}

fn index(name: &str) -> io::Result<u32> {
    let text = fs::read_to_string(format!("/sys/class/net/{name}/ifindex"))?;
    text.trim().parse().map_err(io::Error::other)
}

/// `struct ifinfomsg`: up.
fn link(index: u32) -> Vec<u8> {
    const UP: u32 = 1;
    let mut message = vec![0; 4];
    for word in [index, UP, UP] {
        message.extend(word.to_ne_bytes());
    }
    message
}

/// `struct ifaddrmsg`, with the local address twice, as it is for no point-to-point link.
fn address(index: u32) -> Vec<u8> {
    let mut message = vec![2, 24, 0, 0];
    message.extend(index.to_ne_bytes());
    for kind in [1, 2] {
        attribute(&mut message, kind, ADDRESS.octets());
    }
    message
}

/// `struct rtmsg`: a unicast route to everywhere in the main table.
fn route(index: u32) -> Vec<u8> {
    let mut message = vec![2, 0, 0, 0, 254, 3, 0, 1, 0, 0, 0, 0];
    attribute(&mut message, 5, GATEWAY.octets());
    attribute(&mut message, 4, index.to_ne_bytes());
    message
}

fn attribute(message: &mut Vec<u8>, kind: u16, value: [u8; 4]) {
    message.extend(8_u16.to_ne_bytes());
    message.extend(kind.to_ne_bytes());
    message.extend(value);
}

/// Sends one request and reads the kernel's answer.
fn ask(kind: u16, body: &[u8]) -> io::Result<()> {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
    let length = u32::try_from(16 + body.len()).map_err(io::Error::other)?;
    let mut message = length.to_ne_bytes().to_vec();
    message.extend(kind.to_ne_bytes());
    message.extend(FLAGS.to_ne_bytes());
    message.extend([0; 8]);
    message.extend(body);
    let kernel = SocketAddrNetlink::new(0, 0);
    sendto(&socket, &message, SendFlags::empty(), &kernel)?;
    let mut answer = [0_u8; 512];
    let (length, _) = recv(&socket, &mut answer, RecvFlags::empty())?;
    match answered(&answer[..length]) {
        0 => Ok(()),
        code if code == -EXISTS => Ok(()),
        code => Err(io::Error::from_raw_os_error(-code)),
    }
}

/// The error in `struct nlmsgerr`, which follows the header.
fn answered(answer: &[u8]) -> i32 {
    match answer.get(16..20) {
        Some(&[a, b, c, d]) => i32::from_ne_bytes([a, b, c, d]),
        _ => -22,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_the_kernels_layout() {
        assert_eq!(link(2).len(), 16);
        assert_eq!(address(2).len(), 8 + 2 * 8);
        assert_eq!(route(2).len(), 12 + 2 * 8);
        let mut answer = vec![0; 36];
        answer[16..20].copy_from_slice(&(-EXISTS).to_ne_bytes());
        assert_eq!(answered(&answer), -EXISTS);
        assert_eq!(answered(&[0; 4]), -22);
    }
}

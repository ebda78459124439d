//! The guest's network as the host asks the agent for it, over netlink (rtnetlink(7)).

use std::fs;
use std::io;
use std::path::Path;

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with,
};

use super::{files, late, modprobe};
use crate::seen::Driver;

/// The guest's address and the gateway on QEMU's own network.
const ADDRESS: [u8; 4] = [10, 0, 2, 15];
const GATEWAY: [u8; 4] = [10, 0, 2, 2];

/// Message types of rtnetlink.
const NEW_LINK: u16 = 16;
const NEW_ADDRESS: u16 = 20;
const NEW_ROUTE: u16 = 24;

/// Request, with an answer, of something new.
const FLAGS: u16 = 0x1 | 0x4 | 0x400;

/// It is there already.
const EXISTS: i32 = 17;

/// Brings the network up.
pub fn up(name_server: Option<&str>) -> Driver {
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
    Driver { interface, loaded, error }
}

/// The first interface that is not the loopback.
fn find() -> Option<String> {
    let folder = "/sys/class/net";
    let mut names = files::names(folder).into_iter();
    names.find(|name| Path::new(folder).join(name).join("device").exists())
}

fn configure(name: &str, name_server: Option<&str>) -> io::Result<()> {
    for (kind, body) in requests(index("lo")?, index(name)?) {
        ask(kind, &body)?;
    }
    if let Some(server) = name_server {
        // As the agent, which gets it from the host.
        let path = "/etc/resolv.conf";
        fs::write(path, format!("nameserver {server}\n"))
            .map_err(|error| io::Error::other(format!("{path} cannot be written: {error}")))?;
    }
    Ok(())
}

fn index(name: &str) -> io::Result<[u8; 4]> {
    let text = fs::read_to_string(format!("/sys/class/net/{name}/ifindex"))?;
    let index: u32 = text.trim().parse().map_err(io::Error::other)?;
    Ok(index.to_ne_bytes())
}

/// Both interfaces up, the card's address, and a route to everywhere: the types of the messages,
/// and the structures of the kernel's with their attributes.
fn requests(loopback: [u8; 4], card: [u8; 4]) -> [(u16, Vec<u8>); 4] {
    let up = 1_u32.to_ne_bytes();
    let (local, address, gateway, through) =
        (attribute(2), attribute(1), attribute(5), attribute(4));
    [
        // `struct ifinfomsg`: the flags, and which of them change.
        (NEW_LINK, [[0; 4], loopback, up, up].concat()),
        (NEW_LINK, [[0; 4], card, up, up].concat()),
        // `struct ifaddrmsg`, with the local address twice, as it is for no point-to-point link.
        (NEW_ADDRESS, [[2, 24, 0, 0], card, address, ADDRESS, local, ADDRESS].concat()),
        // `struct rtmsg`: unicast, in the main table.
        (
            NEW_ROUTE,
            [[2, 0, 0, 0], [254, 3, 0, 1], [0; 4], gateway, GATEWAY, through, card].concat(),
        ),
    ]
}

/// The head of an attribute of four bytes.
fn attribute(kind: u16) -> [u8; 4] {
    let ([a, b], [c, d]) = (8_u16.to_ne_bytes(), kind.to_ne_bytes());
    [a, b, c, d]
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
        let lengths = requests([1, 0, 0, 0], [2, 0, 0, 0]).map(|(_, body)| body.len());
        assert_eq!(lengths, [16, 16, 8 + 2 * 8, 12 + 2 * 8]);
        let mut answer = vec![0; 36];
        answer[16..20].copy_from_slice(&(-EXISTS).to_ne_bytes());
        assert_eq!(answered(&answer), -EXISTS);
        assert_eq!(answered(&[0; 4]), -22);
    }
}

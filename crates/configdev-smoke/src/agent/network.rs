//! The guest's network as the host asks the agent for it, over netlink (rtnetlink(7)).

use std::fs;
use std::io;
use std::path::Path;

use rustix::net::netlink::SocketAddrNetlink;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, sendto, socket_with,
};

use super::{files, has_driver};

/// The guest's address, the gateway, and the name server on QEMU's own network.
const ADDRESS: [u8; 4] = [10, 0, 2, 15];
const GATEWAY: [u8; 4] = [10, 0, 2, 2];
const NAME_SERVER: &str = "nameserver 10.0.2.3\n";

/// Message types of rtnetlink.
const SET_LINK: u16 = 19;
const NEW_ADDRESS: u16 = 20;
const NEW_ROUTE: u16 = 24;

/// Request, with an answer, of something new or in the place of what is there.
const FLAGS: u16 = 0x1 | 0x4 | 0x400 | 0x100;

/// Brings the network up; the interface.
pub fn up() -> io::Result<String> {
    has_driver("virtio_net", || find().is_some());
    let name = find().ok_or_else(|| io::Error::other("there is no interface"))?;
    let index = fs::read_to_string(format!("/sys/class/net/{name}/ifindex"))?;
    let index: u32 = index.trim().parse().map_err(io::Error::other)?;
    for (kind, body) in requests(index.to_ne_bytes()) {
        ask(kind, &body)?;
    }
    // As the agent, which gets it from the host. Without one the puller says what it cannot find.
    let _ = fs::write("/etc/resolv.conf", NAME_SERVER);
    Ok(name)
}

/// The first interface that is not the loopback.
fn find() -> Option<String> {
    let folder = Path::new("/sys/class/net");
    let mut names = files::names("/sys/class/net").into_iter();
    names.find(|name| folder.join(name).join("device").exists())
}

/// The card up, its address, and a route to everywhere: the types of the messages, and the
/// structures of the kernel's with their attributes.
fn requests(card: [u8; 4]) -> [(u16, Vec<u8>); 3] {
    let up = 1_u32.to_ne_bytes();
    let (local, address, gateway, through) =
        (attribute(2), attribute(1), attribute(5), attribute(4));
    [
        // `struct ifinfomsg`: the flags, and which of them change.
        (SET_LINK, [[0; 4], card, up, up].concat()),
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

/// Sends one request and reads the kernel's answer: an error in `struct nlmsgerr`, which follows
/// the header.
fn ask(kind: u16, body: &[u8]) -> io::Result<()> {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
    let length = u32::try_from(16 + body.len()).map_err(io::Error::other)?;
    let mut message = length.to_ne_bytes().to_vec();
    message.extend([kind.to_ne_bytes(), FLAGS.to_ne_bytes()].concat());
    message.extend([0; 8]);
    message.extend(body);
    sendto(&socket, &message, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    let mut answer = [0_u8; 512];
    recv(&socket, &mut answer, RecvFlags::empty())?;
    match i32::from_ne_bytes([answer[16], answer[17], answer[18], answer[19]]) {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(-code)),
    }
}

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
const SET_LINK: u8 = 19;
const NEW_ADDRESS: u8 = 20;
const NEW_ROUTE: u8 = 24;

/// Brings the network up; the interface.
pub fn up() -> io::Result<String> {
    has_driver("virtio_net", || find().is_some());
    let name = find().ok_or_else(|| io::Error::other("there is no interface"))?;
    let index = fs::read_to_string(format!("/sys/class/net/{name}/ifindex"))?;
    let index: u32 = index.trim().parse().map_err(io::Error::other)?;
    let card = index.to_le_bytes();
    // The structures of the kernel's in words of four bytes, as x86-64 has them, with their
    // attributes: eight bytes long, the type, and the value.
    let up = [1, 0, 0, 0];
    // `struct ifinfomsg`: the flags, and which of them change.
    ask(SET_LINK, &[[0; 4], card, up, up])?;
    // `struct ifaddrmsg`, with the local address twice, as it is for no point-to-point link.
    ask(NEW_ADDRESS, &[[2, 24, 0, 0], card, [8, 0, 1, 0], ADDRESS, [8, 0, 2, 0], ADDRESS])?;
    // `struct rtmsg`: unicast, in the main table; gateway, and interface.
    let route = [[2, 0, 0, 0], [254, 3, 0, 1], [0; 4], [8, 0, 5, 0], GATEWAY, [8, 0, 4, 0], card];
    ask(NEW_ROUTE, &route)?;
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

/// Sends one request and reads the kernel's answer: an error in `struct nlmsgerr`, which follows
/// the header.
fn ask(kind: u8, body: &[[u8; 4]]) -> io::Result<()> {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, flags, None)?;
    let length = u8::try_from(16 + 4 * body.len()).map_err(io::Error::other)?;
    // Request, with an answer, of something new or in the place of what is there.
    let head = [[length, 0, 0, 0], [kind, 0, 0x1 | 0x4, 0x1 | 0x4], [0; 4], [0; 4]];
    let message = [&head, body].concat().concat();
    sendto(&socket, &message, SendFlags::empty(), &SocketAddrNetlink::new(0, 0))?;
    let mut answer = [0_u8; 512];
    recv(&socket, &mut answer, RecvFlags::empty())?;
    match i32::from_le_bytes([answer[16], answer[17], answer[18], answer[19]]) {
        0 => Ok(()),
        code => Err(io::Error::from_raw_os_error(-code)),
    }
}

//! The disks that the guest's kernel has drivers for, and which of them are ours.

use std::fs::{self, File};
use std::io::Read as _;
use std::path::Path;

use super::{Console, files};
use crate::seen::Seen;

/// Where the processor puts the nodes of disks that no agent is to find.
const HIDDEN: &str = "/dev/.initdata";

/// The magics that are told by name; other disks may hold anything.
const MAGICS: [&[u8; 8]; 2] = [b"initdata", b"imgpullr"];

/// The most disks that are told.
const MAX_DISKS: usize = 64;

/// Says each disk that is no RAM disk or loop device.
pub fn look(console: &mut Console) {
    let Ok(folder) = fs::read_dir("/sys/block") else {
        return;
    };
    let mut names: Vec<String> = folder
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| !["loop", "ram", "zram", "dm-"].iter().any(|kind| name.starts_with(kind)))
        .collect();
    names.sort();
    for name in names.into_iter().take(MAX_DISKS) {
        let node = format!("/dev/{name}");
        let visible = Path::new(&node).exists();
        let magic = first_bytes(&node).or_else(|| first_bytes(&format!("{HIDDEN}/{name}")));
        console.say(&Seen::Disk {
            magic: magic.filter(|found| MAGICS.contains(&found)).map(text),
            read_only: files::line(&format!("/sys/block/{name}/ro")) == "1",
            visible,
            name,
        });
    }
}

fn text(magic: [u8; 8]) -> String {
    String::from_utf8_lossy(&magic).into_owned()
}

fn first_bytes(node: &str) -> Option<[u8; 8]> {
    let mut bytes = [0; 8];
    File::open(node).ok()?.read_exact(&mut bytes).ok()?;
    Some(bytes)
}

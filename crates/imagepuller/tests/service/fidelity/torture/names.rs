//! Names, links, nodes and forms of headers.

use tar::{EntryType, Header};
use vm_harness::archive::Tar;

/// An archive with a header that concerns all of it, as `git archive` writes one.
pub fn with_global_header(archive: Vec<u8>) -> Vec<u8> {
    let comment = b"0123456789abcdef0123456789abcdef01234567";
    let header = Tar::default().global_pax(&[("comment", comment)]).0;
    [header, archive].concat()
}

/// The layer.
pub fn names() -> Vec<u8> {
    let deep = vec!["directory-with-a-long-name"; 30].join("/");
    let component = "n".repeat(255);
    let target = "t/".repeat(1500);
    let no_magic = |header: &mut Header| header.as_mut_bytes()[257..].fill(0);
    let v7_directory = |header: &mut Header| {
        header.as_mut_bytes()[156..].fill(0);
        header.set_mode(0o750);
    };
    let prefixed = |header: &mut Header| {
        header.as_ustar_mut().unwrap().prefix[..11].copy_from_slice(b"names/\xc3\xa9/pp");
    };
    let node = |major: u32, minor: u32, mode| {
        move |header: &mut Header| {
            header.set_mode(mode);
            header.set_device_major(major).unwrap();
            header.set_device_minor(minor).unwrap();
        }
    };
    let gnu = |header: &mut Header| header.as_mut_bytes()[257..265].copy_from_slice(b"ustar  \0");
    Tar::default()
        .directory("names")
        .file(b"names/\xff\xfe\x80 not unicode", "x")
        .file("names/line\nfeed\ttab", "x")
        .file("names/back\\slash:colon,comma\"quote", "x")
        .file("names/ spaces ", "x")
        .file("names/-rf", "x")
        .file("names/*?[a]", "x")
        .file("names/.whale", "x")
        .symlink(b"names/link\xff", b"target\xff\n")
        .pax(&[("path", format!("names/{component}").as_bytes())])
        .file("short", "x")
        .long_name(format!("names/{deep}/{component}"))
        .file("short", "deep")
        .pax(&[("linkpath", target.as_bytes())])
        .symlink("names/long-target", "short")
        .long_link(&target)
        .symlink("names/gnu-long-target", "short")
        .long_name(format!("names/hard-{component}").replace("hard-nnnnn", "hard-"))
        .long_link(format!("names/{deep}/{component}"))
        .hard_link("short", "short")
        .file_with("prefixed", b"x", prefixed)
        // Several that say how it is called.
        .pax(&[("path", b"names/of-pax")])
        .long_name("names/of-gnu")
        .file("names/of-header", "which?")
        .long_name("names/of-gnu-first")
        .pax(&[("path", b"names/of-pax-second")])
        .file("names/of-header", "which?")
        .pax(&[("path", b"names/taken-back"), ("path", b"")])
        .file("names/of-header-after-all", "which?")
        .pax(&[("path", b"names/first-header")])
        .pax(&[("gid", b"77")])
        .file("names/two-headers", "which?")
        .directory("forms")
        .file_with("forms/v7", b"x", no_magic)
        .entry_with(EntryType::Symlink, "forms/v7-link", "v7", b"", no_magic)
        .file_with("forms/v7-directory/", b"", v7_directory)
        .file("forms/v7-directory/below", "x")
        .file("forms/slash/", "")
        .file_with("forms/gnu", b"x", gnu)
        .pax(&[("size", b"1000")])
        .file_with("forms/pax-size", [b'p'; 1000], |header| header.set_size(3))
        .pax(&[("comment", b"nothing"), ("atime", b"1.5"), ("VENDOR.unknown", b"\0\xff")])
        .file("forms/comment", "x")
        .directory_with("forms/sized", |header| header.set_size(4096))
        .file(format!("forms/{}", "block-512"), vec![b'b'; 512])
        .file("forms/empty", "")
        .directory("nodes")
        .entry_with(EntryType::Char, "nodes/null", "", b"", node(1, 3, 0o666))
        .entry_with(EntryType::Block, "nodes/disk", "", b"", node(259, 70_000, 0o660))
        .entry_with(EntryType::Char, "nodes/largest", "", b"", node(4095, 0o3_777_777, 0o600))
        .entry_with(EntryType::Fifo, "nodes/pipe", "", b"", |header| header.set_mode(0o622))
        .hard_link_with("nodes/null-again", "nodes/null", node(1, 3, 0o666))
        .directory("links")
        .directory("links/a")
        .directory("links/b")
        .file("links/a/file", "linked")
        .hard_link("links/b/file", "links/a/file")
        .hard_link("links/b/absolute", "/links/a/file")
        .hard_link("links/b/dotted", "./links/a/file")
        .symlink("links/symlink", "a/file")
        .hard_link("links/b/symlink", "links/symlink")
        .symlink("links/absolute", "/links/a")
        .symlink("links/outside", "../../../../etc")
        .file("links/absolute/through", "x")
        .file("./links/./b//dotted-path", "x")
        .file("/links/leading", "x")
        .bytes()
}

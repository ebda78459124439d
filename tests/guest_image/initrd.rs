//! The scripts that unpack and pack an initrd, without a boot.

use std::fs::{self, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use end_to_end::assert_tells;
use rustix::fs::{CWD, Mode, mkfifoat};
use vm_harness::{Scratch, is_root};

use crate::guest_image::stage::{add_to_initrd, deploy, run, succeed};

/// A `newc` archive of a directory.
pub fn archive(folder: &Path) -> Result<Vec<u8>> {
    let script = "find . | cpio --quiet -o -H newc";
    let output = Command::new("sh").args(["-c", script]).current_dir(folder).output()?;
    ensure!(output.status.success(), "cpio: {}", output.status);
    Ok(output.stdout)
}

/// `bytes`, through a program.
fn through(program: &[&str], bytes: &[u8]) -> Result<Vec<u8>> {
    let mut child = Command::new(program[0])
        .args(&program[1..])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .with_context(|| program[0].to_owned())?;
    let mut input = child.stdin.take().context("no standard input")?;
    let output = std::thread::scope(|scope| {
        scope.spawn(move || input.write_all(bytes));
        child.wait_with_output()
    })?;
    ensure!(output.status.success(), "{program:?}: {}", output.status);
    Ok(output.stdout)
}

/// What the kernel's early loaders look for.
fn early() -> Result<Vec<u8>> {
    let scratch = Scratch::new()?;
    let folder = scratch.path().join("kernel/x86/microcode");
    fs::create_dir_all(&folder)?;
    fs::write(folder.join("AuthenticAMD.bin"), [7; 3000])?;
    archive(scratch.path())
}

/// Microcode, `first` as it is, and the content of `folder` compressed, with zeros between them.
pub fn concatenated(first: &[u8], folder: &Path) -> Result<Vec<u8>> {
    let zeros = [0; 512];
    let mut all = early()?;
    for part in [first, &through(&["gzip"], &archive(folder)?)?] {
        all.extend_from_slice(&zeros);
        all.extend_from_slice(part);
        all.resize(all.len().next_multiple_of(512), 0);
    }
    Ok(all)
}

/// A tree with what is easily lost: a set-uid bit, a private file, a link, two names of one file.
fn tree(folder: &Path) -> Result<()> {
    fs::create_dir_all(folder.join("usr/bin"))?;
    for (name, mode) in [("usr/bin/su", 0o4755), ("private", 0o600)] {
        fs::write(folder.join(name), name)?;
        fs::set_permissions(folder.join(name), Permissions::from_mode(mode))?;
    }
    fs::hard_link(folder.join("private"), folder.join("usr/name"))?;
    symlink("usr/bin", folder.join("bin"))?;
    std::os::unix::fs::chown(folder.join("private"), Some(7), Some(8))?;
    Ok(mkfifoat(CWD, folder.join("fifo"), Mode::RUSR)?)
}

/// What an initrd is for the kernel: name, mode, owner and content of each file, in its order.
fn listing(folder: &Path) -> Result<Vec<String>> {
    let script = "cd \"$0\" && find . -printf '%p %M %U:%G %n %l\\n' | sort && \
        find . -type f | sort | xargs sha256sum";
    let text = succeed("sh", ["-c".as_ref(), script.as_ref(), folder.as_os_str()])?;
    Ok(text.lines().map(ToOwned::to_owned).collect())
}

#[test]
fn privileged_what_is_packed_is_what_was_unpacked_and_always_the_same() -> Result<()> {
    if !is_root("owners and device nodes of an initrd") {
        return Ok(());
    }
    let scratch = Scratch::new()?;
    let path = |name: &str| scratch.path().join(name);
    tree(&path("tree"))?;
    let plain = archive(&path("tree"))?;
    let xz = ["xz", "--check=crc32"];
    let microcode = early()?;
    for (name, bytes) in [
        ("none", plain.clone()),
        ("gzip", through(&["gzip"], &plain)?),
        ("xz", through(&xz, &plain)?),
        ("zstd", through(&["zstd", "-q"], &plain)?),
        ("gzip", [microcode.clone(), through(&["gzip"], &plain)?].concat()),
    ] {
        fs::write(path("initrd"), &bytes)?;
        let has_early = bytes.starts_with(&microcode);
        let mut packed = Vec::new();
        for round in ["1", "2"] {
            succeed(deploy("unpack-initrd"), [path("initrd"), path(round)])?;
            let word = fs::read_to_string(path(round).join("compression"))?;
            assert_eq!(word.trim(), name);
            let early = fs::read(path(round).join("early"))?;
            assert_eq!(early == microcode, has_early, "{name}");
            // Neither the files' times nor the order in which they were made matters.
            fs::write(path(round).join("root/late"), "x")?;
            fs::remove_file(path(round).join("root/late"))?;
            let output = path(&format!("packed{round}"));
            succeed(deploy("pack-initrd"), [path(round), output.clone()])?;
            packed.push(fs::read(output)?);
        }
        // Not by `assert_eq`, which would print both.
        assert!(packed[0] == packed[1], "{name}");
        assert!(!has_early || packed[0].starts_with(&microcode));
        fs::remove_dir_all(path("2"))?;
        succeed(deploy("unpack-initrd"), [path("packed1"), path("2")])?;
        let listed = listing(&path("2/root"))?;
        assert_eq!(listing(&path("1/root"))?, listed, "{name}");
        for line in [
            "./usr/bin/su -rwsr-xr-x 0:0 1 ",
            "./private -rw------- 7:8 2 ",
            "./fifo pr-------- 0:0 1 ",
        ] {
            assert!(listed.iter().any(|other| other == line), "{listed:?}");
        }
        for round in ["1", "2"] {
            fs::remove_dir_all(path(round))?;
        }
    }
    Ok(())
}

#[test]
fn privileged_what_is_no_initrd_is_refused() -> Result<()> {
    if !is_root("owners and device nodes of an initrd") {
        return Ok(());
    }
    let scratch = Scratch::new()?;
    let path = |name: &str| scratch.path().join(name);
    tree(&path("tree"))?;
    let plain = archive(&path("tree"))?;
    let gzip = through(&["gzip"], &plain)?;
    let zstd = through(&["zstd", "-q"], &plain)?;
    let cases: [(&str, Vec<u8>, &str); 6] = [
        ("nothing", Vec::new(), "there is no file in it"),
        ("zeros", vec![0; 4096], "there is no file in it"),
        ("text", b"#!/bin/sh\n".to_vec(), "neither a cpio archive nor"),
        ("cut", gzip[..gzip.len() / 2].to_vec(), "gzip from byte 0 on"),
        // What the kernel would unpack one after the other, and no program here does.
        ("two kinds", [gzip, zstd].concat(), "gzip from byte 0 on"),
        ("cut archive", plain[..600].to_vec(), "archive at byte 0"),
    ];
    for (name, bytes, words) in cases {
        fs::write(path("initrd"), bytes)?;
        let output = path(name);
        let (code, text) = run(deploy("unpack-initrd"), [path("initrd"), output])?;
        assert_eq!(code, Some(65), "{name}: {text}");
        assert_tells(&text, &[words]);
    }
    // A link of the image leads to files of the machine that builds.
    for (link, at) in [("/", "usr"), ("../../..", "lib")] {
        let root = path(&format!("root-{at}"));
        fs::create_dir(&root)?;
        symlink(link, root.join(at))?;
        let (code, text) = add_to_initrd(&["--units", "systemd"], &root, &path("output"))?;
        assert_eq!(code, Some(65), "{text}");
        assert_tells(&text, &["leads out of"]);
    }
    // What is missing is said, also where it is everything.
    let (code, text) = run(deploy("add-to-initrd"), [""; 0])?;
    assert_eq!(code, Some(64), "{text}");
    assert_tells(&text, &["INITRD OUTPUT"]);
    let nowhere = ["--programs", "/nowhere", "/"];
    let (code, text) = run(deploy("add-to-root"), nowhere)?;
    assert_eq!(code, Some(66), "{text}");
    assert_tells(&text, &["/nowhere has no initdata-processor"]);
    // An image with an error is not written.
    fs::create_dir(path("empty"))?;
    let (code, text) = add_to_initrd(&["--units", "systemd"], &path("empty"), &path("output"))?;
    assert_eq!(code, Some(7), "{text}");
    assert_tells(&text, &["there is no agent"]);
    assert!(!path("output").exists());
    Ok(())
}

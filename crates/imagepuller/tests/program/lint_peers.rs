//! What `lint` says that other programs do, held against other programs: umoci unpacks the image,
//! GNU tar and bsdtar read and extract the layer. containerd is not here: it needs a service of its
//! own.

use std::fs;
use std::path::Path;
use std::process::Command;

use tar::EntryType;
use vm_harness::archive::Tar;
use vm_harness::layout::{Compression, of_archives};
use vm_harness::walk::walk;

use crate::support::imagepuller;

/// A program that is held against what is said, and how it reads a layer.
#[derive(Clone, Copy, Debug)]
enum Peer {
    /// Unpacks an image.
    Umoci,
    /// Extracts the archive with these options.
    Extracts(&'static str, &'static str),
    /// Lists the archive, and fails where it does not understand it.
    Lists(&'static str),
}

/// What a peer makes of a layer: the names that it has then, with a word about each; and whether it
/// complains.
fn outcome(peer: Peer, folder: &Path, archive: &[u8]) -> (Vec<String>, bool) {
    let layer = folder.join("layer.tar");
    fs::write(&layer, archive).unwrap();
    let out = folder.join("out");
    let mut command = match peer {
        Peer::Umoci => {
            let layers = vec![(archive.to_vec(), Compression::Gzip)];
            let layout = of_archives(&folder.join("layout"), layers).unwrap();
            // It wants an image with a name.
            let named = format!("oci:{}:latest", folder.join("named").display());
            let from = format!("oci:{}", layout.path.display());
            let copy = ["copy", "--quiet", "--insecure-policy", &from, &named];
            let copied = Command::new("skopeo").args(copy).status();
            assert!(copied.unwrap().success());
            let image = named.strip_prefix("oci:").unwrap();
            let mut command = Command::new("umoci");
            command.args(["raw", "unpack", "--image", image]);
            command.arg(&out);
            command
        }
        Peer::Extracts(program, options) => {
            fs::create_dir(&out).unwrap();
            let mut command = Command::new(program);
            command.arg(options).arg(&layer).current_dir(&out);
            command
        }
        Peer::Lists(program) => {
            let mut command = Command::new(program);
            command.arg("-tf").arg(&layer);
            command
        }
    };
    let output = command.env("LC_ALL", "C").output().unwrap();
    let mut seen: Vec<_> = match peer {
        Peer::Lists(_) => {
            let text = String::from_utf8_lossy(&output.stdout);
            text.lines().map(str::to_owned).collect()
        }
        _ => {
            let tree = walk(&out).into_iter().filter(|(path, _)| !path.is_empty());
            tree.map(|(path, seen)| {
                let word = |property: &str| seen.get(property).map(String::as_str);
                let words = [Some(path.as_str()), word("kind"), word("size")];
                words.into_iter().flatten().collect::<Vec<_>>().join(" ")
            })
            .collect()
        }
    };
    seen.sort();
    (seen, !output.status.success())
}

/// The sum of a header as programs wrote it whose characters have a sign.
fn with_signed_sum(mut archive: Vec<u8>) -> Vec<u8> {
    archive[148..156].fill(b' ');
    let signed = archive[..512].iter().map(|byte| i32::from(byte.cast_signed()));
    let sum = format!("{:06o}\0 ", signed.sum::<i32>());
    archive[148..156].copy_from_slice(sum.as_bytes());
    archive
}

#[test]
fn privileged_what_is_said_of_other_programs_is_what_they_do() {
    vm_harness::needs_root!();
    let sized = |header: &mut tar::Header| header.set_size(9);
    let device = |header: &mut tar::Header| {
        header.set_device_major(0).unwrap();
        header.set_device_minor(0).unwrap();
    };
    let twice = Tar::default().file("a", "").file("a", "again");
    let hides = Tar::default().directory("d").file("d/a", "x").file("d/.wh.a", "");
    let late = Tar::default().directory("d").file("d/a", "x").file("d/.wh..wh..opq", "");
    let aufs = Tar::default().file(".wh..wh.plnk", "x");
    let below = Tar::default().symlink("lib", "usr/lib").file("lib/x", "");
    let whiteout = Tar::default().entry_with(EntryType::Char, "gone", "", b"", device);
    let size = Tar::default().entry_with(EntryType::Symlink, "l", "t", b"", sized).file("b", "x");
    let owner = |id: &[u8]| Tar::default().pax(&[("uid", id)]).file("a", "");
    let signed = with_signed_sum(Tar::default().file("caf\u{e9}", "x").bytes());
    let mut unpadded = Tar::default().file("first", "x").file("last", "the end").0;
    unpadded.truncate(unpadded.len() - 512 + 7);
    let (gnu, bsd) = (Peer::Extracts("tar", "-xf"), Peer::Extracts("bsdtar", "-xf"));
    // With this it removes a link that is in its way.
    let bsd_unlinks = Peer::Extracts("bsdtar", "-xUf");
    let umoci = Peer::Umoci;
    let (in_d, whole) = (["d directory", "d/a file 1"], ["a file 0"]);
    type Row<'r> = (Vec<u8>, &'r str, Vec<(Peer, &'r [&'r str], bool)>);
    let rows: [Row<'_>; 12] = [
        (
            twice.bytes(),
            "the last one counts",
            vec![(umoci, &["a file 5"], false), (gnu, &["a file 5"], false)],
        ),
        (hides.bytes(), "that stays here", vec![(umoci, &in_d, false)]),
        (late.bytes(), "they stay here", vec![(umoci, &in_d, false)]),
        (
            aufs.bytes(),
            "left out; some programs make a file of it",
            vec![(umoci, &[], false), (gnu, &[".wh..wh.plnk file 1"], false)],
        ),
        (
            below.bytes(),
            "programs that follow no link make a directory of it",
            vec![
                (bsd_unlinks, &["lib directory", "lib/x file 0"], false),
                (
                    umoci,
                    &["lib symlink", "usr directory", "usr/lib directory", "usr/lib/x file 0"],
                    false,
                ),
            ],
        ),
        (
            whiteout.bytes(),
            "other programs for a device",
            vec![(umoci, &["gone character device"], false)],
        ),
        (
            size.bytes(),
            "claims 9 bytes and can have none; some programs skip what follows",
            vec![(Peer::Lists("tar"), &["l"], true), (umoci, &["b file 1", "l symlink"], false)],
        ),
        (
            owner(b"-1").bytes(),
            "has the owner or group -1, which no file can have; programs make different",
            vec![(umoci, &whole, false), (gnu, &whole, true)],
        ),
        (
            owner(b"4294967295").bytes(),
            "has the owner or group 4294967295, which no file can have",
            vec![(umoci, &whole, false)],
        ),
        (
            signed.clone(),
            "has a sum of signed bytes, as old programs wrote it; strict programs refuse it",
            vec![(umoci, &["caf\\xc3\\xa9 file 1"], false)],
        ),
        (
            unpadded,
            "programs that read whole blocks refuse the layer",
            vec![
                (gnu, &["first file 1", "last file 0"], true),
                (bsd, &["first file 1", "last file 7"], true),
                (umoci, &["first file 1", "last file 7"], false),
            ],
        ),
        (
            Tar::default().file("/a", "").bytes(),
            "has an absolute name; it is taken below the root, as most do",
            vec![(umoci, &whole, false), (gnu, &whole, false), (bsd, &whole, false)],
        ),
    ];
    for (archive, remark, peers) in rows {
        let folder = tempfile::tempdir().unwrap();
        let layer = folder.path().join("layer.tar");
        fs::write(&layer, &archive).unwrap();
        let output = imagepuller(["lint"]).arg(&layer).output().unwrap();
        let text = String::from_utf8_lossy(&output.stdout);
        assert_eq!((text.lines().count(), text.contains(remark)), (1, true), "{text}");
        for (peer, expected, complains) in peers {
            let folder = tempfile::tempdir().unwrap();
            let found = outcome(peer, folder.path(), &archive);
            let expected = expected.iter().map(|line| (*line).to_owned()).collect();
            assert_eq!(found, (expected, complains), "{peer:?}: {remark}");
        }
    }
    // The reader of Rust's programs is a strict one.
    let mut strict = tar::Archive::new(&signed[..]);
    let first = strict.entries().unwrap().next().unwrap();
    assert!(first.err().unwrap().to_string().contains("cksum"));
}

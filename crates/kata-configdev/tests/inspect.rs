//! `kata-configdev inspect`: what it shows of an image. `guest` asks both sides about initdata.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use crate::command;
mod guest;
#[path = "../../initdata-processor/tests/machine/mod.rs"]
mod machine;

use std::process::Command;

use command::{Folder, Run, run};
use config_image::{Magic, encode};
use puller_config::MAX_DOCUMENT_BYTES;
use rustix::fs::{CWD, FileType, Mode, mknodat};
use serde_json::Value;

const VALID: &str = "[registries.\"basic.corp.\"]\nauth = \"cHVsbGVyOmh1bnRlcjItYXV0aA==\"\n";

/// What the command says of a file with this content, for people and as JSON; both end alike.
fn inspect(content: &[u8]) -> (Run, Run) {
    let folder = Folder::new();
    let path = folder.file("image", content);
    let (text, json) = (run(&["inspect", &path]), run(&["inspect", "--json", &path]));
    assert_eq!((text.code, text.stderr.as_str()), (json.code, json.stderr.as_str()));
    (text, json)
}

fn puller_image(document: impl AsRef<[u8]>) -> Vec<u8> {
    encode(Magic::IMAGEPULLER, document.as_ref()).unwrap().to_vec()
}

#[test]
fn the_header_of_an_image_with_a_bad_document_is_shown() {
    let invalid =
        "[registries.\"basic.corp.\"]\nusrname = \"hunter2-password\"\nauth = \"hunter2-auth\"\n";
    let (shown, report) = inspect(&puller_image(invalid));
    assert_eq!(shown.code, 65);
    for part in ["magic     imgpullr\n", ":2: registries."] {
        assert!(shown.stdout.contains(part), "{part} in {}", shown.stdout);
    }
    let document = &report.json()["document"];
    assert_eq!((&document["valid"], &document["content"]), (&false.into(), &Value::Null));
    assert_eq!(document["problems"].as_array().unwrap().len(), 2);

    // A problem of the whole document has no line.
    let (shown, _) = inspect(&puller_image(vec![b'#'; MAX_DOCUMENT_BYTES + 1]));
    let problem = "/image: a document has at most 1048576 bytes\n";
    assert!(shown.stdout.contains(problem), "{}", shown.stdout);
}

#[test]
fn initdata_is_shown_in_short() {
    let document =
        "version = \"0.1.0\"\nalgorithm = \"sha384\"\n[data]\n\"policy.rego\" = \"package x\"\n";
    let (shown, report) = inspect(&machine::initdata(document));
    assert_eq!((shown.code, shown.stderr.as_str()), (0, ""));
    let policy = "data      policy.rego (9 bytes)\n";
    assert!(shown.stdout.contains(policy), "{}", shown.stdout);
    assert!(!shown.stdout.contains("package x"));
    let report = report.json();
    assert_eq!(report["magic"], "initdata");
    assert_eq!(report["document"]["data"]["policy.rego"], 9);
    assert_eq!(report["document"]["algorithm"], "sha384");

    // What the guest will refuse is shown all the same, with every reason.
    let document =
        "version = \"9.9\"\nalgorithm = \"md5\"\n[data]\n\"../../etc/x\" = \"package x\"\n";
    let (shown, report) = inspect(&machine::initdata(document));
    assert_eq!((shown.code, shown.stderr.as_str()), (65, ""));
    for part in [
        "magic     initdata\n",
        "version   9.9\n",
        "data      ../../etc/x (9 bytes)\n",
        "/image:1: version: expected \"0.1.0\", found \"9.9\"\n",
        "/image:2: algorithm: expected sha256, sha384 or sha512, found \"md5\"\n",
        "/image:4: data.\"../../etc/x\": not a plain file name: it has a slash\n",
        "the document is not valid, the guest will refuse it\n",
    ] {
        assert!(shown.stdout.contains(part), "{part} in {}", shown.stdout);
    }
    let document = &report.json()["document"];
    assert_eq!(document["valid"], false);
    assert_eq!(document["version"], "9.9");
    let problems = document["problems"].as_array().unwrap();
    let keys: Vec<_> = problems.iter().map(|problem| &problem["key"]).collect();
    assert_eq!(keys, ["version", "algorithm", "data.\"../../etc/x\""]);

    // Kata's own sample holds text that is not TOML; it stays inspectable.
    let (shown, _) = inspect(&machine::initdata("some content"));
    assert_eq!(shown.code, 65);
    assert!(shown.stdout.contains("document  12 bytes"), "{}", shown.stdout);
}

#[test]
fn a_malformed_image_is_told_with_the_place() {
    let image = puller_image(VALID);
    let with = |offset: usize, bytes: &[u8]| {
        let mut changed = image.clone();
        changed[offset..offset + bytes.len()].copy_from_slice(bytes);
        changed
    };
    for (bytes, rule) in [
        (Vec::new(), "at offset 0"),
        (vec![0; 4096], "at offset 0, found neither"),
        (with(8, &u64::MAX.to_le_bytes()), "at most 1048576 bytes"),
        (with(8, &2048_u64.to_le_bytes()), "the disk ends after"),
        (with(8, &0_u64.to_le_bytes()), "the length at offset 8 is 0"),
        (with(16, b"\0\0"), "the gzip stream at offset 16"),
        (image[..100].to_vec(), "the disk ends after 100 bytes"),
    ] {
        let (run, _) = inspect(&bytes);
        assert_eq!((run.code, run.stdout.as_str()), (65, ""));
        assert!(run.stderr.contains(rule), "{rule} in {}", run.stderr);
        assert_eq!(run.stderr.lines().count(), 1);
    }
}

/// Opening a FIFO for reading once waited for a writer that never came.
#[test]
fn what_cannot_be_a_disk_is_refused() {
    let folder = Folder::new();
    let fifo = folder.path("fifo");
    mknodat(CWD, &fifo, FileType::Fifo, Mode::RUSR, 0).unwrap();
    for path in [&folder.text("fifo"), "/", "/dev/zero", "/dev/stdin"] {
        let refused = run(&["inspect", path]);
        assert_eq!((refused.code, refused.stdout.as_str()), (65, ""));
        let rule = format!("read {path}: it is neither a regular file nor a block device: ");
        assert!(refused.stderr.contains(&rule), "{}", refused.stderr);
    }
}

#[test]
fn privileged_a_block_device_is_read() {
    let folder = Folder::new();
    let image = puller_image(VALID);
    let path = folder.file("image", &image);
    let losetup = |arguments: &[&str]| Command::new("losetup").args(arguments).output();
    let attached = losetup(&["--find", "--show", "--read-only", &path])
        .ok()
        .filter(|output| output.status.success());
    let Some(attached) = attached else {
        test_command::skip(
            "losetup cannot attach a loop device (needs root and /dev/loop-control)",
        );
        return;
    };
    let device = String::from_utf8(attached.stdout).unwrap();
    let shown = run(&["inspect", "--json", device.trim()]);
    let _ = losetup(&["--detach", device.trim()]);
    assert_eq!(shown.code, 0, "{}", shown.stderr);
    assert_eq!(shown.json()["sha256"], run(&["inspect", "--json", &path]).json()["sha256"]);
    assert_eq!(shown.json()["source_bytes"], image.len());
}

#[test]
fn a_longer_and_an_unpadded_source_are_tolerated() {
    let image = puller_image(VALID);
    let (_, longer) = inspect(&[image.as_slice(), &[0xff; 4096]].concat());
    let (_, exact) = inspect(&image);
    assert_eq!((longer.code, exact.code), (0, 0));
    assert_eq!(longer.json()["sha256"], exact.json()["sha256"]);
    let gzip_len = usize::try_from(exact.json()["gzip_bytes"].as_u64().unwrap()).unwrap();
    let (unpadded, _) = inspect(&image[..16 + gzip_len]);
    assert_eq!(unpadded.code, 0);
    let words = "padding is missing";
    assert!(unpadded.stdout.contains(words), "{}", unpadded.stdout);
}

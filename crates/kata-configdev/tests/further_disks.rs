//! `[disks]` of the settings and `--magic`: files of the node on disks of their own.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use crate::command;

use std::path::Path;

use command::{Folder, run};
use config_image::Magic;
use kata_configdev::further_disk::{FurtherDisk, FurtherMagic};

const NTP: &str = "server 192.0.2.1\n";

fn node() -> Folder {
    let folder = Folder::new();
    for name in ["bundle", "run"] {
        std::fs::create_dir(folder.path(name)).unwrap();
    }
    folder.file("bundle/config.json", "{}");
    folder.file("ntp.conf", NTP);
    folder.file(
        "settings.toml",
        format!(
            "transport = \"file\"\nrun-root = {:?}\n\
             [disks.timesync]\nsource = {:?}\nserial = \"ntp\"\nmax-bytes = 20\n",
            folder.path("run"),
            folder.path("ntp.conf")
        ),
    );
    folder
}

/// Runs `line` with `FOLDER/` in the place of each `@`.
fn at(folder: &Folder, line: &str) -> command::Run {
    let line = line.replace('@', &folder.text(""));
    run(&line.split(' ').collect::<Vec<_>>())
}

fn content(path: &Path) -> String {
    let image = std::fs::read(path).unwrap();
    let image = config_image::decode(image.as_slice(), Magic::new(*b"timesync").unwrap()).unwrap();
    String::from_utf8(image.document.to_vec()).unwrap()
}

#[test]
fn any_file_is_packed_with_a_magic_that_is_not_taken() {
    let folder = node();
    at(&folder, "pack --magic timesync @ntp.conf --output @ntp.img").succeeds();
    assert_eq!(content(&folder.path("ntp.img")), NTP);
    for (line, words) in [
        ("--magic initdata @ntp.conf", "fixed meaning"),
        ("--magic imgpullr @ntp.conf", "fixed meaning"),
        ("--magic short @ntp.conf", "eight visible ASCII"),
        ("--magic timesync", "<FILE>"),
        ("--config @ntp.conf --magic timesync", "cannot be used with"),
        ("@ntp.conf", "--magic"),
    ] {
        let refused = at(&folder, &format!("pack --output @no.img {line}"));
        refused.fails(64, &[words]);
        assert!(!folder.path("no.img").exists());
    }
}

/// An image of a magic that is not ours once was "no image".
#[test]
fn a_further_image_is_inspected_without_being_shown() {
    let folder = node();
    at(&folder, "pack --magic timesync @ntp.conf --output @ntp.img").succeeds();
    let shown = at(&folder, "inspect @ntp.img");
    shown.succeeds();
    shown.prints(&["magic     timesync\n", "document  17 bytes\n"]);
    assert!(!shown.stdout.contains("192.0.2.1"), "{}", shown.stdout);
    let json = at(&folder, "inspect --json @ntp.img").json();
    assert_eq!(json["document"]["document_bytes"], 17);
    // Letters alone are no image, and a spoilt one is.
    folder.file("letters", "timesync and more text than a header has");
    at(&folder, "inspect @letters").fails(65, &["timesync"]);
    let mut spoilt = std::fs::read(folder.path("ntp.img")).unwrap();
    spoilt[40] ^= 1;
    folder.file("spoilt.img", spoilt);
    at(&folder, "inspect @spoilt.img").fails(65, &["inflate the gzip stream"]);
}

/// One of those would be taken for another disk, in the guest or by QEMU.
#[test]
fn serials_of_our_own_disks_are_taken() {
    let magic: FurtherMagic = "timesync".parse().unwrap();
    let disk = |serial: &str| FurtherDisk::new(magic, "/x".into(), Some(serial.into()), None);
    for own in ["imagepuller", "initdata"] {
        let error = disk(own).unwrap_err();
        assert!(error.contains("and not initdata or imagepuller"), "{error}");
    }
    disk("imagepulle").unwrap();
}

#[test]
fn a_further_disk_is_served_by_no_device_of_this_process() {
    let folder = node();
    let attach = "attach --bundle @bundle --sandbox-id box-1 --settings @settings.toml";
    let line = format!("{attach} --magic timesync --transport vhost-user --socket @disk.sock");
    at(&folder, &line).fails(64, &["vhost-user", "give another --transport"]);
    assert!(!folder.path("disk.sock").exists());
}

/// A disk whose report could not be printed once took all others of its sandbox with it.
#[test]
fn a_disk_that_cannot_be_told_of_goes_alone() {
    let folder = node();
    let attach = "attach --bundle @bundle --sandbox-id box-1 --settings @settings.toml";
    let document = folder.file("imagepuller.toml", "");
    let config = format!("{attach} --config {document}");
    at(&folder, &config).succeeds();
    let sandbox = folder.path("run/kata-containers/shared/initdata/box-1");
    let names = || -> Vec<_> {
        let entries = std::fs::read_dir(&sandbox).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
        names.sort();
        names
    };
    let line = format!("{attach} --magic timesync").replace('@', &folder.text(""));
    let output = std::process::Command::new(env!("CARGO_BIN_EXE_kata-configdev"))
        .args(line.split(' '))
        .stdout(std::fs::File::options().write(true).open("/dev/full").unwrap())
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(69), "{output:?}");
    assert_eq!(names(), ["imagepuller.img", "imagepuller.json"]);
}

#[test]
fn a_disk_of_the_settings_is_attached_updated_and_detached() {
    let folder = node();
    let attach = "attach --bundle @bundle --sandbox-id box-1 --settings @settings.toml --magic";
    let attached = at(&folder, &format!("{attach} timesync"));
    attached.succeeds();
    let report = attached.json();
    assert_eq!((&report["serial"], &report["size"]), (&"ntp".into(), &65536.into()));
    assert_eq!(report["document"], folder.text("ntp.conf").as_str());
    let path = report["path"].as_str().unwrap().to_owned();
    assert!(path.ends_with("/box-1/disk-74696d6573796e63.img"), "{path}");
    assert_eq!(content(path.as_ref()), NTP);
    at(&folder, &format!("{attach} othersss")).fails(64, &["has none with this magic"]);
    at(&folder, &format!("{attach} timesync --transport vhost-user --socket @s"))
        .fails(64, &["serves documents only"]);

    folder.file("ntp.conf", "server 192.0.2.2\n");
    let update = "update --sandbox-id box-1 --run-root @run";
    at(&folder, &format!("{update} --magic timesync --config @ntp.conf")).succeeds();
    assert_eq!(content(path.as_ref()), "server 192.0.2.2\n");
    // The document's disk is another one, which this sandbox does not have.
    at(&folder, &format!("{update} --empty")).fails(69, &["there is no image at"]);
    at(&folder, &format!("{update} --magic timesync --empty")).succeeds();
    assert_eq!(content(path.as_ref()), "");
    at(&folder, "detach --sandbox-id box-1 --run-root @run").succeeds();
    assert!(!Path::new(&path).exists());
}

#[test]
fn what_cannot_be_used_is_explained_and_refused() {
    let folder = node();
    let explain = "explain --sandbox @bundle --settings @settings.toml";
    let explained = at(&folder, explain);
    explained.succeeds();
    let row = format!("timesync: {}, 17 bytes", folder.text("ntp.conf"));
    assert!(explained.stdout.contains(&row), "{}", explained.stdout);
    let attach =
        "attach --bundle @bundle --sandbox-id b --settings @settings.toml --magic timesync";
    for (text, words) in
        [(Some("server 192.0.2.1 # too long"), "more than 20 bytes"), (None, "No such file")]
    {
        match text {
            Some(text) => drop(folder.file("ntp.conf", text)),
            None => std::fs::remove_file(folder.path("ntp.conf")).unwrap(),
        }
        let explained = at(&folder, explain);
        assert_eq!(explained.code, 65);
        assert!(explained.stdout.contains(words), "{}", explained.stdout);
        at(&folder, attach).fails(65, &["fill the disk \"timesync\"", words]);
    }
}

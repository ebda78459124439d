//! `kata-configdev update`: new content for the disk of a running sandbox.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use crate::command;
mod running;

use std::fmt::Write as _;
use std::fs::File;
use std::os::unix::fs::{FileExt, MetadataExt, symlink};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use command::{Folder, Run, run, run_line, sha256sum};
use config_image::{Magic, ReadAt, decode};
use serde_json::json;

/// Only a machine that is very busy, or a fault, takes so long.
const LIMIT: Duration = Duration::from_secs(60);

const OLD: &str =
    "[registries.\"a.corp\"]\nusername = \"robot\"\npassword = \"hunter2-password\"\n";
const NEW: &str = "[registries.\"a.corp\"]\nusername = \"robot\"\npassword = \"hunter2-token\"\n";

/// A node with settings, the document `old.toml`, another one, a bundle, and an empty `run`.
fn node(settings: &str) -> Folder {
    let folder = Folder::new();
    for name in ["bundle", "run"] {
        std::fs::create_dir(folder.path(name)).unwrap();
    }
    folder.file("bundle/config.json", "{}");
    folder.file("old.toml", OLD);
    folder.file("new.toml", NEW);
    folder.file(
        "settings.toml",
        format!(
            "document = {:?}\nrun-root = {:?}\n{settings}",
            folder.path("old.toml"),
            folder.path("run"),
        ),
    );
    folder
}

fn image_path(folder: &Folder) -> PathBuf {
    folder.path("run/kata-containers/shared/initdata/box-1/imagepuller.img")
}

/// `attach --transport file`, and `more`, for the sandbox `box-1`; gives the image's path.
fn attach(folder: &Folder, more: &[&str]) -> PathBuf {
    let (bundle, settings) = (folder.text("bundle"), folder.text("settings.toml"));
    let arguments = ["attach", "--bundle", &bundle, "--settings", &settings];
    let sandbox = ["--sandbox-id", "box-1", "--transport", "file"];
    let attached = run(&[&arguments[..], &sandbox, more].concat());
    attached.ends(0);
    image_path(folder)
}

fn update(folder: &Folder, more: &[&str]) -> Run {
    let settings = folder.text("settings.toml");
    let arguments = ["update", "--sandbox-id", "box-1", "--settings", &settings];
    run(&[&arguments[..], more].concat())
}

fn document_in(image: &[u8]) -> String {
    let image = decode(image, Magic::IMAGEPULLER).unwrap();
    String::from_utf8(image.document.to_vec()).unwrap()
}

/// A document of about `bytes` bytes, in which `password` stands many times.
fn long_document(bytes: usize, password: &str) -> String {
    let mut text = String::new();
    for number in 0.. {
        if text.len() >= bytes {
            break;
        }
        let _ = write!(
            text,
            "[registries.\"r{number}.corp\"]\nusername = \"robot\"\npassword = \"{password}\"\n"
        );
    }
    text
}

#[test]
fn a_file_is_rewritten_in_place() {
    let folder = node("transport = \"file\"\n");
    let path = attach(&folder, &[]);
    assert_eq!(path.metadata().unwrap().len(), 64 << 10);
    // Who has it open, as a hypervisor does, sees the new content.
    let open = File::open(&path).unwrap();
    let inode = open.metadata().unwrap().ino();

    let updated = update(&folder, &["--config", &folder.text("new.toml"), "--json"]);
    updated.succeeds();
    assert_eq!(
        updated.json(),
        json!({
            "sandbox_id": "box-1",
            "path": path,
            "size": 64 << 10,
            "used": 512,
            "sha256": sha256sum(&path),
            "changed": true,
        })
    );
    let mut seen = vec![0; 64 << 10];
    FileExt::read_exact_at(&open, &mut seen, 0).unwrap();
    assert_eq!(document_in(&seen), NEW);
    let metadata = path.metadata().unwrap();
    assert_eq!(
        (metadata.ino(), metadata.len(), metadata.mode() & 0o7777),
        (inode, 64 << 10, 0o600)
    );

    let again = update(&folder, &["--config", &folder.text("new.toml")]);
    assert_eq!(
        again.stdout,
        format!(
            "{}: unchanged, 512 of 65536 bytes used, sha256 {}\n",
            path.display(),
            sha256sum(&path)
        )
    );
    // What attach would have written.
    let rewritten = std::fs::read(&path).unwrap();
    attach(&folder, &["--config", &folder.text("new.toml")]);
    assert_eq!(std::fs::read(&path).unwrap(), rewritten);
}

#[test]
fn nothing_of_a_longer_document_is_left() {
    let folder = node("transport = \"file\"\n");
    folder.file("long.toml", long_document(40_000, "hunter2-password"));
    let path = attach(&folder, &["--config", &folder.text("long.toml")]);
    let holds = |secret: &str| {
        let image = std::fs::read(&path).unwrap();
        image.windows(secret.len()).any(|part| part == secret.as_bytes())
    };
    assert!(holds("hunter2-password"), "documents are stored as they are");
    assert_eq!(update(&folder, &["--config", &folder.text("new.toml")]).code, 0);
    assert!(!holds("hunter2-password") && holds("hunter2-token"));

    let emptied = update(&folder, &["--empty"]);
    emptied.ends(0);
    emptied.prints(&[": updated, 512 of 65536 bytes used"]);
    assert!(!holds("hunter2-token"));
    assert_eq!(document_in(&std::fs::read(&path).unwrap()), "");
}

#[test]
fn the_capacity_bounds_the_document() {
    let folder = node("transport = \"file\"\ncapacity = \"4K\"\n");
    let (small, large) = (folder.text("new.toml"), folder.text("large.toml"));
    folder.file("large.toml", long_document(6000, "hunter2-token"));
    let path = attach(&folder, &[]);
    assert_eq!(path.metadata().unwrap().len(), 4096);
    let before = std::fs::read(&path).unwrap();
    let refused = update(&folder, &["--config", &large]);
    refused.fails(65, &[]);
    for part in ["has 6144 bytes", "the disk 4096", "larger capacity"] {
        refused.says(&[part]);
    }
    assert_eq!(std::fs::read(&path).unwrap(), before);

    // The argument wins over the settings, and a document that is longer gets what it needs.
    attach(&folder, &["--capacity", "8K"]);
    assert_eq!(update(&folder, &["--config", &large]).code, 0);
    assert_eq!(
        document_in(&std::fs::read(&path).unwrap()).len(),
        std::fs::read(&large).unwrap().len()
    );
    assert_eq!(update(&folder, &["--config", &small]).code, 0);
    attach(&folder, &["--capacity", "512", "--config", &large]);
    assert_eq!(path.metadata().unwrap().len(), 6144);
}

#[test]
fn what_is_no_document_changes_nothing() {
    let folder = node("transport = \"file\"\n");
    let path = attach(&folder, &[]);
    let before = std::fs::read(&path).unwrap();
    folder.file("empty.toml", "");
    folder.file("unknown.toml", "[registries.\"a.corp\"]\npasword = \"hunter2-password\"\n");
    folder.file("none.toml", [0xff, 0xfe]);
    let absent = folder.text("absent.toml");
    for (file, part) in [
        ("empty.toml", "give --empty"),
        ("unknown.toml", "unknown.toml:2: "),
        ("none.toml", "not valid, nothing was changed"),
        ("absent.toml", absent.as_str()),
    ] {
        let refused = update(&folder, &["--config", &folder.text(file)]);
        refused.fails(65, &[part]);
        assert_eq!(std::fs::read(&path).unwrap(), before);
    }
    let new = folder.text("new.toml");
    for arguments in
        [&[][..], &["--empty", "--config", &new], &["--sandbox-id", "box-2", "--empty"]]
    {
        assert_eq!(update(&folder, arguments).code, 64, "{arguments:?}");
    }
    for id in ["", "../box-1", "a/b", ".", "-x"] {
        let id = format!("--sandbox-id={id}");
        run(&["update", &id, "--empty"]).ends(64);
    }
}

#[test]
fn a_sandbox_without_an_image_is_told_why() {
    for (settings, part) in [
        ("", "\"memory\", seals images: choose \"file\""),
        ("transport = \"loop\"\n", "\"loop\", seals images"),
        ("transport = \"file\"\n", "look at the id"),
        ("transport = \"vhost-user\"\n", "\"vhost-user\", seals images"),
    ] {
        let folder = node(settings);
        let refused = update(&folder, &["--empty"]);
        refused.fails(69, &[]);
        for part in [part, image_path(&folder).to_str().unwrap()] {
            refused.says(&[part]);
        }
        assert_eq!(folder.count("run"), 0);
        // Without the settings all that is known is what it can be.
        let root = folder.text("run");
        let refused = run_line(&format!("update --sandbox-id box-1 --run-root {root} --empty"));
        refused.ends(69);
        refused.says(&["only \"file\" does not seal images"]);
    }
}

#[test]
fn no_link_is_followed() {
    let folder = node("transport = \"file\"\n");
    let path = attach(&folder, &[]);
    let victim = folder.path("victim.img");
    std::fs::rename(&path, &victim).unwrap();
    symlink(&victim, &path).unwrap();
    let before = std::fs::read(&victim).unwrap();
    let refused = update(&folder, &["--empty"]);
    refused.fails(69, &["symbolic link"]);
    assert_eq!(std::fs::read(&victim).unwrap(), before);
}

/// A disk that is read as a guest does it: sector by sector, with time between.
struct Sectors(File);

impl ReadAt for Sectors {
    fn size(&self) -> std::io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read_exact_at(&self, buffer: &mut [u8], offset: u64) -> std::io::Result<()> {
        let mut at = offset;
        for part in buffer.chunks_mut(512) {
            FileExt::read_exact_at(&self.0, part, at)?;
            at += part.len() as u64;
        }
        Ok(())
    }
}

#[test]
fn a_reader_during_two_hundred_updates_sees_whole_documents_only() {
    let folder = node("transport = \"file\"\n");
    let documents = [
        long_document(30_000, "hunter2-password"),
        long_document(30_000, "hunter2-identity"),
        long_document(12_000, "hunter2-token"),
    ];
    let names: Vec<String> = documents
        .iter()
        .enumerate()
        .map(|(number, text)| folder.file(&format!("{number}.toml"), text))
        .collect();
    let path = attach(&folder, &["--config", &names[0]]);
    let disk = Sectors(File::open(path).unwrap());
    let stop = AtomicBool::new(false);
    let (decoded, refused) = std::thread::scope(|scope| {
        let reader = scope.spawn(|| {
            let (mut decoded, mut refused) = (0, 0);
            while !stop.load(Ordering::Relaxed) {
                match decode(&disk, Magic::IMAGEPULLER) {
                    Ok(image) => {
                        let text = String::from_utf8(image.document.to_vec()).unwrap();
                        assert!(documents.contains(&text), "a mixture");
                        decoded += 1;
                    }
                    Err(_) => refused += 1,
                }
            }
            (decoded, refused)
        });
        for number in 1..=200 {
            let updated = update(&folder, &["--config", &names[number % names.len()]]);
            updated.prints(&[": updated, "]);
        }
        stop.store(true, Ordering::Relaxed);
        reader.join().unwrap()
    });
    println!("{decoded} documents, {refused} times none");
    assert!(decoded > 100, "{decoded}");
}

#[test]
fn a_killed_update_leaves_no_mixture_and_the_next_one_repairs_it() {
    let folder = node("transport = \"file\"\ncapacity = \"2M\"\n");
    let documents =
        ["hunter2-password", "hunter2-token"].map(|word| format!("# {word}\n").repeat(50_000));
    let names = [0, 1].map(|number| folder.file(&format!("{number}.toml"), &documents[number]));
    let path = attach(&folder, &["--config", &names[0]]);
    let settings = folder.text("settings.toml");
    let mut refused = 0;
    for round in 0..60_u64 {
        let repaired = update(&folder, &["--config", &names[0]]);
        repaired.ends(0);
        assert_eq!(document_in(&std::fs::read(&path).unwrap()), documents[0]);
        let mut child = Command::new(env!("CARGO_BIN_EXE_kata-configdev"))
            .args(["update", "--sandbox-id", "box-1", "--settings", &settings])
            .args(["--config", &names[1]])
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        // The length is 0 while the rest is written, for some hundred microseconds.
        let disk = File::open(&path).unwrap();
        let start = Instant::now();
        let mut length = [0xff; 8];
        while length != [0; 8] && start.elapsed() < LIMIT && child.try_wait().unwrap().is_none() {
            FileExt::read_exact_at(&disk, &mut length, 8).unwrap();
        }
        let start = Instant::now();
        while start.elapsed() < Duration::from_micros(round * 5) {
            std::hint::spin_loop();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        match decode(&disk, Magic::IMAGEPULLER) {
            Ok(image) => {
                let text = String::from_utf8(image.document.to_vec()).unwrap();
                assert!(documents.contains(&text), "a mixture");
            }
            Err(error) if error.to_string().contains("at offset 8 is 0,") => refused += 1,
            Err(error) => panic!("not refused by its length alone: {error}"),
        }
    }
    println!("{refused} of 60 were killed in the middle");

    // What the worst of them leaves, in case none was.
    let disk = File::options().write(true).open(&path).unwrap();
    disk.write_all_at(&[0; 8], 8).unwrap();
    disk.write_all_at(&[0xff; 100_000], 16).unwrap();
    let repaired = update(&folder, &["--config", &folder.text("new.toml")]);
    repaired.ends(0);
    let image = std::fs::read(&path).unwrap();
    assert_eq!(document_in(&image), NEW);
    assert!(image[512..].iter().all(|byte| *byte == 0));
}

#[test]
fn many_updates_at_once_leave_one_of_them() {
    let folder = node("transport = \"file\"\n");
    let names: Vec<String> = (0..8)
        .map(|number| {
            let text =
                format!("# {number}\n{}", long_document(20_000 + number * 100, "hunter2-token"));
            folder.file(&format!("{number}.toml"), text)
        })
        .collect();
    let path = attach(&folder, &[]);
    std::thread::scope(|scope| {
        for name in &names {
            scope.spawn(|| assert_eq!(update(&folder, &["--config", name]).code, 0));
        }
    });
    let found = document_in(&std::fs::read(&path).unwrap());
    let written = names.iter().map(|name| std::fs::read_to_string(name).unwrap());
    assert!(written.into_iter().any(|text| text == found));
}

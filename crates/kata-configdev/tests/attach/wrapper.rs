//! The wrapper attaches by the same settings, where its transport is a file.

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::{Value, json};

use crate::attach::{DOCUMENT, annotate, document_in, node};
use crate::command::{Folder, SECRETS, run};

/// The wrapper with a QEMU that prints its arguments.
fn wrapper(folder: &Folder, arguments: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_kata-configdev-qemu"))
        .args(arguments)
        .current_dir(folder.path("bundle"))
        .env("KATA_CONFIGDEV_CONFIG", folder.path("settings.toml"))
        .output()
        .unwrap();
    let [stdout, stderr] =
        [output.stdout, output.stderr].map(|text| String::from_utf8(text).unwrap());
    assert!(SECRETS.iter().all(|secret| !stderr.contains(secret)));
    (output.status.code(), stdout, stderr)
}

const SANDBOX: [&str; 4] = ["-name", "sandbox-box-1,debug-threads=on", "-machine", "q35,accel=kvm"];

#[test]
fn the_wrapper_attaches_a_file() {
    let folder = node("transport = \"file\"\nqemu = \"/bin/echo\"\n");
    let (code, stdout, stderr) = wrapper(&folder, &SANDBOX);
    assert_eq!((code, stderr.as_str()), (Some(0), ""));
    let path = folder.path("run/kata-containers/shared/initdata/box-1/imagepuller.img");
    assert!(
        stdout.contains(&format!(
            "read-only=on,file.driver=file,file.filename={},file.read-only=on -device \
            virtio-blk-pci,",
            path.display()
        )),
        "{stdout}"
    );
    assert!(!stdout.contains("-add-fd"), "{stdout}");
    assert_eq!(document_in(&path), DOCUMENT);
    let (code, _, stderr) = wrapper(&folder, &["-name", "sandbox-../x", "-machine", "q35"]);
    assert_eq!(code, Some(64));
    assert!(stderr.contains("sandbox's id"), "{stderr}");
}

/// A pod that lived shorter than the minimum age once left its password until the sweep after next.
#[test]
fn sweep_takes_the_file_of_the_wrapper_at_once() {
    let folder = node("transport = \"file\"\nqemu = \"/bin/echo\"\n");
    let sandbox = format!("test-ended-{}", std::process::id());
    let (code, ..) = wrapper(&folder, &["-name", &format!("sandbox-{sandbox}"), "-machine", "q35"]);
    assert_eq!(code, Some(0));
    let swept = run(&["sweep", "--run-root", &folder.text("run"), "--json"]);
    assert_eq!(swept.json()["removed"], json!([sandbox]));
}

#[test]
fn the_wrapper_leaves_no_file_without_a_qemu() {
    let folder = node("transport = \"file\"\nqemu = \"/nonexistent/qemu\"\n");
    let (code, _, stderr) = wrapper(&folder, &SANDBOX);
    assert_eq!(code, Some(69));
    assert!(stderr.contains("/nonexistent/qemu"), "{stderr}");
    let images = folder.path("run/kata-containers/shared/initdata");
    assert_eq!(std::fs::read_dir(images).unwrap().count(), 0);
}

/// The real QEMU opens the file, read-only, and has the disk.
#[test]
fn qemu_takes_the_file() {
    let qemu = Path::new("/usr/bin/qemu-system-x86_64");
    if !qemu.exists() {
        return test_command::skip("no QEMU");
    }
    let folder = node(&format!("transport = \"file\"\nqemu = {qemu:?}\n"));
    let mut child = Command::new(env!("CARGO_BIN_EXE_kata-configdev-qemu"))
        .args(["-name", "sandbox-box-1", "-machine", "q35,accel=tcg", "-nodefaults", "-display"])
        .args(["none", "-S", "-qmp", "stdio"])
        .current_dir(folder.path("bundle"))
        .env("KATA_CONFIGDEV_CONFIG", folder.path("settings.toml"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    for command in ["qmp_capabilities", "query-block", "quit"] {
        writeln!(input, "{{\"execute\": \"{command}\"}}").unwrap();
    }
    let output = child.wait_with_output().unwrap();
    let answers = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{answers}");
    let block = answers
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .find_map(|answer| answer["return"].get(0).cloned())
        .unwrap_or_else(|| panic!("no disk in {answers}"));
    let inserted = &block["inserted"];
    let path = folder.path("run/kata-containers/shared/initdata/box-1/imagepuller.img");
    assert_eq!((&inserted["ro"], &inserted["drv"]), (&json!(true), &json!("raw")));
    assert_eq!(inserted["image"]["filename"], path.to_str().unwrap());
}

#[test]
fn the_wrapper_refuses_what_it_cannot_attach() {
    for transport in ["loop", "vhost-user"] {
        let folder = node(&format!("transport = {transport:?}\nqemu = \"/bin/echo\"\n"));
        let (code, stdout, stderr) = wrapper(&folder, &SANDBOX);
        assert_eq!((code, stdout.as_str()), (Some(65), ""));
        for part in [transport, "\"memory\" or \"file\""] {
            assert!(stderr.contains(part), "{stderr}");
        }
        assert_eq!(stderr.lines().count(), 1);
        // Calls that attach nothing are not concerned.
        assert_eq!(wrapper(&folder, &["--version"]).0, Some(0));
        annotate(&folder, "");
        assert_eq!(wrapper(&folder, &SANDBOX).0, Some(0));
    }
}

#[test]
fn the_wrapper_starts_the_qemu_of_the_machine_type() {
    let folder = node("[qemu]\ndefault = \"/bin/false\"\nq35 = \"/bin/echo\"\n");
    assert_eq!(wrapper(&folder, &SANDBOX).0, Some(0));
    let (code, stdout, _) = wrapper(&folder, &["-name", "sandbox-1", "-machine", "virt-9.0"]);
    assert_eq!((code, stdout.as_str()), (Some(1), ""));
    assert_eq!(wrapper(&folder, &["--version"]).0, Some(1));
}

//! The program itself: arguments, exit codes, streams, and real block devices.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use crate::machine;

use std::fs;
use std::os::unix::fs::{MetadataExt, symlink};
use std::path::Path;
use std::process::{Command, Output};

use rustix::fs::{CWD, FileType, Mode, major, minor, mknodat};

use machine::{
    CONFIGURATION, DOCUMENT, Machine, UNVERIFIED, configuration, initdata, program, raw, skip,
};

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

#[test]
fn help_teaches_and_usage_errors_are_64() {
    let machine = Machine::new();
    let help = program(&machine, &["--help"]);
    assert_eq!(help.status.code(), Some(0));
    let text = String::from_utf8(help.stdout).unwrap();
    for word in [
        "HOSTDATA",
        "MRCONFIGID",
        "/run/measured-cfg/policy.rego",
        "imagepuller.error",
        "with accepted-disk = \"keep\" in the settings all but the accepted disk's",
        "configdev.allow_unverified_initdata=1",
        "configdev.expect=NAME",
        "Exit codes",
    ] {
        assert!(text.contains(word), "{word}\n{text}");
    }
    for wrong in ["--no-such-option", "extra"] {
        assert_eq!(program(&machine, &[wrong]).status.code(), Some(64));
    }
}

#[test]
fn exit_codes_of_the_outcomes() {
    let good = Machine::new()
        .cmdline(UNVERIFIED)
        .disk("vda", &initdata(DOCUMENT))
        .disk("vdb", &configuration(CONFIGURATION));
    let output = program(&good, &[]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert!(output.stdout.is_empty());
    assert!(stderr(&output).contains("finished after"));
    assert!(!stderr(&output).contains("c2VjcmV0"));

    let bad = Machine::new().disk("vda", &initdata(DOCUMENT));
    let output = program(&bad, &[]);
    assert_eq!(output.status.code(), Some(65));
    assert!(stderr(&output).contains("error: initdata refused: failed to verify initdata"));
    bad.deny_policy();

    fs::remove_dir_all(bad.path().join("run")).unwrap();
    assert_eq!(program(&bad, &[]).status.code(), Some(70));
}

#[test]
fn a_tee_without_its_driver_is_not_overruled_by_the_kernel_parameter() {
    let with_disk = || Machine::new().cmdline(UNVERIFIED).disk("vda", &initdata(DOCUMENT));
    // A host that hides the driver can leave out the disk as well.
    for machine in [with_disk, Machine::new] {
        let (tdx, snp, unknown) = (machine(), machine(), machine());
        fs::write(&tdx.options.paths.cpuinfo, "flags\t\t: fpu tdx_guest\n").unwrap();
        fs::create_dir_all(snp.options.paths.platform_devices.join("sev-guest")).unwrap();
        fs::remove_file(&unknown.options.paths.cpuinfo).unwrap();
        for (machine, word) in [
            (tdx, "dev/tdx_guest does not exist"),
            (snp, "dev/sev-guest does not exist"),
            (unknown, "proc/cpuinfo"),
        ] {
            let output = program(&machine, &[]);
            assert_eq!(output.status.code(), Some(65), "{}", stderr(&output));
            let policy = machine.deny_policy();
            assert!(policy.contains(word), "{policy}");
        }
    }
}

/// A loop device that is gone when dropped.
struct Loop(String);

impl Loop {
    fn attach(image: &Path) -> Option<Self> {
        let output = Command::new("losetup")
            .args(["--find", "--show", "--read-only"])
            .arg(image)
            .output()
            .ok()?;
        let node = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| Self(node.trim().trim_start_matches("/dev/").to_owned()))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        let _ = Command::new("losetup").args(["--detach", &format!("/dev/{}", self.0)]).status();
    }
}

/// Shows the machine the real device: attributes as the kernel gives them, and a node of its own.
fn show(machine: &Machine, device: &Loop) {
    show_as(machine, device, device);
}

/// Shows the attributes of `device`, and a node that is another device.
fn show_as(machine: &Machine, device: &Loop, other: &Loop) {
    let Loop(name) = device;
    let paths = &machine.options.paths;
    symlink(format!("../devices/virtual/block/{name}"), paths.block.join(name)).unwrap();
    let number = |of: &Loop| fs::metadata(Path::new("/dev").join(&of.0)).unwrap().rdev();
    for of in [device, other] {
        let number = number(of);
        let by_number = format!("{}:{}", major(number), minor(number));
        // As the kernel has it; both tests' devices may be there already.
        let _ =
            symlink(format!("../../devices/virtual/block/{}", of.0), paths.numbers.join(by_number));
    }
    let number = number(other);
    let node = machine.node(name);
    mknodat(CWD, &node, FileType::BlockDevice, Mode::RUSR, number).unwrap();
}

#[test]
fn privileged_real_block_devices() {
    let images = tempfile::tempdir().unwrap();
    let attach = |name: &str, bytes: &[u8]| {
        let path = images.path().join(name);
        fs::write(&path, bytes).unwrap();
        Loop::attach(&path)
    };
    let Some(first) = attach("initdata", &initdata(DOCUMENT)) else {
        return skip("losetup cannot attach a loop device (needs root and /dev/loop-control)");
    };
    let second = attach("configuration", &configuration(CONFIGURATION)).unwrap();
    let decoy = attach("decoy", &[0x5a; 8192]).unwrap();
    let machine = Machine::new().cmdline(UNVERIFIED);
    for device in [&first, &second, &decoy] {
        show(&machine, device);
    }
    // Without the option they are not disks.
    let output = program(&machine, &[]);
    assert!(stderr(&output).contains("no initdata disk"));
    machine.deny_policy();

    let output = program(&machine, &["--include-loop", "-v"]);
    assert_eq!(output.status.code(), Some(0), "{}", stderr(&output));
    assert_eq!(machine.measured().unwrap().len(), 2);
    let files = machine.insecure().unwrap();
    assert_eq!(files["imagepuller.toml"], CONFIGURATION);

    // A device smaller than its header says.
    let lying = attach("lying", &raw(b"imgpullr", 100_000, b"")).unwrap();
    let liar = Machine::new().cmdline(UNVERIFIED);
    show(&liar, &lying);
    let output = program(&liar, &["--include-loop"]);
    let reason = &liar.insecure().unwrap()["imagepuller.error"];
    assert!(reason.contains("the disk ends after 512 bytes"), "{reason}");
    assert!(stderr(&output).contains("imagepuller refused"));

    // The node is another block device than sysfs says, and a tempting one.
    let swapped = Machine::new().cmdline(UNVERIFIED);
    show_as(&swapped, &decoy, &second);
    let output = program(&swapped, &["--include-loop"]);
    assert!(stderr(&output).contains("expected the node of loop"));
    assert_eq!(swapped.insecure().unwrap().len(), 0);
}

//! What is done with the configuration, and which disks are looked at, on machines made of plain
//! files.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use crate::machine;

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use config_image::{MAX_DOCUMENT_BYTES, Magic};
use initdata_processor::disks::MAX_BLOCK_DEVICES;
use machine::{
    CONFIGURATION, DOCUMENT, Machine, Platform, UNVERIFIED, VERIFIED, configuration, gzip, image,
    initdata, raw,
};

fn machine() -> Machine {
    Machine::new().cmdline(UNVERIFIED)
}

fn assert_placed(machine: &Machine) {
    let files = machine.insecure().unwrap();
    assert_eq!(files.len(), 1, "{files:?}\n{}", machine.log);
    assert_eq!(files["imagepuller.toml"], CONFIGURATION);
}

#[test]
fn the_configuration_is_for_root_only() {
    let mut machine =
        machine().disk("vda", &initdata(DOCUMENT)).disk("vdb", &configuration(CONFIGURATION));
    let outcome = machine.run(Platform::none());
    assert_eq!(outcome.puller.unwrap().as_deref(), Some(CONFIGURATION));
    assert_placed(&machine);
    let mode = |path: &str| {
        let metadata = fs::metadata(machine.path().join(path)).unwrap();
        metadata.permissions().mode() & 0o7777
    };
    assert_eq!(mode("run/insecure-cfg"), 0o700);
    assert_eq!(mode("run/insecure-cfg/imagepuller.toml"), 0o600);
    assert_eq!(mode("run/measured-cfg"), 0o755);
    assert_eq!(mode("run/measured-cfg/policy.rego"), 0o644);
}

#[test]
fn no_disk_and_an_empty_document_both_mean_no_configuration() {
    for mut machine in [machine(), machine().disk("vda", &configuration(""))] {
        // Also where an earlier run left one.
        let directory = machine.path().join("run/insecure-cfg");
        fs::create_dir(&directory).unwrap();
        fs::write(directory.join("imagepuller.toml"), "old").unwrap();
        fs::write(directory.join("imagepuller.error"), "old").unwrap();
        let outcome = machine.run(Platform::none());
        assert_eq!(outcome.puller.unwrap(), None);
        assert_eq!(machine.insecure().unwrap().len(), 0);
    }
}

#[test]
fn the_content_is_not_interpreted() {
    for content in [&b"not toml at all"[..], b"\xff\xfe\0", &[b'x'; 100_000]] {
        let mut machine = machine().disk("vda", &image(Magic::IMAGEPULLER, content));
        assert!(machine.run(Platform::none()).puller.is_ok());
        let file = machine.path().join("run/insecure-cfg/imagepuller.toml");
        assert_eq!(fs::read(file).unwrap(), content);
    }
}

/// Disks that a hostile host could attach; none of them touches initdata, each leaves its reason
/// for the puller.
#[test]
fn hostile_configuration_disks() {
    let good = gzip(CONFIGURATION.as_bytes());
    let length = good.len() as u64;
    let image = |length: u64| raw(b"imgpullr", length, &good);
    let stream = |payload: &[u8]| raw(b"imgpullr", payload.len() as u64, payload);
    let trailing = [good.as_slice(), b"x"].concat();
    let bomb = gzip(&vec![0; MAX_DOCUMENT_BYTES + 1]);
    for (image, expected) in [
        (image(0), "length at offset 8 is 0"),
        (image(513), "the disk ends"),
        (image(u64::MAX), "at most 1048576"),
        (image(length)[..20].to_vec(), "the disk ends"),
        (image(length - 1), "inflate"),
        (stream(&trailing), "before the length"),
        (stream(CONFIGURATION.as_bytes()), "inflate"),
        (stream(&bomb), "more than 4194304"),
    ] {
        let mut machine = machine().disk("vda", &initdata(DOCUMENT)).disk("vdb", &image);
        let outcome = machine.run(Platform::snp(DOCUMENT));
        // It keeps no agent off: measured policy is untouched.
        assert_eq!(outcome.code, 0, "{expected}");
        assert_eq!(outcome.initdata.unwrap(), VERIFIED, "{expected}");
        let files = machine.insecure().unwrap();
        assert_eq!(files.len(), 1, "{expected}: {files:?}");
        let reason = &files["imagepuller.error"];
        for words in [expected, "disk vdb (\"imgpullr\")"] {
            assert!(reason.contains(words), "{words}: {reason}");
        }
        assert_eq!(reason.lines().count(), 1);
        assert!(machine.log.contains("imagepuller refused"), "{expected}");
    }
}

#[test]
fn two_configuration_disks_are_refused_and_initdata_goes_on() {
    let mut machine = machine()
        .disk("vda", &configuration(CONFIGURATION))
        .disk("vdb", &initdata(DOCUMENT))
        .disk("vdc", &configuration(CONFIGURATION));
    let outcome = machine.run(Platform::none());
    assert!(outcome.initdata.is_ok());
    assert!(outcome.puller.unwrap_err().contains("carry the same magic"));
    let files = machine.insecure().unwrap();
    assert_eq!(files.len(), 1);
    assert!(files["imagepuller.error"].contains("vda, vdc"));
}

#[test]
fn other_block_devices_are_passed_over() {
    let image = configuration(CONFIGURATION);
    let other = configuration("not this one");
    let mut machine = machine()
        .disk("vdz", &image)
        // Whole disks without our magic.
        .disk("vda", &[0; 4096])
        .disk("vdb", &[0xff; 512])
        .disk("vdc", b"short")
        .disk("vdd", &raw(b"anothers", 64, b""))
        // Media that come and go, and the path of a multipath disk, which has no node.
        .disk("sr0", &other)
        .attribute("sr0", "removable", "1\n")
        .device("virtual/nvme-subsystem/nvme-subsys0", "nvme0c0n1")
        .attribute("nvme0c0n1", "hidden", "1\n")
        .disk("sdb", b"");
    // No hardware behind it.
    for name in ["loop0", "ram0", "zram0", "dm-0", "md0"] {
        fs::write(machine.node(name), &other).unwrap();
        machine = machine.device("virtual", name);
    }
    assert!(machine.run(Platform::none()).puller.is_ok());
    assert_placed(&machine);
    for (name, reason) in [
        ("vda", "found none"),
        ("vdd", "found \"anothers\""),
        ("sr0", "removable"),
        ("nvme0c0n1", "hidden"),
        ("sdb", "empty"),
        ("loop0", "without hardware"),
        ("dm-0", "without hardware"),
    ] {
        let line = format!("{name}: passed over: ");
        let line = machine.log.lines().find(|text| text.contains(&line));
        assert!(line.unwrap().contains(reason), "{line:?}");
    }
}

/// Such a guest pulled anonymously, and the registry's refusal was all that anybody saw.
#[test]
fn a_configuration_that_should_be_there_is_refused_where_it_is_not() {
    let zero = [0; 512];
    let other = raw(b"anothers", 64, b"");
    let good = configuration(CONFIGURATION);
    // What is on the disk (none: its node is missing), its serial, whether it is expected, and why
    // it is refused.
    for (content, serial, is_expected, words) in [
        (&zero[..], "", true, "no disk with the magic \"imgpullr\" came within 0 s"),
        (&[], "", true, "(0 disks could not be read)"),
        (&zero, "imagepuller\n", false, "whose serial is \"imagepuller\": offset 0: expected a"),
        (&other, "imagepuller", false, "found \"anothers\""),
        (&other, "imgpullr", false, "whose serial is \"imgpullr\": offset 0: expected a"),
        (b"", "imagepuller", true, "empty"),
        (b"none", "imagepuller", false, "open the device node"),
        (&zero, "imagepuller2", false, ""),
        (&good, "imagepuller", true, ""),
    ] {
        let mut machine = machine().disk("vda", content);
        if content == b"none" {
            fs::remove_file(machine.node("vda")).unwrap();
        }
        machine = machine.attribute("vda", "serial", serial);
        if is_expected {
            machine = machine.cmdline("configdev.expect=imagepuller");
        }
        let outcome = machine.run(Platform::none());
        // The measured policy is untouched, whatever the host does with its own disk.
        assert!(outcome.initdata.is_ok());
        let error = machine.insecure().unwrap().remove("imagepuller.error");
        assert_eq!(error.is_some(), !words.is_empty(), "{words}: {error:?}");
        assert!(error.unwrap_or_default().contains(words), "{words}");
        assert_eq!(outcome.code, 0);
    }
}

#[test]
fn what_cannot_be_read_is_reported_and_passed_over() {
    let image = configuration(CONFIGURATION);
    let mut machine = machine().disk("vdz", &image);
    // No node; a directory, a FIFO (which must not block) and a character device in its place.
    for name in ["vda", "vdb", "vdc", "vdd"] {
        machine = machine.disk(name, &image);
        fs::remove_file(machine.node(name)).unwrap();
    }
    fs::create_dir(machine.node("vdb")).unwrap();
    rustix::fs::mkfifoat(rustix::fs::CWD, machine.node("vdc"), rustix::fs::Mode::RWXU).unwrap();
    symlink("/dev/zero", machine.node("vdd")).unwrap();
    // sysfs gives a number, so the node must be that block device.
    machine = machine.disk("vde", &image).attribute("vde", "dev", "254:64\n");
    // The node is another device than the one of its name.
    fs::write(machine.node("vdf"), &image).unwrap();
    let elsewhere = "../devices/pci0000:00/0000:00:05.0/virtio1/block/vdz";
    symlink(elsewhere, machine.options.paths.block.join("vdf")).unwrap();

    assert!(machine.run(Platform::none()).puller.is_ok());
    assert_placed(&machine);
    // A few by name, the others by number, so that the host cannot drown what matters.
    assert_eq!(machine.log.matches("warning: vd").count(), 3);
    let rest = "warning: passed over: 3 more disks that could not be read";
    assert!(machine.log.contains(rest), "{}", machine.log);
    for name in ["vda", "vdb", "vdc", "vdd", "vde", "vdf"] {
        let line = format!(": {name}: passed over: ");
        assert!(machine.log.contains(&line), "{name}\n{}", machine.log);
    }
}

#[test]
fn loop_devices_count_where_asked() {
    let mut machine = machine().device("virtual", "loop0");
    fs::write(machine.node("loop0"), configuration(CONFIGURATION)).unwrap();
    let outcome = machine.run(Platform::none());
    assert_eq!(outcome.puller.unwrap(), None);
    machine.options.include_loop = true;
    assert!(machine.run(Platform::none()).puller.is_ok());
    assert_placed(&machine);
}

#[test]
fn the_number_of_devices_is_bounded() {
    let mut machine = machine();
    for number in 0..=MAX_BLOCK_DEVICES {
        let entry = machine.options.paths.block.join(format!("d{number}"));
        symlink("../../devices/virtual/block/gone", entry).unwrap();
    }
    let outcome = machine.run(Platform::none());
    assert!(outcome.initdata.unwrap_err().contains("more than 1024 block devices"));
    fs::remove_file(machine.options.paths.block.join("d0")).unwrap();
    machine.run(Platform::none()).initdata.unwrap();
}

#[test]
fn a_configuration_that_cannot_be_written_is_no_success() {
    let mut machine = machine().disk("vda", &configuration(CONFIGURATION));
    fs::write(machine.path().join("run/insecure-cfg"), "in the way").unwrap();
    let outcome = machine.run(Platform::none());
    assert!(outcome.initdata.is_err());
    assert_eq!(outcome.code, 70);
    let policy = machine.deny_policy();
    assert!(policy.contains("run/insecure-cfg: Not a directory"));
}

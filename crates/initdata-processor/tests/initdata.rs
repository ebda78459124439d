//! What is done with initdata, from disk to directory, on machines made of plain files.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use crate::machine;

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};

use config_image::MAX_DOCUMENT_BYTES;
use initdata::Algorithm;
use initdata_processor::agent::Agent;
use initdata_processor::boot::run_on;
use initdata_processor::evidence;
use initdata_processor::journal::{Journal, Log};
use initdata_processor::settings::AcceptedDisk;
use machine::{
    CONFIGURATION, DOCUMENT, Initdata, Machine, Platform, Refresher, UNVERIFIED, VERIFIED,
    configuration, gzip, initdata, program, raw,
};

/// What [`DOCUMENT`] becomes.
fn assert_placed(machine: &Machine) {
    let files = machine.measured().unwrap();
    assert_eq!(files["policy.rego"], "package agent_policy");
    assert_eq!(files["aa.toml"], "x = 1");
    assert_eq!(files.len(), 2);
}

#[test]
fn the_announced_document_is_placed() {
    for size in [32, 48] {
        for algorithm in Algorithm::ALL {
            let document = DOCUMENT.replace("sha256", &algorithm.to_string());
            let mut machine = Machine::new().disk("vda", &initdata(&document));
            let digest = algorithm.digest(document.as_bytes());
            let outcome = machine.run(Platform::announces(&digest, size));
            assert_eq!(outcome.initdata.unwrap(), VERIFIED);
            assert_placed(&machine);
            assert!(machine.log.contains("vda: initdata verified"));
        }
    }
}

#[test]
fn another_document_leaves_the_deny_policy_with_the_reason() {
    let other = DOCUMENT.replace("x = 1", "x = 2");
    let mut machine =
        Machine::new().disk("vda", &initdata(&other)).disk("vdb", &configuration(CONFIGURATION));
    let outcome = machine.run(Platform::snp(DOCUMENT));
    assert_eq!(outcome.code, 65);
    assert!(outcome.initdata.unwrap_err().contains("expected the digest in"));

    let policy = machine.deny_policy();
    assert!(
        policy.contains(
            "failed to verify initdata from disk vda: expected the digest in TEST FIELD, "
        ),
        "{policy}"
    );
    // The reason is whole, both sides of the comparison are in it.
    assert!(policy.contains("sha512 "), "{policy}");
    // No password for a guest that may run nothing, and the puller can say why.
    let insecure = machine.insecure().unwrap();
    assert_eq!(insecure.len(), 1);
    assert!(insecure["imagepuller.error"].contains("initdata was refused"));
}

#[test]
fn padding_must_be_zero() {
    let digest = Algorithm::Sha256.digest(DOCUMENT.as_bytes());
    for position in 32..48 {
        let mut field = digest.clone();
        field.resize(48, 0);
        field[position] = 1;
        let mut machine = Machine::new().disk("vda", &initdata(DOCUMENT));
        let error = machine.refused(Platform::announces(&field, 48)).0;
        assert!(error.contains("expected the digest in"));
    }
}

#[test]
fn the_named_algorithm_must_be_the_one_that_fits() {
    // The document says sha256, the host announced its SHA-384.
    let mut machine = Machine::new().disk("vda", &initdata(DOCUMENT));
    let digest = Algorithm::Sha384.digest(DOCUMENT.as_bytes());
    let error = machine.refused(Platform::announces(&digest, 48)).0;
    assert!(error.contains("the document names sha256, but"));
}

#[test]
fn no_disk_is_fine_only_where_none_was_announced() {
    for size in [32, 48] {
        let mut machine = Machine::new().disk("vdb", &configuration(CONFIGURATION));
        let outcome = machine.run(Platform::announces(&[], size));
        assert_eq!(outcome.initdata.clone().unwrap(), Initdata::Absent);
        // Closed for want of a policy, here where the image has none.
        assert!(machine.deny_policy().contains("the image's default policy"));
        assert!(outcome.puller.unwrap().is_some());
    }
    // The host took the disk away.
    let mut machine = Machine::new();
    let (error, policy) = machine.refused(Platform::snp(DOCUMENT));
    assert!(error.contains("find the initdata disk: "));
    assert!(policy.contains("announces initdata"));

    // The host added one that it did not announce.
    let mut machine = Machine::new().disk("vda", &initdata(DOCUMENT));
    let error = machine.refused(Platform::announces(&[], 32)).0;
    assert!(error.contains("expected the digest in"));
}

#[test]
fn without_a_tee_only_the_kernel_parameter_lets_it_go_on() {
    for cmdline in
        ["", "configdev.allow_unverified_initdata=0", "configdev.allow_unverified_initdata"]
    {
        let mut machine = Machine::new().cmdline(cmdline).disk("vda", &initdata(DOCUMENT));
        let (error, policy) = machine.refused(Platform::none());
        assert!(error.contains("no sign of SNP or TDX"));
        assert!(policy.contains("no sign of SNP or TDX"));
    }

    let mut machine = Machine::new().cmdline(UNVERIFIED).disk("vda", &initdata(DOCUMENT));
    let outcome = machine.run(Platform::none());
    let unverified = Initdata::Placed { entries: 2, verified: false };
    assert_eq!(outcome.initdata.unwrap(), unverified);
    assert_placed(&machine);
    assert!(machine.log.contains("warning: no TEE"));
    assert!(machine.log.contains("NOT verified"));

    // Nobody was promised anything where nobody sent initdata.
    for cmdline in ["", UNVERIFIED] {
        let mut machine =
            Machine::new().cmdline(cmdline).disk("vda", &configuration(CONFIGURATION));
        let outcome = machine.run(Platform::none());
        assert_eq!(outcome.initdata.clone().unwrap(), Initdata::Absent);
        assert!(machine.deny_policy().contains("the image's default policy"));
        assert!(outcome.puller.unwrap().is_some());
        assert!(!machine.is_marked_refused());
    }
}

/// It could have said that initdata is expected.
#[test]
fn a_command_line_that_cannot_be_read_closes_the_guest() {
    for platform in [Platform::none, || Platform::announces(&[], 32)] {
        let mut machine = Machine::new();
        fs::remove_file(&machine.options.paths.cmdline).unwrap();
        let policy = machine.refused(platform()).1;
        assert!(policy.contains("failed to read the kernel's"), "{policy}");
    }
}

/// Such a guest went on without initdata, and the line of a disk that was passed over was all that
/// anybody saw.
#[test]
fn a_disk_that_is_initdata_by_its_serial_only_closes_the_guest() {
    let (good, other) = (initdata(DOCUMENT), raw(b"anothers", 64, b""));
    let platforms = [Platform::none, || Platform::announces(&[], 32)];
    for (content, serial, words) in [
        (Some(&b""[..]), "initdata", "empty"),
        (Some(&[0; 512][..]), "initdata\n", "expected a magic, found none"),
        (Some(&other), "initdata", "a magic of this program"),
        (None, "initdata", "open the device node"),
        (None, "initdata2", ""),
    ] {
        for (platform, allow) in platforms.iter().flat_map(|one| [(one, ""), (one, UNVERIFIED)]) {
            let mut machine = Machine::new()
                .cmdline(allow)
                .disk("vda", content.unwrap_or(&good))
                .attribute("vda", "serial", serial);
            if content.is_none() {
                fs::remove_file(machine.node("vda")).unwrap();
            }
            let outcome = machine.run(platform());
            let policy = machine.deny_policy();
            assert_eq!(outcome.initdata.is_err(), !words.is_empty(), "{words}: {policy}");
            assert!(policy.contains(words), "{words}: {policy}");
        }
    }
}

/// An image, or a command line, that says so does without initdata on no machine.
#[test]
fn initdata_that_is_expected_by_name_has_to_come() {
    let platforms = [Platform::none, || Platform::announces(&[], 32)];
    for parameter in ["configdev.expect=initdata", "configdev.expect=imagepuller,initdata"] {
        for (platform, allow) in platforms.iter().flat_map(|one| [(one, ""), (one, UNVERIFIED)]) {
            let mut machine = Machine::new().cmdline(&format!("{parameter} {allow}"));
            let (error, policy) = machine.refused(platform());
            assert!(error.contains("find the initdata disk: "), "{error}");
            assert!(policy.contains("names initdata"), "{policy}");
        }
    }
}

#[test]
fn beside_a_tee_the_kernel_parameter_has_no_effect() {
    let mut machine = Machine::new().cmdline(UNVERIFIED).disk("vda", &initdata(DOCUMENT));
    let error = machine.refused(Platform::snp("another document")).0;
    assert!(error.contains("expected the digest in"));

    // A TEE whose driver gives no report is still a TEE: here its node is a plain file.
    let machine = Machine::new().cmdline(UNVERIFIED).disk("vda", &initdata(DOCUMENT));
    std::fs::write(machine.node("sev-guest"), "").unwrap();
    let mut sink = Vec::new();
    let mut journal = Journal::new(&mut sink, Log::Stderr, false);
    let field = || evidence::field(&machine.options.paths);
    assert_eq!(run_on(field, &machine.options, &mut journal), 65);
    let policy = machine.deny_policy();
    assert!(policy.contains("sev-guest"), "{policy}");
}

#[test]
fn two_initdata_disks_are_refused_even_if_one_is_right() {
    for (name, document) in [("sda", "another"), ("sdb", DOCUMENT)] {
        let mut machine =
            Machine::new().disk("vda", &initdata(DOCUMENT)).disk(name, &initdata(document));
        let (error, policy) = machine.refused(Platform::snp(DOCUMENT));
        assert!(error.contains("carry the same magic"));
        assert!(policy.contains(&format!("{name}, vda carry the same magic")));
    }
}

/// Disks that a hostile host could attach as initdata; each ends in the deny-all policy, on a TEE
/// and without one.
#[test]
fn hostile_initdata_disks() {
    let good = gzip(DOCUMENT.as_bytes());
    let length = good.len() as u64;
    let mut wrong_crc = good.clone();
    wrong_crc[good.len() - 8] ^= 1;
    let bomb = gzip(&vec![b' '; 64 << 20]);
    let over = gzip(&vec![b' '; MAX_DOCUMENT_BYTES + 1]);
    let two = [good.as_slice(), &good].concat();
    let escape = DOCUMENT.replace("aa.toml", "../../etc/ld.so.preload");
    let steers = DOCUMENT.replace("sha256", "\\u001b[2J\\n");
    let image = |length: u64| raw(b"initdata", length, &good);
    let stream = |payload: &[u8]| raw(b"initdata", payload.len() as u64, payload);
    let document = |text: &[u8]| stream(&gzip(text));
    let malformed = [
        (image(0), "length at offset 8 is 0"),
        (image(1), "length at offset 8 is 1"),
        (image(length - 1), "inflate"),
        (image(length + 1), "1 bytes before the length"),
        (image(496), "before the length"),
        (image(497), "the disk ends after 512 bytes"),
        (image(1 << 20), "the disk ends after 512 bytes"),
        (image((1 << 20) + 1), "at most 1048576"),
        (image(1 << 31), "at most 1048576"),
        (image((1 << 32) + length), "at most 1048576"),
        (image(1 << 62), "at most 1048576"),
        (image(1 << 63), "at most 1048576"),
        (image(u64::MAX), "at most 1048576"),
        (image(length.swap_bytes()), "at most 1048576"),
        // Cut in the stream, and behind the header.
        (image(length)[..48].to_vec(), "the disk ends after 48"),
        (image(length)[..16].to_vec(), "the disk ends after 16"),
        (stream(&wrong_crc), "inflate"),
        (stream(&[0; 64]), "inflate"),
        (stream(DOCUMENT.as_bytes()), "inflate"),
        (stream(&two), "before the length"),
        (stream(&bomb), "more than 4194304"),
        (stream(&over), "more than 4194304"),
    ];
    let unparsable = [
        (document(b"\xff\xfe not text"), "it is not UTF-8"),
        (document(escape.as_bytes()), "it has a slash"),
        (document(steers.as_bytes()), r#"\"\\u{1b}[2J\\n\""#),
    ];
    for (image, expected) in malformed.iter().chain(&unparsable) {
        let mut machine = Machine::new().cmdline(UNVERIFIED).disk("vda", image);
        let policy = machine.refused(Platform::none()).1;
        assert!(policy.contains(expected), "{expected}: {policy}");
        assert!(policy.contains("disk vda") && policy.is_ascii(), "{policy}");
        assert!(!machine.path().join("etc/ld.so.preload").exists());
    }
    for (image, expected) in &malformed {
        let mut machine = Machine::new().disk("vda", image);
        let policy = machine.refused(Platform::snp(DOCUMENT)).1;
        assert!(policy.contains(expected), "{expected}: {policy}");
    }
    // On a TEE nothing of them is even parsed.
    for (image, expected) in &unparsable {
        let mut machine = Machine::new().disk("vda", image);
        let error = machine.refused(Platform::snp(DOCUMENT)).0;
        assert!(error.contains("expected the digest in"), "{expected}");
    }
}

#[test]
fn a_magic_elsewhere_is_no_initdata() {
    let good = initdata(DOCUMENT);
    for (name, image) in [
        ("other case", [b"INITDATA".as_slice(), &good[8..]].concat()),
        ("one byte off", [b"\0".as_slice(), &good].concat()),
        ("one sector off", [vec![0; 512], good.clone()].concat()),
        ("only the magic", b"initdata".to_vec()),
    ] {
        let mut machine = Machine::new().disk("vda", &image);
        let error = machine.refused(Platform::snp(DOCUMENT)).0;
        assert!(error.contains("find the initdata disk: "), "{name}");
    }
}

#[test]
fn a_failure_replaces_what_an_earlier_run_placed() {
    let mut machine =
        Machine::new().disk("vda", &initdata(DOCUMENT)).disk("vdb", &configuration(CONFIGURATION));
    machine.run(Platform::snp(DOCUMENT)).initdata.unwrap();
    assert!(machine.insecure().unwrap().contains_key("imagepuller.toml"));
    machine.refused(Platform::snp("other"));
    assert!(!machine.insecure().unwrap().contains_key("imagepuller.toml"));
    let mut machine = machine.plug("vda", &initdata(DOCUMENT));
    machine.run(Platform::snp(DOCUMENT)).initdata.unwrap();
    assert_placed(&machine);
    assert_eq!(machine.insecure().unwrap().len(), 1);
}

/// An agent with Kata's own initdata processing read the disk again, refused or not, and put its
/// policy in the place of ours.
#[test]
fn disks_with_initdata_are_taken_away_from_the_agent() {
    let machine = || {
        let machine = Machine::new()
            .disk("vda", &initdata(DOCUMENT))
            .disk("vdb", &configuration(CONFIGURATION))
            .disk("vdc", b"neither");
        // Partitions, and more disks than a message names.
        for name in ["vdc1", "sda", "sdb", "sdc", "sdd", "sde"] {
            fs::write(machine.node(name), initdata(DOCUMENT)).unwrap();
        }
        symlink("vdb", machine.node("link")).unwrap();
        machine
    };
    let nodes = |machine: &Machine| -> Vec<_> {
        let nodes = fs::read_dir(&machine.options.paths.dev).unwrap();
        let mut names: Vec<_> = nodes.map(|node| node.unwrap().file_name()).collect();
        names.sort();
        names
    };
    // Refused before a disk is looked at, and after it; in the sandbox, and by a mistake in the
    // image too.
    for (cmdline, settings) in [("", ""), (UNVERIFIED, "x"), ("configdev.expect=x", "")] {
        let machine = machine().cmdline(cmdline);
        let machine = machine.settings(settings);
        let output = program(&machine, &[]);
        let log = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(65), "{log}");
        assert!(log.contains("away from the agent: 7 ("), "{log}");
        assert_eq!(nodes(&machine), [".initdata", "link", "vdb", "vdc"], "{log}");
    }
    let mut refused = machine();
    refused.refused(Platform::snp("another"));
    assert_eq!(nodes(&refused), [".initdata", "link", "vdb", "vdc"]);

    // Accepted or not there as well; and another run finds the disk where it is now.
    let mut accepted = Machine::new().disk("vda", &initdata(DOCUMENT));
    fs::write(accepted.node("sda1"), initdata(DOCUMENT)).unwrap();
    for _ in 0..2 {
        let outcome = accepted.run(Platform::snp(DOCUMENT));
        assert_eq!(outcome.initdata.unwrap(), VERIFIED);
        assert_eq!(nodes(&accepted), [".initdata"]);
    }
    let mut none = Machine::new();
    fs::write(none.node("sda1"), initdata(DOCUMENT)).unwrap();
    none.run(Platform::announces(&[], 32)).initdata.unwrap();
    assert_eq!(nodes(&none), [".initdata"]);

    // Where the image says so, the accepted disk stays, and only that.
    let machine = Machine::new().disk("vda", &initdata(DOCUMENT));
    fs::write(machine.node("sda1"), initdata(DOCUMENT)).unwrap();
    let mut machine = machine.settings("accepted-disk = \"keep\"");
    machine.run(Platform::snp(DOCUMENT)).initdata.unwrap();
    assert_eq!(nodes(&machine), [".initdata", "vda"]);

    // One that cannot be taken away is no closed guest.
    let dev = &machine.options.paths.dev;
    fs::set_permissions(dev, Permissions::from_mode(0o555)).unwrap();
    let output = program(&machine, &[]);
    assert_eq!(output.status.code(), Some(70));
    fs::set_permissions(dev, Permissions::from_mode(0o755)).unwrap();
}

#[test]
fn a_refusal_that_cannot_be_written_is_no_success() {
    let mut machine = Machine::new();
    std::fs::remove_dir(&machine.options.paths.run).unwrap();
    let outcome = machine.run(Platform::snp(DOCUMENT));
    assert_eq!(outcome.code, 70);
}

#[test]
fn no_list_of_disks_fails_closed() {
    let mut machine = Machine::new().cmdline(UNVERIFIED);
    std::fs::remove_dir(&machine.options.paths.block).unwrap();
    let error = machine.refused(Platform::none()).0;
    assert!(error.contains("list the disks in "));
    assert!(machine.insecure().unwrap().contains_key("imagepuller.error"));
}

/// Where a disk did not answer, all nodes were taken away, and no later run brought them back: a
/// refresh looked for its disk in vain.
#[test]
fn a_run_begins_with_all_nodes_in_their_places() {
    let mut machine = Machine::new()
        .disk("vda", &initdata(DOCUMENT))
        .disk("vdb", &configuration(CONFIGURATION))
        .disk("vdc", &[7; 512]);
    let mut sink = Vec::new();
    let mut journal = Journal::new(&mut sink, Log::Stderr, false);
    let mut stopped = Agent::close(&machine.options.paths, AcceptedDisk::Remove).unwrap();
    stopped.put_back(&machine.options.paths.dev);
    stopped.withdraw_all(&mut journal).unwrap();
    // One came again meanwhile.
    fs::write(machine.node("vdc"), [8; 512]).unwrap();

    let outcome = machine.run(Platform::snp(DOCUMENT));
    assert_eq!(outcome.initdata.unwrap(), VERIFIED);
    let names = |directory: &str| -> Vec<_> {
        let nodes = fs::read_dir(machine.options.paths.dev.join(directory)).unwrap();
        let mut names: Vec<_> = nodes.map(|node| node.unwrap().file_name()).collect();
        names.sort();
        names
    };
    assert_eq!(names(""), [".initdata", "vdb", "vdc"]);
    assert_eq!(names(".initdata"), ["vda"]);
    assert_eq!(fs::read(machine.node("vdc")).unwrap(), [8; 512]);
    let refresher = Refresher::start(&machine);
    assert_eq!(refresher.ask(), "unchanged", "{}", refresher.log());
}

//! What is done with initdata, from disk to directory, on machines made of plain files.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

mod machine;

use config_image::MAX_DOCUMENT_BYTES;
use initdata::Algorithm;
use initdata_processor::{Configuration, Error, Initdata};
use machine::{
    CONFIGURATION, DOCUMENT, Machine, Platform, UNVERIFIED, configuration, gzip, initdata, puller,
    raw,
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
            let platform = if digest.len() > size {
                Platform::announces(&digest[..size], size)
            } else {
                Platform::announces(&digest, size)
            };
            let outcome = machine.run(platform);
            assert_eq!(
                outcome.initdata.unwrap(),
                Initdata::Placed {
                    entries: 2,
                    verified: true
                }
            );
            assert_placed(&machine);
            assert!(machine.log.contains("vda: initdata verified"));
        }
    }
}

#[test]
fn another_document_leaves_the_deny_policy_with_the_reason() {
    let other = DOCUMENT.replace("x = 1", "x = 2");
    let mut machine = Machine::new()
        .disk("vda", &initdata(&other))
        .disk("vdb", &configuration(CONFIGURATION));
    let outcome = machine.run(Platform::snp(DOCUMENT));
    assert_eq!(outcome.exit_code(false), 0);
    assert_eq!(outcome.exit_code(true), 65);
    assert!(matches!(outcome.initdata, Err(Error::Mismatch { .. })));

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
        let outcome = machine.run(Platform::announces(&field, 48));
        assert!(matches!(outcome.initdata, Err(Error::Mismatch { .. })));
        machine.deny_policy();
    }
}

#[test]
fn the_named_algorithm_must_be_the_one_that_fits() {
    // The document says sha256, the host announced its SHA-384.
    let mut machine = Machine::new().disk("vda", &initdata(DOCUMENT));
    let digest = Algorithm::Sha384.digest(DOCUMENT.as_bytes());
    let outcome = machine.run(Platform::announces(&digest, 48));
    assert!(matches!(
        outcome.initdata,
        Err(Error::OtherAlgorithm { .. })
    ));
    machine.deny_policy();
}

#[test]
fn no_disk_is_fine_only_where_none_was_announced() {
    for size in [32, 48] {
        let mut machine = Machine::new().disk("vdb", &configuration(CONFIGURATION));
        let outcome = machine.run(Platform::announces(&[], size));
        assert_eq!(*outcome.initdata.as_ref().unwrap(), Initdata::Absent);
        assert_eq!(machine.measured().unwrap().len(), 0);
        assert!(matches!(puller(&outcome), Ok(Configuration::Placed { .. })));
    }
    // The host took the disk away.
    let mut machine = Machine::new();
    let outcome = machine.run(Platform::snp(DOCUMENT));
    assert!(matches!(outcome.initdata, Err(Error::DiskMissing { .. })));
    assert!(machine.deny_policy().contains("announces initdata"));

    // The host added one that it did not announce.
    let mut machine = Machine::new().disk("vda", &initdata(DOCUMENT));
    let outcome = machine.run(Platform::announces(&[], 32));
    assert!(matches!(outcome.initdata, Err(Error::Mismatch { .. })));
}

#[test]
fn without_a_tee_only_the_kernel_parameter_lets_it_go_on() {
    for cmdline in [
        "",
        "configdev.allow_unverified_initdata=0",
        "configdev.allow_unverified_initdata",
    ] {
        let mut machine = Machine::new()
            .cmdline(cmdline)
            .disk("vda", &initdata(DOCUMENT));
        let outcome = machine.run(Platform::none());
        assert!(matches!(outcome.initdata, Err(Error::NoPlatform)));
        assert!(machine.deny_policy().contains("no sign of SNP or TDX"));
    }

    let mut machine = Machine::new()
        .cmdline(UNVERIFIED)
        .disk("vda", &initdata(DOCUMENT));
    let outcome = machine.run(Platform::none());
    assert_eq!(
        outcome.initdata.unwrap(),
        Initdata::Placed {
            entries: 2,
            verified: false
        }
    );
    assert_placed(&machine);
    assert!(machine.log.contains("warning: no TEE"));
    assert!(machine.log.contains("NOT verified"));

    let mut machine = Machine::new().cmdline(UNVERIFIED);
    assert_eq!(
        machine.run(Platform::none()).initdata.unwrap(),
        Initdata::Absent
    );

    // An unreadable command line is not a permission.
    let mut machine = Machine::new().disk("vda", &initdata(DOCUMENT));
    std::fs::remove_file(&machine.options.paths.cmdline).unwrap();
    let outcome = machine.run(Platform::none());
    assert!(matches!(outcome.initdata, Err(Error::NoPlatform)));
}

#[test]
fn beside_a_tee_the_kernel_parameter_has_no_effect() {
    let mut machine = Machine::new()
        .cmdline(UNVERIFIED)
        .disk("vda", &initdata(DOCUMENT));
    let outcome = machine.run(Platform::snp("another document"));
    assert!(matches!(outcome.initdata, Err(Error::Mismatch { .. })));
    machine.deny_policy();

    // A TEE whose driver gives no report is still a TEE: here its node is a plain file.
    let machine = Machine::new()
        .cmdline(UNVERIFIED)
        .disk("vda", &initdata(DOCUMENT));
    std::fs::write(machine.node("sev-guest"), "").unwrap();
    let mut sink = Vec::new();
    let mut journal = initdata_processor::journal::Journal::new(
        &mut sink,
        initdata_processor::journal::Format::Text,
        false,
    );
    let outcome = initdata_processor::run(&machine.options, &mut journal);
    assert!(matches!(outcome.initdata, Err(Error::Evidence(_))));
    let policy = machine.deny_policy();
    assert!(policy.contains("sev-guest"), "{policy}");
}

#[test]
fn two_initdata_disks_are_refused_even_if_one_is_right() {
    let mut machine = Machine::new()
        .disk("vda", &initdata(DOCUMENT))
        .disk("sda", &initdata("another"));
    let outcome = machine.run(Platform::snp(DOCUMENT));
    assert!(matches!(outcome.initdata, Err(Error::SeveralDisks { .. })));
    assert!(
        machine
            .deny_policy()
            .contains("sda, vda carry the same magic")
    );

    let mut twice = Machine::new()
        .disk("vda", &initdata(DOCUMENT))
        .disk("vdb", &initdata(DOCUMENT));
    let outcome = twice.run(Platform::snp(DOCUMENT));
    assert!(matches!(outcome.initdata, Err(Error::SeveralDisks { .. })));
}

/// Disks that a hostile host could attach as initdata; each ends in the deny-all policy, on a TEE
/// and without one.
#[test]
fn hostile_initdata_disks() {
    let good = gzip(DOCUMENT.as_bytes());
    let length = good.len() as u64;
    let wrong_crc = {
        let mut bytes = good.clone();
        let at = bytes.len() - 8;
        bytes[at] ^= 1;
        bytes
    };
    let bomb = gzip(&vec![b' '; 64 << 20]);
    let over = gzip(&vec![b' '; MAX_DOCUMENT_BYTES + 1]);
    let two = [good.as_slice(), &good].concat();
    let not_toml = gzip(b"\xff\xfe not text");
    let escape = gzip(
        DOCUMENT
            .replace("aa.toml", "../../etc/ld.so.preload")
            .as_bytes(),
    );
    let stream = |payload: &[u8]| raw(b"initdata", payload.len() as u64, payload);
    let rows: Vec<(&str, Vec<u8>, &str)> = vec![
        (
            "length 0",
            raw(b"initdata", 0, &good),
            "length at offset 8 is 0",
        ),
        (
            "length 1",
            raw(b"initdata", 1, &good),
            "length at offset 8 is 1",
        ),
        (
            "length one short",
            raw(b"initdata", length - 1, &good),
            "inflate",
        ),
        (
            "length one long",
            raw(b"initdata", length + 1, &good),
            "1 bytes before the length",
        ),
        (
            "length to the end",
            raw(b"initdata", 496, &good),
            "before the length",
        ),
        (
            "length over the end",
            raw(b"initdata", 497, &good),
            "the disk ends after 512 bytes",
        ),
        (
            "length at the limit",
            raw(b"initdata", 1 << 20, &good),
            "the disk ends after 512 bytes",
        ),
        (
            "length over the limit",
            raw(b"initdata", (1 << 20) + 1, &good),
            "at most 1048576",
        ),
        (
            "length of 2^31",
            raw(b"initdata", 1 << 31, &good),
            "at most 1048576",
        ),
        (
            "length of 2^32",
            raw(b"initdata", (1 << 32) + length, &good),
            "at most 1048576",
        ),
        (
            "length of 2^62",
            raw(b"initdata", 1 << 62, &good),
            "at most 1048576",
        ),
        (
            "length of 2^63",
            raw(b"initdata", 1 << 63, &good),
            "at most 1048576",
        ),
        (
            "length of 2^64 - 1",
            raw(b"initdata", u64::MAX, &good),
            "at most 1048576",
        ),
        (
            "big endian length",
            raw(b"initdata", length.swap_bytes(), &good),
            "at most 1048576",
        ),
        (
            "truncated",
            raw(b"initdata", length, &good)[..16 + good.len() / 2].to_vec(),
            "the disk ends after",
        ),
        (
            "only a header",
            raw(b"initdata", length, &[])[..16].to_vec(),
            "the disk ends after 16 bytes",
        ),
        ("wrong checksum", stream(&wrong_crc), "inflate"),
        ("zeroes for a stream", stream(&[0; 64]), "inflate"),
        (
            "plain text for a stream",
            stream(DOCUMENT.as_bytes()),
            "inflate",
        ),
        ("two members", stream(&two), "before the length"),
        ("bomb", stream(&bomb), "more than 4194304"),
        (
            "one byte over the limit",
            stream(&over),
            "more than 4194304",
        ),
    ];
    let unparsable: Vec<(&str, Vec<u8>, &str)> = vec![
        ("empty document", stream(&gzip(b"")), "is missing"),
        ("not text", stream(&not_toml), "it is not UTF-8"),
        (
            "a name that leaves the directory",
            stream(&escape),
            "it has a slash",
        ),
        (
            "Kata's sample text",
            stream(&gzip(b"some content")),
            "line 1",
        ),
    ];
    for (name, image, expected) in rows.iter().chain(&unparsable) {
        let mut machine = Machine::new().cmdline(UNVERIFIED).disk("vda", image);
        let outcome = machine.run(Platform::none());
        assert!(outcome.initdata.is_err(), "{name}");
        assert!(outcome.unwritten.is_empty(), "{name}");
        let policy = machine.deny_policy();
        assert!(policy.contains(expected), "{name}: {policy}");
        assert!(policy.contains("disk vda"), "{name}: {policy}");
        assert!(!machine.path().join("etc").exists());
    }
    for (name, image, expected) in &rows {
        let mut machine = Machine::new().disk("vda", image);
        machine.run(Platform::snp(DOCUMENT));
        assert!(machine.deny_policy().contains(expected), "{name}");
    }
    // On a TEE nothing of them is even parsed.
    for (name, image, _) in &unparsable {
        let mut machine = Machine::new().disk("vda", image);
        let outcome = machine.run(Platform::snp(DOCUMENT));
        assert!(
            matches!(outcome.initdata, Err(Error::Mismatch { .. })),
            "{name}"
        );
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
        let outcome = machine.run(Platform::snp(DOCUMENT));
        assert!(
            matches!(outcome.initdata, Err(Error::DiskMissing { .. })),
            "{name}"
        );
    }
}

#[test]
fn a_failure_replaces_what_an_earlier_run_placed() {
    let mut machine = Machine::new()
        .disk("vda", &initdata(DOCUMENT))
        .disk("vdb", &configuration(CONFIGURATION));
    machine.run(Platform::snp(DOCUMENT)).initdata.unwrap();
    assert!(machine.insecure().unwrap().contains_key("imagepuller.toml"));
    assert!(machine.run(Platform::snp("other")).initdata.is_err());
    machine.deny_policy();
    assert!(!machine.insecure().unwrap().contains_key("imagepuller.toml"));
    machine.run(Platform::snp(DOCUMENT)).initdata.unwrap();
    assert_placed(&machine);
    assert_eq!(machine.insecure().unwrap().len(), 1);
}

#[test]
fn a_refusal_that_cannot_be_written_is_no_success() {
    let mut machine = Machine::new();
    std::fs::remove_dir(&machine.options.paths.run).unwrap();
    let outcome = machine.run(Platform::snp(DOCUMENT));
    assert_eq!(outcome.exit_code(false), 70);
    assert_eq!(outcome.unwritten.len(), 1);
}

#[test]
fn no_list_of_disks_fails_closed() {
    let mut machine = Machine::new().cmdline(UNVERIFIED);
    std::fs::remove_dir(&machine.options.paths.block).unwrap();
    let outcome = machine.run(Platform::none());
    assert!(matches!(outcome.initdata, Err(Error::List { .. })));
    machine.deny_policy();
    assert!(
        machine
            .insecure()
            .unwrap()
            .contains_key("imagepuller.error")
    );
}

use std::os::unix::fs::symlink;
use std::path::PathBuf;

use tempfile::TempDir;

use super::samples::{self, Sample};
use super::*;

/// A machine without a TEE.
fn machine() -> (TempDir, Paths) {
    let root = tempfile::tempdir().unwrap();
    let paths = Paths::below(root.path());
    fs::create_dir(&paths.dev).unwrap();
    fs::create_dir(root.path().join("proc")).unwrap();
    fs::write(&paths.cpuinfo, "flags\t\t: fpu vme\n").unwrap();
    (root, paths)
}

/// An SNP guest without its driver.
fn snp() -> (TempDir, Paths, PathBuf) {
    let (root, paths) = machine();
    fs::create_dir_all(paths.platform_devices.join("sev-guest")).unwrap();
    let device = paths.dev.join("sev-guest");
    (root, paths, device)
}

/// A TDX guest without its driver.
fn tdx() -> (TempDir, Paths, PathBuf) {
    let (root, paths) = machine();
    fs::write(&paths.cpuinfo, "flags\t\t: fpu tdx_guest\n").unwrap();
    let device = paths.dev.join("tdx_guest");
    (root, paths, device)
}

fn refusal(paths: &Paths) -> String {
    field(paths).unwrap_err().chain()
}

#[test]
fn the_platforms_own_device_is_asked() {
    let (_root, paths) = machine();
    assert_eq!(field(&paths).unwrap(), None);

    // /dev/null has no report, and each ioctl fails in its own way.
    let (_root, paths, device) = snp();
    symlink("/dev/null", device).unwrap();
    assert!(refusal(&paths).starts_with("read the SNP report: SNP_GET_REPORT"));

    let (_root, paths, device) = tdx();
    symlink("/dev/null", device).unwrap();
    assert!(refusal(&paths).starts_with("read the TDX report: TDX_CMD_GET_REPORT0"));
}

#[test]
fn two_platforms_and_drivers_of_others_are_refused() {
    let (_root, paths, device) = snp();
    symlink("/dev/null", device).unwrap();
    symlink("/dev/null", paths.dev.join("tdx_guest")).unwrap();
    let error = refusal(&paths);
    assert!(error.contains("platform/sev-guest tells of SNP"), "{error}");
    assert!(error.contains("dev/tdx_guest is the driver of TDX"), "{error}");

    fs::write(&paths.cpuinfo, "flags\t\t: tdx_guest\n").unwrap();
    let error = refusal(&paths);
    assert!(error.contains("platform/sev-guest tells of SNP"), "{error}");
    assert!(error.contains("the flag tdx_guest in") && error.contains("tells of TDX"), "{error}");

    let (_root, paths) = machine();
    symlink("/dev/null", paths.dev.join("sev-guest")).unwrap();
    assert!(refusal(&paths).contains("but the kernel gives no sign of a TEE: neither "));
}

#[test]
fn a_node_that_is_no_device_is_an_error_and_not_an_absent_tee() {
    let (_root, mut paths, node) = snp();
    fs::write(&node, "").unwrap();
    let error = refusal(&paths);
    assert!(error.ends_with("dev/sev-guest: it is not a character device"), "{error}");

    fs::remove_file(&node).unwrap();
    symlink("nowhere", &node).unwrap();
    assert!(refusal(&paths).starts_with("open "));

    paths.dev = paths.cpuinfo.clone();
    assert!(refusal(&paths).starts_with("open "), "not a directory is not an answer");
}

#[test]
fn a_tee_whose_driver_is_not_loaded_is_an_error_and_not_an_absent_tee() {
    let (_root, paths, _) = tdx();
    let error = refusal(&paths);
    assert!(error.contains("tells of TDX, but"), "{error}");
    assert!(error.contains("dev/tdx_guest does not exist:"), "{error}");

    let (_root, paths, _) = snp();
    let error = refusal(&paths);
    assert!(error.contains("tells of SNP, but"), "{error}");
    assert!(error.contains("dev/sev-guest does not exist:"), "{error}");
}

/// Signs and drivers, each a word, and what comes of them.
fn outcome(signs: &str, drivers: &str) -> String {
    let tee = |name: &'static str, driver: &str| Seen {
        name,
        place: format!("sign-{name}"),
        has_sign: signs.split(' ').any(|word| word == name),
        device: driver.into(),
        has_device: drivers.split(' ').any(|word| word == driver),
    };
    match agreed(&[tee("SNP", "/sev-guest"), tee("TDX", "/tdx_guest")]) {
        Ok(None) => "no TEE".to_owned(),
        Ok(Some(tee)) => tee.name.to_owned(),
        Err(error) => error.chain(),
    }
}

#[test]
fn no_tee_is_believed_only_without_any_sign_or_driver() {
    for (signs, drivers, expected) in
        [("", "", "no TEE"), ("SNP", "/sev-guest", "SNP"), ("TDX", "/tdx_guest", "TDX")]
    {
        assert_eq!(outcome(signs, drivers), expected, "{signs}; {drivers}");
    }
    for (signs, drivers, words) in [
        ("SNP", "", ["sign-SNP tells of SNP", "/sev-guest does not exist"]),
        ("TDX", "", ["sign-TDX tells of TDX", "/tdx_guest does not exist"]),
        ("SNP TDX", "", ["sign-SNP tells of SNP", "sign-TDX tells of TDX"]),
        ("SNP TDX", "/sev-guest", ["sign-SNP", "sign-TDX"]),
        ("SNP TDX", "/sev-guest /tdx_guest", ["sign-SNP", "sign-TDX"]),
        ("SNP", "/tdx_guest", ["sign-SNP", "/tdx_guest is the driver of TDX"]),
        ("SNP", "/sev-guest /tdx_guest", ["sign-SNP", "/tdx_guest"]),
        ("TDX", "/sev-guest", ["sign-TDX", "/sev-guest"]),
        ("TDX", "/sev-guest /tdx_guest", ["sign-TDX", "/sev-guest"]),
        ("", "/sev-guest", ["/sev-guest is the driver of SNP", "neither sign-SNP nor sign-TDX"]),
        ("", "/sev-guest /tdx_guest", ["/sev-guest is", "and /tdx_guest is the driver of TDX"]),
    ] {
        let text = outcome(signs, drivers);
        for word in words {
            assert!(text.contains(word), "{signs}; {drivers}: {text}");
        }
    }
}

#[test]
fn only_the_exact_flag_of_the_first_processor_counts() {
    for (cpuinfo, expected) in [
        ("processor\t: 0\nflags\t\t: fpu vme tdx_guest\n", Some(true)),
        ("flags\t\t: tdx_guest fpu\nbugs\t\t:\n", Some(true)),
        ("flags\t\t: fpu sev sev_es sev_snp hypervisor\n", Some(false)),
        ("flags\t\t: fpu xtdx_guest tdx_guestx tdx_host_platform\n", Some(false)),
        ("model name\t: flags: tdx_guest\nflags\t\t: fpu\n", Some(false)),
        ("vmx flags\t: tdx_guest\nflags\t\t: fpu\n", Some(false)),
        // Nothing that could be an answer.
        ("", None),
        ("flags\t\t: \n", None),
        ("Features\t: fp asimd\n", None),
    ] {
        let found = has_tdx_flag(cpuinfo.as_bytes()).ok();
        assert_eq!(found, expected, "{cpuinfo}");
    }
}

#[test]
fn the_list_of_a_real_kernel_is_understood() {
    let bytes = std::fs::read("/proc/cpuinfo").unwrap();
    let text = String::from_utf8_lossy(&bytes);
    let first = text.split("\n\n").next().unwrap();
    assert_eq!(has_tdx_flag(&*bytes).unwrap(), first.contains(" tdx_guest"));
}

#[test]
fn hostdata_is_the_published_one_in_every_version() {
    for version in [2, 3, 5] {
        let sample = samples::snp_report(version);
        let field = host_data(&sample.bytes).unwrap();
        assert_eq!(field, sample.field("HOST_DATA"), "version {version}");
        let response = samples::snp_response(&sample);
        assert_eq!(report_in(&response).unwrap(), sample.bytes);
    }
}

/// Nothing but these fields matters, and each bit of them does.
#[test]
fn every_changed_bit_of_an_snp_report_that_is_checked_shows() {
    let good = samples::snp_report(2);
    let field = host_data(&good.bytes).unwrap();
    for offset in 0..good.bytes.len() {
        for bit in 0..8 {
            let mut bytes = good.bytes.clone();
            bytes[offset] ^= 1 << bit;
            let found = host_data(&bytes).ok();
            let name = good.name_at(offset);
            match name {
                "REPORT_DATA" => assert_eq!(found, None, "{offset:#x}"),
                "HOST_DATA" => assert!(found.is_some_and(|f| f != field), "{offset:#x}"),
                // Version 0, of all the neighbours of 2, is too old.
                "VERSION" => assert_eq!(found.is_none(), offset == 0 && bit == 1),
                _ => assert_eq!(found, Some(field), "{name} at {offset:#x}"),
            }
        }
    }
}

#[test]
fn old_versions_are_refused() {
    for (version, good) in [(0, false), (1, false), (2, true), (4, true), (u32::MAX, true)] {
        let mut sample = samples::snp_report(2);
        sample.set("VERSION", &version.to_le_bytes());
        assert_eq!(host_data(&sample.bytes).is_ok(), good, "{version}");
    }
}

#[test]
fn only_the_exact_length_is_a_report() {
    let Sample { mut bytes, .. } = samples::snp_report(2);
    for length in [0, 4, 0x90, 0xe0, 1183] {
        let error = host_data(&bytes[..length]).unwrap_err().chain();
        let expected = format!("expected 1184 bytes, found {length}");
        assert!(error.ends_with(&expected), "{error}");
    }
    bytes.push(0);
    assert!(host_data(&bytes).is_err());
}

#[test]
fn the_answer_must_be_good_and_of_the_right_size() {
    let good = samples::snp_response(&samples::snp_report(2));
    for (name, offset, value) in [
        ("status", 0, 0x16),
        ("status, high byte", 3, 1),
        ("size 0", 4, 0),
        ("size 1183", 4, 0x9f),
        ("size 1185", 4, 0xa1),
        ("size with a high bit", 7, 0x80),
    ] {
        let mut bytes = good.clone();
        bytes[offset] = value;
        if name == "size 0" {
            bytes[5] = 0;
        }
        assert!(report_in(&bytes).is_err(), "{name}");
    }
}

fn bytes(report: &[u8]) -> &[u8; TDREPORT_BYTES] {
    report.try_into().unwrap()
}

#[test]
fn mrconfigid_is_the_published_one() {
    for version in [0, 1] {
        let sample = samples::tdx_report(version);
        let field = mr_config_id(bytes(&sample.bytes)).unwrap();
        assert_eq!(field, sample.field("MRCONFIGID"));
    }
}

/// Nothing but these fields matters, and each bit of them does.
#[test]
fn every_changed_bit_of_a_tdx_report_that_is_checked_shows() {
    let good = samples::tdx_report(0);
    let field = mr_config_id(bytes(&good.bytes)).unwrap();
    for offset in 0..good.bytes.len() {
        for bit in 0..8 {
            let mut changed = good.bytes.clone();
            changed[offset] ^= 1 << bit;
            let found = mr_config_id(bytes(&changed)).ok();
            match (good.name_at(offset), offset) {
                // Type and subtype; 0 would be SGX.
                ("REPORTTYPE", 0 | 1) | ("REPORTDATA", _) => assert_eq!(found, None),
                ("MRCONFIGID", _) => assert!(found.is_some_and(|found| found != field)),
                (name, _) => assert_eq!(found, Some(field), "{name} at {offset}"),
            }
        }
    }
}

use std::os::unix::fs::symlink;
use std::path::PathBuf;

use tempfile::TempDir;

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
    platform(paths).unwrap_err().to_string()
}

#[test]
fn the_platforms_own_device_is_asked() {
    let (_root, paths) = machine();
    assert!(platform(&paths).unwrap().is_none());

    // /dev/null has no report, and each ioctl fails in its own way.
    let (_root, paths, device) = snp();
    symlink("/dev/null", device).unwrap();
    let evidence = platform(&paths).unwrap().unwrap();
    assert!(matches!(evidence.field(), Err(EvidenceError::Snp(_))));

    let (_root, paths, device) = tdx();
    symlink("/dev/null", device).unwrap();
    let evidence = platform(&paths).unwrap().unwrap();
    assert!(matches!(evidence.field(), Err(EvidenceError::Tdx(_))));
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
    assert!(matches!(platform(&paths), Err(EvidenceError::NoSign { .. })));
}

#[test]
fn a_node_that_is_no_device_is_an_error_and_not_an_absent_tee() {
    let (_root, mut paths, node) = snp();
    fs::write(&node, "").unwrap();
    let evidence = platform(&paths).unwrap().unwrap();
    let error = crate::Error::from(evidence.field().unwrap_err()).line();
    assert!(error.ends_with("dev/sev-guest: it is not a character device"), "{error}");

    fs::remove_file(&node).unwrap();
    symlink("nowhere", &node).unwrap();
    let evidence = platform(&paths).unwrap().unwrap();
    assert!(matches!(evidence.field(), Err(EvidenceError::Open(..))));

    paths.dev = paths.cpuinfo.clone();
    assert!(
        matches!(platform(&paths), Err(EvidenceError::Open(..))),
        "not a directory is not an answer"
    );
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
    assert!(error.contains("dev/sev-guest does not exist,"), "{error}");
    assert!(error.contains("tsm/report (no TSM driver, or configfs is not mounted)"), "{error}");
}

/// A TSM directory that cannot say who its provider is: on a plain file system entries have no
/// attributes.
#[test]
fn a_tsm_that_cannot_be_asked_is_an_error_even_beside_a_device() {
    let (_root, paths, device) = snp();
    symlink("/dev/null", device).unwrap();
    fs::create_dir_all(&paths.tsm_reports).unwrap();
    assert!(matches!(platform(&paths), Err(EvidenceError::Tsm { .. })));
}

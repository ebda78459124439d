//! What a plain directory can show; the protocol itself is tested on a real configfs, in
//! `tests/evidence.rs`.

use tempfile::TempDir;

use super::*;

fn reports() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// An entry with these attributes, which do not change.
fn entry(reports: &TempDir, attributes: &[(&str, &[u8])]) -> Entry {
    let entry = Entry::create(reports.path()).unwrap();
    for (name, content) in attributes {
        fs::write(entry.path.join(name), content).unwrap();
    }
    entry
}

fn text<T: std::fmt::Debug>(result: Result<T, EvidenceError>) -> String {
    result.unwrap_err().to_string()
}

#[test]
fn an_entry_is_gone_after_use() {
    let reports = reports();
    let entry = Entry::create(reports.path()).unwrap();
    assert!(entry.path.is_dir());
    drop(entry);
    // A plain directory has no attributes, so every request fails: the entry goes then, too.
    let snp = TsmSnp { reports: reports.path().to_owned() };
    assert!(text(snp.field()).contains("read"));
    assert!(text(look(reports.path())).contains("provider"));
    assert_eq!(fs::read_dir(reports.path()).unwrap().count(), 0);
}

#[test]
fn what_a_killed_run_left_is_replaced() {
    let reports = reports();
    std::mem::forget(Entry::create(reports.path()).unwrap());
    let entry = Entry::create(reports.path()).unwrap();
    drop(entry);
    assert_eq!(fs::read_dir(reports.path()).unwrap().count(), 0);

    // What cannot be removed is not reused.
    let left = self::entry(&reports, &[("provider", b"sev_guest\n")]);
    let error = Entry::create(reports.path()).unwrap_err();
    assert!(matches!(error, EvidenceError::Tsm { action: "create", .. }), "{error}");
    drop(left);
}

#[test]
fn no_directory_and_no_permission_are_told_apart() {
    let reports = reports();
    let absent = reports.path().join("absent");
    let Tsm::Without(why) = look(&absent).unwrap() else {
        panic!("a provider");
    };
    assert!(why.contains("configfs is not mounted"), "{why}");

    let file = reports.path().join("file");
    fs::write(&file, "").unwrap();
    assert!(
        matches!(look(&file), Err(EvidenceError::Tsm { .. })),
        "not a directory is not an answer"
    );
}

#[test]
fn only_snp_reports_are_asked_for() {
    for provider in ["tdx_guest\n", "", "sev_guest2\n", "sev_guest\nx", "\n"] {
        let reports = reports();
        let entry = entry(&reports, &[("provider", provider.as_bytes())]);
        let error = text(entry.report(Platform::Snp, LABEL));
        assert!(error.contains("expected the provider sev_guest"), "{error}");
    }
}

#[test]
fn texts_are_bounded_and_checked() {
    let reports = reports();
    let entry = entry(&reports, &[("provider", &[b'x'; 64])]);
    assert_eq!(entry.provider().unwrap(), "x".repeat(64));
    for (generation, number) in [
        (&b"0\n"[..], Some(0)),
        (b"18446744073709551615\n", Some(u64::MAX)),
        (b"18446744073709551616\n", None),
        (b"-1\n", None),
        (b" 1\n", None),
        (b"", None),
        (b"1\n2\n", None),
        (b"\xff", None),
        (&[b'1'; 65], None),
    ] {
        fs::write(entry.path.join("generation"), generation).unwrap();
        assert_eq!(entry.generation().ok(), number, "{generation:?}");
    }
    fs::write(entry.path.join("provider"), [b'x'; 65]).unwrap();
    assert!(text(entry.provider()).contains("at most 64 bytes"));
}

#[test]
fn a_report_is_bounded() {
    let reports = reports();
    let limit = MAX_OUTBLOB_BYTES;
    let entry = entry(&reports, &[("outblob", &vec![7; limit])]);
    assert_eq!(entry.read("outblob", MAX_OUTBLOB_BYTES).unwrap().len(), limit);
    fs::write(entry.path.join("outblob"), vec![7; limit + 1]).unwrap();
    assert!(text(entry.read("outblob", MAX_OUTBLOB_BYTES)).contains("found more"));
}

#[test]
fn exactly_one_write_is_expected() {
    for (found, before, good) in [
        ("1\n", 0, true),
        ("8\n", 7, true),
        // Our write was not taken; somebody else wrote; the counter cannot go on.
        ("0\n", 0, false),
        ("2\n", 0, false),
        ("0\n", u64::MAX, false),
    ] {
        let reports = reports();
        let entry = entry(&reports, &[("generation", found.as_bytes())]);
        assert_eq!(entry.expect_generation(before, "then").is_ok(), good, "{before} {found}");
    }

    // Plain files do not count.
    let reports = reports();
    let entry = entry(
        &reports,
        &[("provider", b"sev_guest\n"), ("generation", b"0\n"), ("inblob", b""), ("outblob", b"")],
    );
    let error = text(entry.report(Platform::Snp, LABEL));
    assert!(error.contains("after our write, found generation 0"), "{error}");
    assert_eq!(fs::read(entry.path.join("inblob")).unwrap(), LABEL);
}

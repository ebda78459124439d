#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use test_command::hold_cases;

use crate::{Meaning, lines, read};

/// What `cdh.toml` means, or has wrong. Its first line may hold the kernel's parameters; with
/// nothing else there is no such file.
#[test]
fn owners_get_what_they_wrote_or_what_has_no_counterpart() {
    hold_cases(".", |text| {
        let first = text.lines().next().unwrap_or_default();
        let parameters = first.strip_prefix("# kernel: ");
        let has_file = parameters.is_none() || text.lines().count() > 1;
        match read(has_file.then_some(text.as_bytes()), parameters.unwrap_or_default()) {
            Ok(Meaning { document, notes, .. }) => {
                let notes = notes.iter().map(|note| format!("note: {note}\n"));
                notes.collect::<String>() + &document.to_toml().unwrap()
            }
            Err(problems) => {
                assert!(!format!("{problems:?}").contains("hunter2"), "{problems:#?}");
                lines(&problems)
            }
        }
    });
}

#[test]
fn numbers_and_lengths_are_bounded() {
    let roots = [
        include_str!("../../registry-config/tests/data/root.pem"),
        include_str!("../../credential-sources/tests/data/registry_files/k3s-ca.pem"),
    ];
    let rules = |text: &str| format!("[[image.registry_config.registry]]\n{text}");
    let each = (0..1000).map(|at| rules(&format!("prefix='r{at}'\n"))).collect::<String>();
    let roots = format!("[image]\nextra_root_certificates = ['''{}''']\n", roots.concat());
    for (cdh, expected) in [
        ("#".repeat(crate::MAX_CDH_BYTES + 1), "the file has more than 131072 bytes"),
        (rules("").repeat(1025), "registry_config has more than 1024 registries"),
        (roots + &each, "a document has at most"),
    ] {
        let problems = lines(&read(Some(cdh.as_bytes()), "").unwrap_err());
        assert!(problems.starts_with(expected), "{problems}");
    }
}

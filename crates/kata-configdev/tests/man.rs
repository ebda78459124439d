//! The pages of `kata-configdev man`.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use std::process::Command;

use crate::command::{Folder, run, skip};

#[test]
fn man_reads_the_pages_without_a_warning() {
    let folder = Folder::new();
    let output = folder.text("man1");
    run(&["man", "--output", &output]).succeeds();
    let page = folder.path("man1/kata-configdev-check.1");
    let man = Command::new("man")
        .args(["--warnings=w", "-l"])
        .arg(&page)
        .env("MANWIDTH", "100")
        .env("LC_ALL", "C.UTF-8")
        .output();
    let Ok(man) = man else {
        return skip("man is not there");
    };
    let told = String::from_utf8_lossy(&man.stderr);
    assert!(man.status.success() && told.is_empty(), "{told}");
    let text = String::from_utf8_lossy(&man.stdout);
    // Examples can be copied.
    let example = "kata-configdev check --strict tenants/*.toml\n";
    assert!(text.contains(example) && text.contains("--ask FILE [IMAGE]..."), "{text}");
    // A file in the way.
    let file = folder.file("file", "");
    run(&["man", "--output", &file]).fails(69, &["failed to write"]);
}

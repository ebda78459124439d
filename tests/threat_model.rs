//! The threat model names the tests that show each claim. This test checks that they exist.

use anyhow::{Context, Result, ensure};
use end_to_end::fenced::ensure_test;
use end_to_end::pages::{read, root};

/// Every code span that looks like `PATH.rs: NAME`.
fn named_tests(page: &str) -> Vec<&str> {
    let words = page.split('`');
    words.filter(|word| word.contains(".rs: ")).collect()
}

#[test]
fn every_named_test_exists() -> Result<()> {
    let page = read(&root().join("docs/threat-model.md"))?;
    // A code span may be wrapped after the file's name.
    let page = page.replace(".rs:\n  ", ".rs: ");
    let tests = named_tests(&page);
    ensure!(tests.len() > 80, "only {} tests are named", tests.len());
    for test in tests {
        ensure_test(test)?;
    }
    // The claims are the list items between these two headings; each names a test.
    let (_, claims) = page
        .split_once("## What the host can do with its disks")
        .context("no claims")?;
    let (claims, _) = claims.split_once("## Not claimed").context("no end")?;
    for claim in claims.split("\n- ").skip(1) {
        ensure!(claim.contains(".rs: "), "a claim without a test: {claim}");
    }
    Ok(())
}

//! The threat model names the tests that show each claim. This test checks that they exist.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

/// Every code span that looks like `PATH.rs: NAME`.
fn named_tests(page: &str) -> Vec<(&str, &str)> {
    page.split('`')
        .filter_map(|word| word.split_once(".rs: "))
        .collect()
}

#[test]
fn every_named_test_exists() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let page = fs::read_to_string(root.join("docs/threat-model.md"))?;
    // A code span may be wrapped after the file's name.
    let page = page.replace(".rs:\n  ", ".rs: ");
    let tests = named_tests(&page);
    ensure!(tests.len() > 80, "only {} tests are named", tests.len());
    for (file, name) in tests {
        let path = root.join(format!("{file}.rs"));
        let source = fs::read_to_string(&path)
            .with_context(|| format!("{} is named but cannot be read", path.display()))?;
        let is_there = [
            format!("#[test]\nfn {name}("),
            format!("#[test]\n    fn {name}("),
            format!("]\nasync fn {name}("),
            format!("]\n    async fn {name}("),
        ]
        .iter()
        .any(|text| source.contains(text.as_str()));
        ensure!(is_there, "{file}.rs has no test {name}");
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

//! The threat model names a test beside each claim; here: that the test is there.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

/// Everything between single backquotes that looks like `PATH.rs: NAME`.
fn named_tests(page: &str) -> Vec<(&str, &str)> {
    page.split('`')
        .filter_map(|word| word.split_once(".rs: "))
        .collect()
}

#[test]
fn every_named_test_exists() -> Result<()> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let page = fs::read_to_string(root.join("docs/threat-model.md"))?;
    let tests = named_tests(&page);
    ensure!(tests.len() > 30, "only {} tests are named", tests.len());
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
    // Claims stand in tables; each row of those that have tests names one.
    let rows = page
        .lines()
        .skip_while(|line| !line.starts_with("## What the host can do with"))
        .filter(|line| line.starts_with("| ") && !line.ends_with("| shown by |"));
    for row in rows {
        ensure!(row.contains(".rs: "), "a claim without a test: {row}");
    }
    Ok(())
}

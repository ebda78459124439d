//! The threat model and the trust rules name the tests that show each claim. These tests check that
//! they exist.

use anyhow::{Context, Result, ensure};
use end_to_end::fenced::ensure_test;
use end_to_end::pages::{files, read, root};

/// Every code span that looks like `PATH.rs: NAME`.
fn named_tests(page: &str) -> Vec<&str> {
    let words = page.split('`');
    words.filter(|word| word.contains(".rs: ")).collect()
}

/// A page, whose tests exist and are at least `least`.
fn checked(path: &str, least: usize) -> Result<String> {
    let page = read(&root().join(path))?;
    // A code span may be wrapped after the file's name.
    let page = page.replace("\n   ", "\n ").replace(".rs:\n  ", ".rs: ");
    let tests = named_tests(&page);
    ensure!(tests.len() >= least, "only {} tests are named in {path}", tests.len());
    for test in tests {
        ensure_test(test)?;
    }
    Ok(page)
}

#[test]
fn each_rule_names_code_and_a_test_that_exist() -> Result<()> {
    let page = checked("docs/trust-rules.md", 18)?;
    let page = page.replace('\n', " ");
    for rule in page.split(". **").skip(1) {
        let (_, held) = rule.split_once("Held by ").context(rule.to_owned())?;
        let (code, tests) = held.split_once("Test").context(rule.to_owned())?;
        ensure!(tests.contains(".rs: "), "a rule without a test: {rule}");
        // `a::b` in `crate`, then perhaps more of it.
        let words: Vec<_> = code.split('`').collect();
        for place in words.windows(4).filter(|words| words[2] == " in ") {
            let name = place[1].rsplit("::").next().unwrap_or_default();
            let sources = files(&root().join("crates").join(place[3]).join("src"), "rs")?;
            let texts = sources.iter().map(|path| read(path)).collect::<Result<Vec<_>>>()?;
            let kinds = ["fn NAME(", "fn NAME<", "struct NAME", "mod NAME;"];
            let kinds = kinds.map(|kind| kind.replace("NAME", name));
            let is_there =
                texts.iter().any(|text| kinds.iter().any(|kind| text.contains(kind.as_str())));
            ensure!(is_there, "no {} in {}", place[1], place[3]);
        }
    }
    Ok(())
}

#[test]
fn every_named_test_exists() -> Result<()> {
    let page = checked("docs/threat-model.md", 80)?;
    // The claims are the list items between these two headings; each names a test.
    let (_, claims) =
        page.split_once("## What the host can do with its disks").context("no claims")?;
    let (claims, _) = claims.split_once("## Not claimed").context("no end")?;
    for claim in claims.split("\n- ").skip(1) {
        ensure!(claim.contains(".rs: "), "a claim without a test: {claim}");
    }
    Ok(())
}

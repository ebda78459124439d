//! Every block of the pages is run, or read by the program that it is for, or says why not.
//!
//! `tests/recipes.rs` runs the commands that have no mark.

use anyhow::{Context as _, Result, bail, ensure};
use end_to_end::fenced::{Block, Mark, blocks, ensure_test, filled};
use end_to_end::pages::{pages, read, root};
use test_http::pki::Authority;
use vm_harness::Scratch;

use crate::documentation::readers;

/// How many words a reason has at least.
const MIN_WORDS: usize = 3;

#[test]
fn every_block_is_run_or_read_or_says_why_not() -> Result<()> {
    let scratch = Scratch::new()?;
    let authority = Authority::new("example")?;
    let (mut problems, mut count) = (Vec::new(), 0);
    for page in pages()? {
        let text = filled(&read(&page)?, authority.certificate());
        let name = page.strip_prefix(root())?.display();
        for block in blocks(&text).with_context(|| name.to_string())? {
            count += 1;
            if let Err(error) = check(&block, &scratch) {
                problems.push(format!("{name}:{}: {error:#}", block.line));
            }
        }
    }
    ensure!(problems.is_empty(), "{}", problems.join("\n\n"));
    ensure!(count > 150, "only {count} blocks");
    Ok(())
}

fn check(block: &Block<'_>, scratch: &Scratch) -> Result<()> {
    match (block.kind, &block.mark) {
        (_, Some(Mark::NotRun(reason) | Mark::Example(reason))) => {
            let is_said = reason.split_whitespace().count() >= MIN_WORDS;
            ensure!(is_said, "{reason} is no reason");
            Ok(())
        }
        (_, Some(Mark::RunBy(test))) => ensure_test(test),
        ("sh" | "console", None) | ("text", None | Some(Mark::File(_))) => Ok(()),
        ("toml", _) => readers::toml(&block.text, scratch),
        ("json", _) => {
            serde_json::from_str::<serde_json::Value>(&block.text)?;
            Ok(())
        }
        ("yaml", _) => readers::yaml(&block.text),
        (kind, _) => bail!("nobody runs or reads a block of {kind:?}"),
    }
}

#[test]
fn a_block_that_nobody_takes_is_noticed() -> Result<()> {
    let scratch = Scratch::new()?;
    let checked = |page: &str| -> Result<()> {
        for block in blocks(page)? {
            check(&block, &scratch)?;
        }
        Ok(())
    };
    for good in [
        "```sh\ntrue\n```\n",
        "- a list\n  <!-- file: a.toml -->\n  ```toml\n  [extra-env]\n\n  A = \"b\"\n  ```\n",
        "```toml\n[pins]\n```\n",
        "```toml\nqemu = \"/nowhere\"\ndocument = \"/nowhere\"\n```\n",
        "```toml\naccepted-disk = \"keep\"\n```\n",
        "```toml\n[hypervisor.qemu]\npath = \"/nowhere\"\n```\n",
        "```toml\nversion = \"0.1.0\"\nalgorithm = \"sha256\"\n[data]\n```\n",
        "```yaml\na: 1\n---\nb: [2]\n```\n",
        "```yaml\nsets: {a: {handlers: [/b], settings: {any: 1}}}\n```\n",
        "<!-- not run: there is no cluster -->\n```sh\nfalse\n```\n",
        "<!-- run by tests/recipes.rs: privileged_harbor -->\n```sh\nfalse\n```\n",
    ] {
        checked(good).context(good)?;
    }
    for bad in [
        "```\ntrue\n```\n",
        "```bash\ntrue\n```\n",
        "```sh\ntrue\n",
        "```toml\n[registry]\n```\n",
        "```toml\naccepted-disk = \"take\"\n```\n",
        "```toml\n[hypervisor.qemu\npath = \"/nowhere\"\n```\n",
        "```toml\nversion = \"7\"\nalgorithm = \"sha256\"\n[data]\n```\n",
        "```json\n{\n```\n",
        "```yaml\na: [\n```\n",
        "```yaml\nsets: {a: {handler: [/b]}}\n```\n",
        "<!-- not run: why -->\n```sh\nfalse\n```\n",
        "<!-- not run: there is no cluster -->\n\n```sh\nfalse\n```\n",
        "<!-- run by tests/recipes.rs: privileged_nobody -->\n```sh\nfalse\n```\n",
    ] {
        ensure!(checked(bad).is_err(), "{bad}");
    }
    Ok(())
}

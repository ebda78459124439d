//! The fenced blocks of a page, and who runs what is in them.
//!
//! A block of `sh` or `console` is run as it stands, one of `toml`, `json` or `yaml` is read by the
//! program that it is for, and `text` is what is shown. A mark right above says otherwise:
//!
//! - `<!-- not run: WHY -->`: an example of commands that nobody runs here.
//! - `<!-- run by PATH.rs: NAME -->`: that test runs or reads the block, or does the same.
//! - `<!-- example: WHY -->`: text of another program, which nobody reads here.
//! - `<!-- file: PATH -->`: read as ever, and there as a file for the commands that follow.

use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result, bail, ensure};

/// A piece of a page.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part<'p> {
    /// A line outside of blocks.
    Line(&'p str),
    /// A fenced block.
    Block(Block<'p>),
}

/// A fenced block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block<'p> {
    /// Where its first fence is, counted from 1.
    pub line: usize,
    /// What follows the fence, such as `sh`.
    pub kind: &'p str,
    /// What is in it, without the indentation of the fence.
    pub text: String,
    /// What stands right above it.
    pub mark: Option<Mark>,
}

/// A mark above a block.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Mark {
    /// The reason why nobody runs it.
    NotRun(String),
    /// The test that runs it, as `PATH.rs: NAME`.
    RunBy(String),
    /// The reason why nobody reads it.
    Example(String),
    /// Where it is a file.
    File(String),
}

impl Mark {
    fn parse(comment: &str) -> Option<Self> {
        let words = comment.strip_prefix("<!-- ")?.strip_suffix(" -->")?;
        let mark = |start: &str, mark: fn(String) -> Self| {
            let rest = words.strip_prefix(start)?;
            Some(mark(rest.to_owned()))
        };
        mark("not run: ", Self::NotRun)
            .or_else(|| mark("run by ", Self::RunBy))
            .or_else(|| mark("example: ", Self::Example))
            .or_else(|| mark("file: ", Self::File))
    }
}

/// Takes a page apart.
///
/// # Errors
///
/// Where a block does not end, is not indented as its fence is, or a mark stands above none.
pub fn parts(page: &str) -> Result<Vec<Part<'_>>> {
    let mut parts = Vec::new();
    let mut mark = None;
    let mut lines = page.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let (indent, rest) = line.split_at(line.len() - line.trim_start().len());
        if let Some(kind) = rest.strip_prefix("```") {
            let mut block =
                Block { line: number + 1, kind, text: String::new(), mark: mark.take() };
            loop {
                let (_, line) = lines.next().context("a block without an end")?;
                if line.trim_start() == "```" {
                    break;
                }
                let inner = line.strip_prefix(indent);
                let inner = inner.or(line.is_empty().then_some(""));
                block.text += inner.with_context(|| format!("not indented: {line}"))?;
                block.text += "\n";
            }
            parts.push(Part::Block(block));
            continue;
        }
        ensure!(mark.is_none(), "a mark above no block, before: {line}");
        parts.push(Part::Line(line));
        if rest.starts_with("<!--") {
            let mut comment = rest.to_owned();
            while !comment.ends_with("-->") {
                let (_, line) = lines.next().context("a comment without an end")?;
                comment = format!("{comment} {}", line.trim());
            }
            mark = Mark::parse(&comment);
        }
    }
    ensure!(mark.is_none(), "a mark at the end");
    Ok(parts)
}

/// The blocks alone.
///
/// # Errors
///
/// As [`parts`].
pub fn blocks(page: &str) -> Result<Vec<Block<'_>>> {
    let blocks = parts(page)?.into_iter().filter_map(|part| match part {
        Part::Block(block) => Some(block),
        Part::Line(_) => None,
    });
    Ok(blocks.collect())
}

/// A page with something real in place of what stands for it: `...(base64)` for more of a key,
/// `(base64)` for the lines of a certificate, `DIGEST` for a digest in hexadecimal.
#[must_use]
pub fn filled(page: &str, certificate: &str) -> String {
    let lines = certificate.lines().filter(|line| !line.starts_with('-'));
    let lines = lines.collect::<Vec<_>>().join("\n");
    page.replace("...(base64)", "LS0t")
        .replace("(base64)", &lines)
        .replace("sha256:DIGEST", &format!("sha256:{}", "0".repeat(64)))
}

/// Checks that a test exists which a page names as `PATH.rs: NAME`.
///
/// # Errors
///
/// Where it does not.
pub fn ensure_test(named: &str) -> Result<()> {
    let Some((file, name)) = named.split_once(".rs: ") else {
        bail!("{named} is not PATH.rs: NAME");
    };
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../{file}.rs"));
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
    // The tests of recipes are rows of a table.
    let is_row = source.contains(&format!("\" {name} "));
    ensure!(is_there || is_row, "{file}.rs has no test {name}");
    Ok(())
}

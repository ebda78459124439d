//! A page of `docs/recipes`: its steps, and the commands in them.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use end_to_end::fenced::{self, Block, Mark, Part};

/// A way to follow a recipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// By hand, on one node.
    Node,
    /// With the chart.
    Fleet,
}

impl Way {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Node, Self::Fleet];

    /// The heading of its steps.
    pub const fn heading(self) -> &'static str {
        match self {
            Self::Node => "## On a node, by hand",
            Self::Fleet => "## On a fleet, with the chart",
        }
    }

    /// How many steps a page may have.
    const fn most_steps(self) -> usize {
        match self {
            Self::Node => 4,
            Self::Fleet => 3,
        }
    }
}

/// What every page says.
const READ_ONLY: &str = "Give a guest read-only credentials";

/// A page that has the form of a recipe.
#[derive(Debug)]
pub struct Page {
    node: Vec<String>,
    fleet: Vec<String>,
}

impl Page {
    /// Reads the page of this name and checks its form.
    pub fn read(name: &str) -> Result<Self> {
        let path = folder().join(format!("{name}.md"));
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        Self::parse(&text).with_context(|| path.display().to_string())
    }

    fn parse(text: &str) -> Result<Self> {
        ensure!(
            text.split_whitespace().collect::<Vec<_>>().join(" ").contains(READ_ONLY),
            "the page does not say: {READ_ONLY}"
        );
        let long = text.lines().find(|line| line.chars().count() > 100);
        ensure!(long.is_none(), "longer than 100 columns: {long:?}");
        let mut page = Self { node: Vec::new(), fleet: Vec::new() };
        let (mut way, mut steps) = (None, 0);
        for part in fenced::parts(text)? {
            let line = match part {
                Part::Line(line) => line,
                Part::Block(block) => {
                    page.take(block, way.filter(|_| steps > 0))?;
                    continue;
                }
            };
            if line.starts_with("## ") {
                way = Way::ALL.into_iter().find(|way| way.heading() == line);
                steps = 0;
            } else if let (Some(heading), Some(way)) = (line.strip_prefix("### "), way) {
                steps += 1;
                ensure!(heading.starts_with(&format!("{steps}. ")), "not step {steps}: {line}");
                ensure!(steps <= way.most_steps(), "too many steps: {line}");
            }
        }
        for way in Way::ALL {
            ensure!(!page.blocks(way).is_empty(), "no commands: {}", way.heading());
        }
        Ok(page)
    }

    /// Keeps the commands of a block that stands in a step of `way`.
    fn take(&mut self, block: Block<'_>, way: Option<Way>) -> Result<()> {
        match (block.kind, &block.mark, way) {
            // What is shown, not typed.
            ("text", None, _) | ("sh", Some(Mark::NotRun(_)), _) => {}
            ("sh", None, Some(way)) => self.blocks_mut(way).push(block.text.clone()),
            _ => bail!("nobody runs this: {block:?}"),
        }
        Ok(())
    }

    /// The commands of a way, block by block, as they are printed.
    pub fn blocks(&self, way: Way) -> &[String] {
        match way {
            Way::Node => &self.node,
            Way::Fleet => &self.fleet,
        }
    }

    fn blocks_mut(&mut self, way: Way) -> &mut Vec<String> {
        match way {
            Way::Node => &mut self.node,
            Way::Fleet => &mut self.fleet,
        }
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/recipes")
}

/// The names of all pages but the index, in order.
pub fn names() -> Result<Vec<String>> {
    let mut names = Vec::new();
    for entry in fs::read_dir(folder())? {
        let name = entry?.file_name().to_string_lossy().into_owned();
        names.extend(name.strip_suffix(".md").map(str::to_owned));
    }
    names.retain(|name| name != "README");
    names.sort();
    Ok(names)
}

/// The index.
pub fn index() -> Result<String> {
    Ok(fs::read_to_string(folder().join("README.md"))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "Give a guest read-only\ncredentials.\n\n## On a node, by hand\n\n### 1. \
                        One\n\n```sh\ntrue\n```\n\n## On a fleet, with the chart\n\n### 1. One\n\n\
                        ```sh\ntrue\n```\n";

    #[test]
    fn a_page_that_is_not_run_has_not_the_form() {
        let page = Page::parse(PAGE).unwrap();
        assert_eq!(page.blocks(Way::Node), ["true\n"]);
        assert_eq!(page.blocks(Way::Fleet), ["true\n"]);
        let step = "\n### 2. a\n### 3. b\n### 4. c\n";
        for (from, to) in [
            ("Give", "Take"),
            ("```sh", "```bash"),
            ("### 1.", "### 2."),
            ("### 1. One", "One"),
            ("node, by hand", "machine"),
            ("true\n```\n", &format!("true\n```\n{step}")),
        ] {
            let page = PAGE.replace(from, to);
            assert_ne!(page, PAGE);
            assert!(Page::parse(&page).is_err(), "{page}");
        }
        let more = format!("{PAGE}\n## Else\n\n```sh\nfalse\n```\n");
        assert!(Page::parse(&more).is_err());
        let marked = more.replace("\n```sh\nfalse", "\n<!-- not run: why -->\n```sh\nfalse");
        assert!(Page::parse(&marked).is_ok());
    }
}

//! The commands of the pages outside of `docs/recipes`, in a node of its own for each page.
//!
//! A block of `sh` has to succeed. In a block of `console`, what stands below a command is what it
//! prints, first its output and then its errors; `...` stands for anything, and lines may be broken
//! elsewhere. Where such a block begins with `cat FILE`, that is a file which is given.
//!
//! What surrounds the node, `around/every.sh` and then `around/PAGE.sh` put there before: files,
//! sandboxes, and stand-ins for programs that are not this project's.

use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use end_to_end::fenced::{Block, Mark, blocks, filled};
use end_to_end::pages::{pages as all_pages, read, root};

use crate::recipes::registries::{Account, Shop, prepare};
use crate::recipes::world::{OWN, PLACE, World};

/// What follows the output of each command of a block.
const END: &str = "\u{1}\n";

/// The pages that have commands to run, by their paths in the checkout.
pub fn pages() -> Result<Vec<String>> {
    let mut names = Vec::new();
    for page in all_pages()? {
        let name = page.strip_prefix(root())?.to_string_lossy().into_owned();
        if !name.starts_with("docs/recipes/") && blocks(&read(&page)?)?.iter().any(is_run) {
            names.push(name);
        }
    }
    Ok(names)
}

fn is_run(block: &Block<'_>) -> bool {
    matches!(block.kind, "sh" | "console") && block.mark.is_none()
}

/// Does what a page says, from top to bottom.
pub fn follow(page: &str) -> Result<()> {
    let world = World::new()?;
    let certificate = world.web.certificate();
    fs::write(Path::new(OWN).join("ca.pem"), certificate)?;
    let text = filled(&read(&root().join(page))?, certificate);
    // Who asks finds a registry.
    let shop = text.contains("check --ask").then(|| open(&world));
    let _shop = shop.transpose()?;
    for around in ["every".to_owned(), page.trim_end_matches(".md").replace('/', "-")] {
        let file = root().join(format!("tests/recipes/around/{around}.sh"));
        if file.exists() {
            shell(&read(&file)?).with_context(|| file.display().to_string())?;
        }
    }
    for block in blocks(&text)? {
        let done = match (&block.mark, block.kind) {
            (Some(Mark::File(path)), _) => give(path, &block.text),
            (None, "sh") => shell(&block.text).map(drop),
            (None, "console") => console(&block.text),
            _ => continue,
        };
        done.with_context(|| format!("{page}:{}:\n{}", block.line, block.text))?;
    }
    Ok(())
}

/// The registry of the pages, with the image that they name.
fn open(world: &World) -> Result<Shop> {
    let account = Account { username: "robot", password: "example" };
    let shop = Shop::open(world, &world.web, "registry.corp", account, "team/app")?;
    prepare(
        "skopeo copy --quiet --src-creds robot:example --dest-creds robot:example \
         docker://registry.corp/team/app:1 docker://registry.corp/team/app:1.2",
    )?;
    Ok(shop)
}

fn give(path: &str, text: &str) -> Result<()> {
    let path = Path::new(PLACE).join(path);
    fs::create_dir_all(path.parent().context("a file has a directory")?)?;
    Ok(fs::write(path, text)?)
}

/// Runs commands that have to succeed, and returns what they printed.
fn shell(commands: &str) -> Result<String> {
    let output = Command::new("bash")
        .args(["-euo", "pipefail", "-c", commands])
        .current_dir(PLACE)
        .output()?;
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "it failed:\n{printed}{said}");
    Ok(printed)
}

/// One command and what it prints.
#[derive(Debug, PartialEq, Eq)]
struct Typed {
    command: String,
    shown: String,
}

fn console(text: &str) -> Result<()> {
    let typed = typed(text)?;
    if let [first, _, ..] = &typed[..]
        && let Some(path) = first.command.trim_end().strip_prefix("cat ")
    {
        give(path, &first.shown)?;
    }
    let mut script = String::new();
    for Typed { command, .. } in &typed {
        script += &format!("{{ {command}}} 2>{OWN}/errors\ncat {OWN}/errors\nprintf '{END}'\n");
    }
    let printed = shell(&script)?;
    for (Typed { command, shown }, printed) in typed.iter().zip(printed.split(END)) {
        ensure!(is_shown(shown, printed), "{command}prints\n{printed}");
    }
    Ok(())
}

/// Takes a session apart. A command goes on where its line ends so that the shell reads on.
fn typed(text: &str) -> Result<Vec<Typed>> {
    let mut typed: Vec<Typed> = Vec::new();
    let mut is_open = false;
    for line in text.lines() {
        if let Some(command) = line.strip_prefix("# ").filter(|_| !is_open) {
            typed.push(Typed { command: format!("{command}\n"), shown: String::new() });
        } else {
            let last = typed.last_mut().context("output before any command")?;
            let text = if is_open { &mut last.command } else { &mut last.shown };
            *text += &format!("{line}\n");
            if !is_open {
                continue;
            }
        }
        let command = &typed.last().context("no command")?.command;
        let ends = ["\\\n", "|\n", "&&\n"];
        is_open = ends.iter().any(|end| command.ends_with(end))
            || !command.matches('\'').count().is_multiple_of(2);
    }
    ensure!(!is_open, "the last command does not end");
    Ok(typed)
}

/// Whether `printed` is what the page shows.
fn is_shown(shown: &str, printed: &str) -> bool {
    let words = |text: &str| text.split_whitespace().collect::<String>();
    let printed = words(printed);
    let mut rest = printed.as_str();
    let shown = words(shown);
    let mut parts = shown.split("...").peekable();
    let mut is_first = true;
    while let Some(part) = parts.next() {
        let found = match (is_first, parts.peek().is_none()) {
            (true, true) => return rest == part,
            (true, false) => rest.strip_prefix(part),
            (false, true) => return rest.ends_with(part),
            (false, false) => rest.split_once(part).map(|(_, behind)| behind),
        };
        let Some(behind) = found else {
            return false;
        };
        (rest, is_first) = (behind, false);
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_taken_apart() {
        let text = "# cat a\n# no command\n# b |\n    c 'd\n# e' \\\n  f\n";
        let found = typed(text).unwrap();
        let commands: Vec<&str> = found.iter().map(|typed| typed.command.as_str()).collect();
        assert_eq!(commands, ["cat a\n", "no command\n", "b |\n    c 'd\n# e' \\\n  f\n"]);
        assert!(typed("a\n").is_err());
        assert!(typed("# a |\n").is_err());
        let shown = &typed("# a\nb\n\nc\n").unwrap()[0];
        assert_eq!(shown.shown, "b\n\nc\n");
    }

    #[test]
    fn what_is_printed_is_compared() {
        for (shown, printed, is_same) in [
            ("a b\nc", "a\n  b c\n", true),
            ("a b", "a b c", false),
            ("a ... c", "a b c", true),
            ("... c", "b c", true),
            ("a ...", "a b c", true),
            ("a ... b ... c", "a c", false),
            ("a ... c", "b c", false),
            ("", "a", false),
        ] {
            assert_eq!(is_shown(shown, printed), is_same, "{shown}: {printed}");
        }
    }
}

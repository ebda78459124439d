//! The pages for people name files, headings and functions. This test checks that they exist.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

pub mod blocks;
pub mod pictures;
pub mod readers;

use std::collections::BTreeSet;
use std::fs;

use anyhow::{Context, Result, ensure};
use end_to_end::pages::{pages, read, root};

/// The fragment that leads to a heading.
fn fragment(heading: &str) -> String {
    heading
        .trim_start_matches('#')
        .trim()
        .to_lowercase()
        .chars()
        .filter(|char| char.is_alphanumeric() || " -_".contains(*char))
        .map(|char| if char == ' ' { '-' } else { char })
        .collect()
}

/// What stands before each link, and the link's target.
fn links(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.match_indices("](").filter_map(|(at, _)| {
        let target = text[at + 2..].split_once(')')?.0;
        (!target.contains("://")).then_some((&text[..at], target))
    })
}

/// `NAME`, where a link is written as "`NAME` in [`FILE`](PATH)".
fn function(before: &str) -> Option<&str> {
    let (before, file) = before.rsplit_once("` in [`")?;
    let (_, name) = before.rsplit_once('`')?;
    (!file.contains(' ')).then_some(name)
}

#[test]
fn every_link_leads_to_a_file_and_a_heading() -> Result<()> {
    for page in pages()? {
        let text = read(&page)?;
        for (_, target) in links(&text) {
            let (path, heading) = target.split_once('#').unwrap_or((target, ""));
            let file = match path {
                "" => page.clone(),
                path => page.with_file_name("").join(path),
            };
            ensure!(file.exists(), "{}: no {target}", page.display());
            let is_there = heading.is_empty()
                || read(&file)?
                    .lines()
                    .any(|line| line.starts_with('#') && fragment(line) == heading);
            ensure!(is_there, "{}: no heading {target}", page.display());
        }
    }
    Ok(())
}

#[test]
fn every_path_of_the_repository_exists() -> Result<()> {
    for page in pages()? {
        let text = read(&page)?;
        let tops = ["crates/", "deploy/", "docs/", "hack/", "qemu-fixtures/", "tests/"];
        let paths = text.split('`').filter(|word| {
            tops.iter().any(|top| word.starts_with(top)) && !word.contains([' ', ':', '\n'])
        });
        // ROOM and NAME stand for any.
        for path in paths.filter(|path| !path.contains("ROOM")) {
            ensure!(root().join(path).exists(), "{}: no {path}", page.display());
        }
    }
    Ok(())
}

#[test]
fn every_entry_function_exists() -> Result<()> {
    let mut count = 0;
    for page in pages()? {
        let text = read(&page)?.split_whitespace().collect::<Vec<_>>().join(" ");
        for (before, target) in links(&text) {
            // The name must stand right before this link, not before an earlier one.
            let since = before.rfind("](").map_or(0, |at| at + 2);
            let Some(name) = function(&before[since..]) else {
                continue;
            };
            let source = read(&page.with_file_name("").join(target))?;
            let is_there = [format!("fn {name}("), format!("fn {name}<")]
                .iter()
                .any(|text| source.contains(text.as_str()));
            ensure!(is_there, "{}: no function {name} in {target}", page.display());
            count += 1;
        }
    }
    ensure!(count > 30, "only {count} functions are named");
    Ok(())
}

/// The rooms that a room's manifest depends on, tests aside.
fn rooms_of(manifest: &str) -> BTreeSet<String> {
    let (_, rest) = manifest.split_once("[dependencies]\n").unwrap_or_default();
    rest.lines()
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| line.split(['.', ' ', '=']).next())
        .filter(|name| !name.is_empty() && root().join("crates").join(name).exists())
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_room_says_what_it_uses() -> Result<()> {
    let design = read(&root().join("docs/design.md"))?;
    let items: Vec<String> = design
        .split("\n- ")
        .filter_map(|item| item.split("\n\n").next()?.strip_prefix("`crates/"))
        .map(|item| item.split_whitespace().collect::<Vec<_>>().join(" "))
        .collect();
    for entry in fs::read_dir(root().join("crates"))? {
        let room = entry?;
        let name = room.file_name().to_string_lossy().into_owned();
        let start = format!("{name}`: ");
        let item = items.iter().find(|item| item.starts_with(&start));
        let item = item.with_context(|| format!("docs/design.md does not describe {name}"))?;
        let (_, uses) = item.rsplit_once(" Uses ").context(start)?;
        let uses: BTreeSet<String> = match uses.trim_end_matches('.') {
            "no other room" => BTreeSet::new(),
            "every room that has a target" => continue,
            uses => uses.split(", ").map(str::to_owned).collect(),
        };
        let manifest = rooms_of(&read(&room.path().join("Cargo.toml"))?);
        ensure!(uses == manifest, "{name} uses {manifest:?}, the page says {uses:?}");
    }
    Ok(())
}

/// Drop-ins that start the puller again once forgot it: then a pull that is refused for old
/// credentials is not tried again with those that came a moment ago.
#[test]
fn whatever_starts_the_puller_names_the_refresher() -> Result<()> {
    let mut folders = vec![root().join("deploy/guest")];
    let mut starts = 0;
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            // Lines that go on in the next one, in scripts, units and comments.
            let text = read(&path)?.replace("\\\n", " ").replace(",\n#", ", ");
            for line in text.lines() {
                if !line.contains("imagepuller serve") || !line.contains("--store") {
                    continue;
                }
                starts += 1;
                let socket = "unix:/run/initdata-processor/imagepuller.socket";
                assert!(
                    line.contains("--refresher") && line.contains(socket),
                    "{}: {line}",
                    path.display()
                );
            }
        }
    }
    assert!(starts >= 2, "{starts} in the units and the example");
    Ok(())
}

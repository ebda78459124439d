//! The pictures of the pages: they are what their texts say, some page shows each of them, and they
//! can be read on a light and on a dark page.

use std::collections::BTreeSet;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use end_to_end::pages::{files, pages, read, root};

/// What begins the colours of a dark page.
const DARK: &str = "@media (prefers-color-scheme: dark) {";

#[test]
fn every_picture_is_what_its_text_says() -> Result<()> {
    let output = Command::new("python3")
        .args(["hack/pictures", "--check"])
        .current_dir(root())
        .output()
        .context("failed to run python3")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{said}");
    Ok(())
}

#[test]
fn every_picture_is_shown_and_has_both_colour_schemes() -> Result<()> {
    let mut shown = BTreeSet::new();
    for page in pages()? {
        let text = read(&page)?;
        for (_, rest) in text.match_indices("![").map(|(at, _)| text.split_at(at)) {
            let (alternative, rest) = rest[2..].split_once("](").context("no picture")?;
            let (target, _) = rest.split_once(')').context("no picture")?;
            ensure!(!alternative.is_empty(), "{}: {target} has no words", page.display());
            shown.insert(page.with_file_name("").join(target).canonicalize()?);
        }
    }
    for picture in files(&root().join("docs"), "svg")? {
        let name = picture.display();
        ensure!(shown.contains(&picture.canonicalize()?), "no page shows {name}");
        check_colours(&read(&picture)?).with_context(|| name.to_string())?;
    }
    Ok(())
}

/// Everything that is drawn has a class, and each class with a colour has one for either page.
fn check_colours(svg: &str) -> Result<()> {
    ensure!(svg.contains("<title"), "no title");
    let (style, drawn) = svg.split_once("</style>").context("no style")?;
    let (light, dark) = style.split_once(DARK).context("no dark colours")?;
    let (light, dark) = (coloured(light), coloured(dark));
    ensure!(light == dark, "light: {light:?}, dark: {dark:?}");
    for attribute in ["fill=\"#", "stroke=\"#"] {
        ensure!(!drawn.contains(attribute), "a colour of its own");
    }
    for (at, _) in drawn.match_indices("class=\"") {
        let (classes, _) = drawn[at + 7..].split_once('"').context("cut off")?;
        let known = classes.split(' ').any(|class| class_has_colour(&light, class));
        let element = drawn[..at].rsplit('<').next().unwrap_or_default();
        let is_text = element.starts_with("text ");
        ensure!(known || is_text, "no colour of {classes}");
    }
    Ok(())
}

fn class_has_colour(coloured: &BTreeSet<&str>, class: &str) -> bool {
    coloured.contains(format!(".{class}").as_str())
}

/// The selectors whose rules name a colour.
fn coloured(rules: &str) -> BTreeSet<&str> {
    let rules = rules.lines().filter_map(|line| line.split_once('{'));
    let rules = rules.filter(|(_, rule)| rule.contains('#') && !rule.contains("#tip"));
    rules.map(|(selector, _)| selector.trim()).collect()
}

#[test]
fn a_picture_that_is_dark_on_dark_is_noticed() {
    let good = format!(
        "<svg><title>a</title><style>\n.a {{ fill: #fff; }}\n{DARK}\n.a {{ fill: #000; }}\n}}\n\
         </style><rect class=\"a\"/></svg>"
    );
    assert!(check_colours(&good).is_ok());
    for (from, to) in [
        (DARK, "@media print {"),
        ("\n.a { fill: #000; }", ""),
        ("class=\"a\"", "class=\"b\""),
        ("class=\"a\"", "fill=\"#222222\""),
        ("<title>a</title>", ""),
    ] {
        let bad = good.replace(from, to);
        assert_ne!(bad, good);
        assert!(check_colours(&bad).is_err(), "{bad}");
    }
}

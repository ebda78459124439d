//! The built command `kata-configdev import registries-conf` with tables for some repositories: the
//! guest asks where the engines would.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use std::sync::Arc;

use command::{Folder, importer};
use pull_route::{PlacedDocument, Route, Settings};
use puller_config::{Document, RegistryHost};

mod command;

/// Who is asked for an image, in order: address, and the repository's name there.
fn asked(document: &str, image: &str) -> Vec<String> {
    let document = Document::parse(document.as_bytes()).unwrap().document;
    let placed = PlacedDocument {
        document: Arc::new(document),
        path: "imagepuller.toml".into(),
        is_present: true,
    };
    let settings = Settings::new(PlacedDocument::default(), placed);
    let (host, repository) = image.split_once('/').unwrap();
    let plan = settings.plan(&RegistryHost::parse(host).unwrap(), repository);
    let plan = plan.unwrap();
    let Route { sources, .. } = plan.fill(None, None).unwrap();
    let shown = sources.iter().map(|source| {
        let name = source.repository.as_deref().unwrap_or(repository);
        format!("{}/{name}", source.host())
    });
    shown.collect()
}

const TABLES: &str = r#"
[[registry]]
prefix = "reg.corp/team"
location = "team.corp/cache/of"
[[registry.mirror]]
location = "near.corp"

[[registry]]
prefix = "reg.corp/o.p/s"
location = "reg.corp/moved"

[[registry]]
location = "reg.corp"
insecure = true

[[registry]]
prefix = "other.corp/team"
location = "other.corp/team"
[[registry.mirror]]
location = "m.corp:5000/team"
insecure = true
"#;

#[test]
fn tables_for_some_repositories_become_mirrors_with_a_prefix() {
    let folder = Folder::new();
    let file = folder.file("registries.conf", TABLES);
    let run = importer(&["hunter2"]).run(&["import", "registries-conf", &file]);
    run.ends(0);
    for (image, expected) in [
        (
            "reg.corp/team/app",
            &["near.corp/app", "team.corp/cache/of/app"][..],
        ),
        (
            "reg.corp/team/a/b",
            &["near.corp/a/b", "team.corp/cache/of/a/b"],
        ),
        // Whole segments only, and a dot is a dot.
        ("reg.corp/teams/app", &["reg.corp/teams/app"]),
        ("reg.corp/o.p/s/app", &["reg.corp/moved/app"]),
        ("reg.corp/oxp/s/app", &["reg.corp/oxp/s/app"]),
        ("reg.corp/app", &["reg.corp/app"]),
        (
            "other.corp/team/app",
            &["m.corp:5000/team/app", "other.corp/team/app"],
        ),
        ("other.corp/app", &["other.corp/app"]),
    ] {
        assert_eq!(
            asked(&run.stdout, image),
            expected,
            "{image} by {}",
            run.stdout
        );
    }
    run.prints(&["[registries.\"m.corp:5000\"]\ninsecure-skip-verify = true\n"]);
}

/// Rows: a table that a document cannot say beside the one of `reg.corp/team`, and why.
#[test]
fn what_a_mirror_cannot_say_is_left_out_with_its_reason() {
    let many = "[[registry.mirror]]\nlocation = \"m.corp\"\n".repeat(9);
    for (other, expected) in [
        (
            "prefix = \"reg.corp/team/app\"\nlocation = \"a.corp\"\n",
            "below the prefix of another",
        ),
        (
            "prefix = \"*.corp\"\ninsecure = true\n",
            "a table for a whole domain",
        ),
        (
            "location = \"reg.corp\"\n[[registry.mirror]]\nlocation = \"m.corp\"\n",
            "the table of the whole host has other places",
        ),
        (
            "location = \"reg.corp\"\nblocked = true\n",
            "the table of the whole host",
        ),
        (
            "prefix = \"reg.corp/b\"\nlocation = \"reg.corp/b\"\n",
            "only some of the host's tables",
        ),
        (
            "prefix = \"reg.corp/b\"\nlocation = \"b.corp\"\nblocked = true\n",
            "blocks whole hosts",
        ),
        (
            "prefix = \"reg.corp:443/b\"\nlocation = \"b.corp\"\n",
            "engines take \":443\" for another name",
        ),
        (
            "prefix = \"reg.corp/b\"\nlocation = \"https://b.corp\"\n",
            "one of its places cannot be",
        ),
        (
            &format!("prefix = \"reg.corp/b\"\nlocation = \"b.corp\"\n{many}"),
            "at most eight mirrors",
        ),
    ] {
        let folder = Folder::new();
        let text = format!(
            "[[registry]]\nprefix = \"reg.corp/team\"\nlocation = \"team.corp\"\n\n\
             [[registry]]\n{other}"
        );
        let file = folder.file("registries.conf", text);
        let arguments = ["import", "registries-conf", "--allow-empty", &file];
        let run = importer(&["hunter2"]).run(&arguments);
        run.ends(0);
        run.says(&[
            "reg.corp/team: left out: it is for some repositories, and ",
            expected,
        ]);
        assert!(!run.stdout.contains("prefix"), "{}", run.stdout);
        let strict = [&arguments[..], &["--strict"]].concat();
        importer(&["hunter2"]).run(&strict).ends(65);
    }
}

//! The built command `kata-configdev import` with mirrors that have repositories under other names:
//! `explain` shows that the guest asks where the container runtime would.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use command::{Folder, Run, importer};

mod command;

/// Who is asked for an image, in order, each as its URL up to the repository's name.
fn asked(document: &str, image: &str) -> Vec<String> {
    let folder = Folder::new();
    let path = folder.file("imagepuller.toml", document);
    let run = importer(&["hunter2"]).run(&["explain", "--json", "--config", &path, image]);
    run.ends(0);
    let (_, repository) = image.split_once('/').unwrap();
    let json = run.json();
    let further = json["further_mirrors"].as_array().into_iter().flatten();
    let sources = [&json["mirror"]].into_iter().chain(further);
    let asked = sources.chain([&json["registry"]]);
    let asked = asked.filter(|source| source["asked"] == true);
    let shown = asked.map(|source| {
        let name = source["repository"].as_str().unwrap_or(repository);
        format!("{}/v2/{name}", source["url"].as_str().unwrap())
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
            &[
                "https://near.corp/v2/app",
                "https://team.corp/v2/cache/of/app",
            ][..],
        ),
        (
            "reg.corp/team/a/b",
            &[
                "https://near.corp/v2/a/b",
                "https://team.corp/v2/cache/of/a/b",
            ],
        ),
        // Whole segments only, and a dot is a dot.
        ("reg.corp/teams/app", &["https://reg.corp/v2/teams/app"]),
        ("reg.corp/o.p/s/app", &["https://reg.corp/v2/moved/app"]),
        ("reg.corp/oxp/s/app", &["https://reg.corp/v2/oxp/s/app"]),
        ("reg.corp/app", &["https://reg.corp/v2/app"]),
        (
            "other.corp/team/app",
            &[
                "https://m.corp:5000/v2/team/app",
                "https://other.corp/v2/team/app",
            ],
        ),
        ("other.corp/app", &["https://other.corp/v2/app"]),
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

/// Harbor's and Zot's proxy caches are projects in the path of containerd's hosts. Such a host was
/// left out, and guests asked Docker Hub itself. Rows: hosts.toml of docker.io, or registries.yaml,
/// and who is asked.
#[test]
fn a_project_in_the_path_is_asked_where_containerd_asks() {
    let hosts = |address: &str| {
        let text = format!("[host.\"{address}\"]\noverride_path = true\n");
        ("certs.d/docker.io/hosts.toml", text)
    };
    let k3s = |address: &str, more: &str| {
        let text = format!("mirrors:\n  docker.io:\n    endpoint: [\"{address}\"]\n{more}");
        ("registries.yaml", text)
    };
    let hub = "https://registry-1.docker.io/v2/library/nginx";
    let rules = "    rewrite: {\"^library/(.*)\": \"official/$1\"}\n";
    for ((name, text), expected) in [
        (
            hosts("https://harbor.corp/v2/hub"),
            &["https://harbor.corp/v2/hub/library/nginx", hub],
        ),
        (
            hosts("https://harbor.corp:8443/v2/a/b/"),
            &["https://harbor.corp:8443/v2/a/b/library/nginx", hub],
        ),
        (
            hosts("http://zot.corp/x/v2/hub"),
            &["http://zot.corp/x/v2/hub/library/nginx", hub],
        ),
        (
            hosts("https://m.corp/v2/v2/hub"),
            &["https://m.corp/v2/v2/hub/library/nginx", hub],
        ),
        (
            hosts("https://m.corp/v2"),
            &["https://m.corp/v2/library/nginx", hub],
        ),
        (
            hosts("https://m.corp/x/v2/"),
            &["https://m.corp/x/v2/library/nginx", hub],
        ),
        (
            k3s("https://harbor.corp/v2/hub", ""),
            &["https://harbor.corp/v2/hub/library/nginx", hub],
        ),
        (
            k3s("https://m.corp/x/v2/hub", ""),
            &["https://m.corp/x/v2/hub/library/nginx", hub],
        ),
        (
            k3s("https://m.corp/v2", ""),
            &["https://m.corp/v2/library/nginx", hub],
        ),
        (
            k3s("https://m.corp/v2/hub", rules),
            &["https://m.corp/v2/hub/official/nginx", hub],
        ),
        (
            k3s("https://m.corp/v2/hub", &rules.replace("library", "team")),
            &["https://m.corp/v2/hub/library/nginx", hub],
        ),
    ] {
        let run = import(name, &text, &["--strict"]);
        run.ends(0);
        assert_eq!(
            asked(&run.stdout, "docker.io/library/nginx"),
            expected,
            "{text}"
        );
    }
    // The registry itself is another place.
    let moved = (
        "certs.d/reg.corp/hosts.toml",
        "server = \"https://zot.corp/v2/reg\"\noverride_path = true\n",
    );
    let run = import(moved.0, moved.1, &["--strict"]);
    assert_eq!(
        asked(&run.stdout, "reg.corp/app"),
        ["https://zot.corp/v2/reg/app"]
    );
}

fn import(name: &str, text: &str, options: &[&str]) -> Run {
    let folder = Folder::new();
    folder.file(name, text);
    let (command, path) = match name.split_once('/') {
        Some((command, _)) => (command, folder.text(command)),
        None => ("registries-yaml", folder.text(name)),
    };
    importer(&["hunter2"]).run(&[&["import", command], options, &[&path]].concat())
}

/// An entry without its only mirror sends guests to the public registry, which no node of a closed
/// network asks; and an `Authorization` header went without a word.
#[test]
fn a_registry_that_lost_its_only_mirror_is_forbidden() {
    let header = "header = {Authorization = \"Basic cm9ib3Q6aHVudGVyMg==\"}\n";
    let host =
        |address: &str, more: &str| format!("[host.\"{address}\"]\noverride_path = true\n{more}");
    let server = "server = \"https://registry-1.docker.io\"\n";
    let lost = host("https://harbor.corp/artifactory/hub", header);
    let other = host("https://harbor.corp/v2/hub", "");
    let third = "rewrite = {\"a|b\" = \"c\"}\n";
    for (text, is_forbidden) in [
        (lost.clone(), true),
        (format!("{server}{lost}"), true),
        (host("https://harbor.corp/v2/Hub", header), true),
        (
            host("https://harbor.corp/v2/hub", &format!("{third}{header}")),
            true,
        ),
        (format!("{lost}{other}"), false),
    ] {
        let run = import("certs.d/docker.io/hosts.toml", &text, &[]);
        run.ends(0);
        run.says(&["left out: ", "its credentials are left out with it"]);
        let forbids = run.stdout.contains("ca-certs = \"forbidden: ");
        assert_eq!(forbids, is_forbidden, "{text}{}", run.stdout);
        if is_forbidden {
            run.says(&["docker.io is forbidden: the imported file has a mirror asked first"]);
        }
        let strict = import("certs.d/docker.io/hosts.toml", &text, &["--strict"]);
        strict.fails(65, &["left out: "]);
    }
    let yaml = "mirrors:\n  docker.io:\n    endpoint: [\"https://m.corp/api\"]\n";
    let run = import("registries.yaml", yaml, &[]);
    run.prints(&["[registries.\"docker.io\"]\nca-certs = \"forbidden: "]);
    import("registries.yaml", yaml, &["--strict"]).ends(65);

    // The mirror's own directory says that it is not asked over plain HTTP.
    let folder = Folder::new();
    folder.file(
        "certs.d/docker.io/hosts.toml",
        "[host.\"http://m.corp:5000\"]\n",
    );
    folder.file(
        "certs.d/m.corp_5000_/hosts.toml",
        "server = \"https://m.corp:5000\"\n",
    );
    let run = importer(&["hunter2"]).run(&["import", "certs.d", &folder.text("certs.d")]);
    run.prints(&["[registries.\"docker.io\"]\nca-certs = \"forbidden: "]);
}

//! The built command `kata-configdev import` with mirrors that have repositories under other names:
//! `explain` shows that the guest asks where the container runtime would.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use command::{Folder, Run, importer};

use crate::command;

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
            &["https://near.corp/v2/app", "https://team.corp/v2/cache/of/app"][..],
        ),
        ("reg.corp/team/a/b", &["https://near.corp/v2/a/b", "https://team.corp/v2/cache/of/a/b"]),
        // Whole segments only, and a dot is a dot.
        ("reg.corp/teams/app", &["https://reg.corp/v2/teams/app"]),
        ("reg.corp/o.p/s/app", &["https://reg.corp/v2/moved/app"]),
        ("reg.corp/oxp/s/app", &["https://reg.corp/v2/oxp/s/app"]),
        ("reg.corp/app", &["https://reg.corp/v2/app"]),
        (
            "other.corp/team/app",
            &["https://m.corp:5000/v2/team/app", "https://other.corp/v2/team/app"],
        ),
        ("other.corp/app", &["https://other.corp/v2/app"]),
    ] {
        assert_eq!(asked(&run.stdout, image), expected, "{image} by {}", run.stdout);
    }
    run.prints(&["[registries.\"m.corp:5000\"]\ninsecure-skip-verify = true\n"]);
}

/// Rows: a table that a document cannot say beside the one of `reg.corp/team`, why, and whether
/// that one stays.
#[test]
fn what_a_mirror_cannot_say_is_left_out_by_itself_with_its_reason() {
    let mirror = "[[registry.mirror]]\nlocation = \"m.corp\"\n";
    let many = mirror.repeat(9);
    for (other, expected, stays) in [
        (
            "prefix = \"reg.corp/team/app\"\nlocation = \"a.corp\"\n",
            "below the prefix of another",
            true,
        ),
        ("prefix = \"*.corp\"\ninsecure = true\n", "a table for a whole domain", false),
        (
            &format!("location = \"reg.corp\"\n{mirror}"),
            "the table of the whole host has other places",
            false,
        ),
        ("location = \"reg.corp\"\nblocked = true\n", "the table of the whole host", false),
        (
            &format!("location = \"reg.corp/b\"\ninsecure = true\n{mirror}"),
            "the registry itself is reached in one way",
            true,
        ),
        (
            "prefix = \"reg.corp/b\"\nlocation = \"b.corp\"\nblocked = true\n",
            "blocks whole hosts",
            true,
        ),
        (
            &format!(
                "location = \"reg.corp/b\"\nblocked = true\n{mirror}pull-from-mirror = \
                \"tag-only\"\n"
            ),
            "blocks whole hosts",
            true,
        ),
        (
            "prefix = \"reg.corp:443/b\"\nlocation = \"b.corp\"\n",
            "engines take \":443\" for another name",
            true,
        ),
        (
            "prefix = \"reg.corp/b\"\nlocation = \"https://b.corp\"\n",
            "one of its places cannot be",
            true,
        ),
        (
            &format!("prefix = \"reg.corp/b\"\nlocation = \"b.corp\"\n{many}"),
            "at most eight mirrors",
            true,
        ),
    ] {
        let folder = Folder::new();
        let team = "[[registry]]\nprefix = \"reg.corp/team\"\nlocation = \"team.corp\"\n\n";
        // The first of the file has no precedence.
        for text in [format!("{team}[[registry]]\n{other}"), format!("[[registry]]\n{other}{team}")]
        {
            let file = folder.file("registries.conf", text);
            let arguments = ["import", "registries-conf", "--allow-empty", &file];
            let run = importer(&["hunter2"]).run(&arguments);
            run.ends(0);
            run.says(&["left out: it is for some repositories, and ", expected]);
            if stays {
                assert_eq!(asked(&run.stdout, "reg.corp/team/x"), ["https://team.corp/v2/x"]);
            }
            let prefixes = run.stdout.matches("prefix").count();
            assert_eq!(prefixes, usize::from(stays), "{}", run.stdout);
            let strict = [&arguments[..], &["--strict"]].concat();
            importer(&["hunter2"]).run(&strict).ends(65);
        }
    }
}

/// Rows: a table that takes no mirror's name away from others, for it says nothing, or is left out
/// itself; and who is asked for what is below it, or beside it.
#[test]
fn a_table_without_places_stands_in_no_other_ones_way() {
    let table = |name: &str, more: &str| format!("[[registry]]\nlocation = \"{name}\"\n{more}");
    let mirror = |count: usize| "[[registry.mirror]]\nlocation = \"m.corp\"\n".repeat(count);
    let tag_only = format!("{}pull-from-mirror = \"tag-only\"\n", mirror(1));
    let blocked_below = format!("blocked = true\n{}", mirror(1));
    for (first, second, image, count) in [
        (
            table("reg.corp/team", ""),
            table("reg.corp/team/app", &mirror(1)),
            "reg.corp/team/app/x",
            2,
        ),
        (
            table("reg.corp/team", &tag_only),
            table("reg.corp/team/app", &mirror(1)),
            "reg.corp/team/app/x",
            2,
        ),
        // The registry itself is no ninth mirror, for no table that stays is blocked.
        (
            table("reg.corp/team", &mirror(8)),
            table("reg.corp/team/app", &blocked_below),
            "reg.corp/team/x",
            9,
        ),
    ] {
        let folder = Folder::new();
        let file = folder.file("registries.conf", format!("{first}{second}"));
        let run = importer(&["hunter2"]).run(&["import", "registries-conf", &file]);
        run.ends(0);
        let asked = asked(&run.stdout, image);
        assert_eq!(asked.len(), count, "{asked:?} by {}{}", run.stdout, run.stderr);
    }
}

/// How a table of a disconnected cluster ends.
#[derive(Clone, Copy)]
enum End {
    /// At the registry itself.
    Here,
    /// At its mirrors.
    Blocked,
    /// At another location.
    Moved,
}

/// The tables that OpenShift's machine operator writes, one for each namespace of a registry.
fn openshift(host: &str, ends: &[End]) -> String {
    let table = |(number, end): (usize, &End)| {
        let keys = match end {
            End::Here => format!("prefix = \"\"\nlocation = \"{host}/ns{number}\"\n"),
            End::Blocked => format!("location = \"{host}/ns{number}\"\nblocked = true\n"),
            End::Moved => format!("prefix = \"{host}/ns{number}\"\nlocation = \"moved.corp\"\n"),
        };
        format!(
            "[[registry]]\n{keys}[[registry.mirror]]\n\
             location = \"mirror.corp:8443/x/ns{number}\"\n\
             pull-from-mirror = \"digest-only\"\n"
        )
    };
    ends.iter().enumerate().map(table).collect()
}

/// From nine tables of one host on, none was taken, and of nine that differ in `blocked` none
/// either.
#[test]
fn a_disconnected_clusters_tables_are_all_taken() {
    use End::{Blocked, Here, Moved};
    let mixed = [Here, Blocked, Here, Moved].repeat(10);
    for (host, ends) in [
        ("registry.redhat.io", &[Here; 9][..]),
        ("registry.redhat.io", &[Blocked; 9]),
        ("registry.redhat.io", &[Here; 40]),
        ("registry.redhat.io", &[Blocked; 40]),
        ("registry.redhat.io", &mixed),
        ("docker.io", &mixed[..9]),
    ] {
        let folder = Folder::new();
        let file = folder.file("registries.conf", openshift(host, ends));
        let run = importer(&["hunter2"]).run(&["import", "registries-conf", "--strict", &file]);
        run.ends(0);
        let server = host.replace("docker.io", "registry-1.docker.io");
        for (number, end) in ends.iter().enumerate() {
            let mut expected = vec![format!("https://mirror.corp:8443/v2/x/ns{number}/app")];
            match end {
                Here => expected.push(format!("https://{server}/v2/ns{number}/app")),
                Blocked => {}
                Moved => expected.push("https://moved.corp/v2/app".to_owned()),
            }
            let image = format!("{host}/ns{number}/app");
            assert_eq!(asked(&run.stdout, &image), expected, "{}", run.stdout);
        }
        let other = asked(&run.stdout, &format!("{host}/other/app"));
        assert_eq!(other, [format!("https://{server}/v2/other/app")]);
    }
}

/// As the last mirror the registry itself was asked with the credentials of its host's entry.
#[test]
fn the_registry_as_last_mirror_has_the_credentials_for_the_repository() {
    let folder = Folder::new();
    let file = folder.file("registries.conf", openshift("reg.corp", &[End::Here, End::Blocked]));
    let run = importer(&["hunter2"]).run(&["import", "registries-conf", "--strict", &file]);
    run.ends(0);
    let entry = |name: &str, user: &str| {
        format!("[registries.\"{name}\"]\nusername = \"{user}\"\npassword = \"hunter2\"\n")
    };
    let whole = "[registries.\"reg.corp\"]\n";
    let document = run.stdout.replace(whole, &entry("reg.corp", "host"));
    let document = format!("{}\n{document}", entry("reg.corp/ns0", "ns0"));
    let path = folder.file("imagepuller.toml", document);
    let image = "reg.corp/ns0/app";
    let run = importer(&["hunter2"]).run(&["explain", "--config", &path, image]);
    run.ends(0);
    run.prints(&[
        "https://reg.corp is asked next, by its own entry \"reg.corp\": credentials user name and \
         password, user \"ns0\"",
    ]);
}

/// The pull secret of such a cluster has credentials for both hosts. All were refused, those of the
/// registry because the mirror would have been sent them.
#[test]
fn a_disconnected_clusters_pull_secret_can_be_added() {
    let folder = Folder::new();
    let host = "registry.redhat.io";
    let file = folder.file("registries.conf", openshift(host, &[End::Here, End::Blocked]));
    let tables = importer(&["hunter2"]).run(&["import", "registries-conf", "--strict", &file]);
    tables.ends(0);
    let document = folder.file("imagepuller.toml", &tables.stdout);
    let auth = "{\"auth\":\"cm9ib3Q6aHVudGVyMg==\"}";
    let auths = format!("{{\"auths\":{{\"{host}\":{auth},\"mirror.corp:8443\":{auth}}}}}");
    let secret = folder.file("pull-secret.json", auths);
    let arguments = ["import", "docker-config", "--strict", "--into", &document, &secret];
    let run = importer(&["hunter2"]).run(&arguments);
    run.ends(0);
    assert_eq!(run.stdout.matches("\"robot\"").count(), 2, "{}", run.stdout);
    // Another registry's tables, with the same mirror.
    let file = folder.file("other.conf", openshift("quay.io", &[End::Here]));
    let arguments = ["import", "registries-conf", "--strict", "--into"];
    let run = importer(&["hunter2"]).run(&[&arguments[..], &[&document, &file]].concat());
    run.ends(0);
}

/// The entry that only keeps credentials from a mirror: a later table that says more of the mirror
/// lost that, and an entry of the document that holds for it made a loss of it.
#[test]
fn an_empty_entry_of_a_mirror_stands_in_nobodys_way() {
    let folder = Folder::new();
    let table = |host: &str, more: &str| {
        let mirror = format!("[[registry.mirror]]\nlocation = \"mirror.lab\"\n{more}\n");
        format!("[[registry]]\nlocation = \"{host}\"\n{mirror}")
    };
    let text = table("a.corp", "") + &table("b.corp", "insecure = true");
    let file = folder.file("both.conf", text);
    let run = importer(&[]).run(&["import", "registries-conf", &file]);
    run.ends(0);
    let said = "[registries.\"mirror.lab\"]\ninsecure-skip-verify = true\n";
    assert!(run.stdout.contains(said), "{run:?}");

    let file = folder.file("one.conf", table("a.corp", ""));
    for (entry, code) in [("mirror.lab", 0), (".lab", 0), ("other.corp", 0), ("a.corp", 65)] {
        let text = format!("[registries.\"{entry}\"]\nca-certs = \"web-roots\"\n");
        let document = folder.file("imagepuller.toml", text);
        let arguments = ["import", "registries-conf", "--strict", "--into", &document, &file];
        importer(&[]).run(&arguments).ends(code);
    }
}

/// The table that is one too many is named, and the others stay.
#[test]
fn a_registry_has_256_mirrors_and_a_repository_eight() {
    let import = |text: String, is_strict: bool| {
        let folder = Folder::new();
        let file = folder.file("registries.conf", text);
        let strict = ["--strict"].iter().filter(|_| is_strict).copied();
        let arguments = ["import", "registries-conf"].into_iter().chain(strict);
        importer(&["hunter2"]).run(&arguments.chain([&*file]).collect::<Vec<_>>())
    };
    let [most, more] = [256, 257].map(|count| openshift("reg.corp", &vec![End::Here; count]));
    import(most, true).ends(0);
    import(more.clone(), true).ends(65);
    let run = import(more, false);
    run.ends(0);
    run.says(&["registry[256] reg.corp/ns256: left out", "at most 256 mirrors"]);
    let last = asked(&run.stdout, "reg.corp/ns255/app");
    assert_eq!(last[0], "https://mirror.corp:8443/v2/x/ns255/app");
    assert_eq!(asked(&run.stdout, "reg.corp/ns256/app"), ["https://reg.corp/v2/ns256/app"]);

    let mirror = "[[registry.mirror]]\nlocation = \"m.corp\"\n";
    let table = |count: usize| {
        let blocked = openshift("reg.corp", &[End::Here]);
        format!("{blocked}[[registry]]\nlocation = \"reg.corp/b\"\n{}", mirror.repeat(count))
    };
    let run = import(table(8), true);
    assert_eq!(asked(&run.stdout, "reg.corp/b/app").len(), 9);
    import(table(9), true).ends(65);
    let run = import(table(9), false);
    run.says(&["registry[1] reg.corp/b: left out", "at most eight mirrors"]);
    assert_eq!(asked(&run.stdout, "reg.corp/ns0/app").len(), 2);
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
        (hosts("https://harbor.corp/v2/hub"), &["https://harbor.corp/v2/hub/library/nginx", hub]),
        (
            hosts("https://harbor.corp:8443/v2/a/b/"),
            &["https://harbor.corp:8443/v2/a/b/library/nginx", hub],
        ),
        (hosts("http://zot.corp/x/v2/hub"), &["http://zot.corp/x/v2/hub/library/nginx", hub]),
        (hosts("https://m.corp/v2/v2/hub"), &["https://m.corp/v2/v2/hub/library/nginx", hub]),
        (hosts("https://m.corp/v2"), &["https://m.corp/v2/library/nginx", hub]),
        (hosts("https://m.corp/x/v2/"), &["https://m.corp/x/v2/library/nginx", hub]),
        (k3s("https://harbor.corp/v2/hub", ""), &["https://harbor.corp/v2/hub/library/nginx", hub]),
        (k3s("https://m.corp/x/v2/hub", ""), &["https://m.corp/x/v2/hub/library/nginx", hub]),
        (k3s("https://m.corp/v2", ""), &["https://m.corp/v2/library/nginx", hub]),
        (k3s("https://m.corp/v2/hub", rules), &["https://m.corp/v2/hub/official/nginx", hub]),
        (
            k3s("https://m.corp/v2/hub", &rules.replace("library", "team")),
            &["https://m.corp/v2/hub/library/nginx", hub],
        ),
    ] {
        let run = import(name, &text, &["--strict"]);
        run.ends(0);
        assert_eq!(asked(&run.stdout, "docker.io/library/nginx"), expected, "{text}");
    }
    // The registry itself is another place.
    let moved = (
        "certs.d/reg.corp/hosts.toml",
        "server = \"https://zot.corp/v2/reg\"\noverride_path = true\n",
    );
    let run = import(moved.0, moved.1, &["--strict"]);
    assert_eq!(asked(&run.stdout, "reg.corp/app"), ["https://zot.corp/v2/reg/app"]);
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

/// A project on the registry's own host lost the host's CA and header. Rows: whether another mirror
/// is asked first, and the settings of the project.
#[test]
fn a_project_of_the_registrys_own_host_keeps_the_settings_of_the_host() {
    let header = "header = {Authorization = \"Basic cm9ib3Q6aHVudGVyMg==\"}\n";
    let server = "server = \"https://harbor.corp/v2/hub\"\noverride_path = true\n";
    let near = "[host.\"https://near.corp\"]\n";
    for (settings, more, expected) in [
        (header, "", "username = \"robot\"\npassword = \"hunter2\"\n"),
        (header, near, "username = \"robot\"\npassword = \"hunter2\"\n"),
        ("skip_verify = true\n", "", "insecure-skip-verify = true\n"),
    ] {
        let text = format!("{server}{settings}{more}");
        let run = import("certs.d/harbor.corp/hosts.toml", &text, &["--strict"]);
        run.ends(0);
        let (_, entry) = run.stdout.split_once("[registries.\"harbor.corp\"]\n").unwrap();
        let entry = entry.split("[registries").next().unwrap();
        assert!(entry.contains(expected), "{entry}");
        let last = asked(&run.stdout, "harbor.corp/app").pop().unwrap();
        assert_eq!(last, "https://harbor.corp/v2/hub/app");
        // They are for nobody else.
        assert_eq!(run.stdout.matches("robot").count(), usize::from(settings == header));
        assert_eq!(run.stdout.contains("\"near.corp\"]"), !more.is_empty());
    }
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
        (host("https://harbor.corp/v2/hub", &format!("{third}{header}")), true),
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
    folder.file("certs.d/docker.io/hosts.toml", "[host.\"http://m.corp:5000\"]\n");
    folder.file("certs.d/m.corp_5000_/hosts.toml", "server = \"https://m.corp:5000\"\n");
    let run = importer(&["hunter2"]).run(&["import", "certs.d", &folder.text("certs.d")]);
    run.prints(&["[registries.\"docker.io\"]\nca-certs = \"forbidden: "]);
}

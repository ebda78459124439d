//! `kata-configdev explain`: the entry that wins, exactly, and what it says about the pull.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use crate::command;
mod keys;
mod of_node;

use command::{Folder, run};
use serde_json::{Value, json};

const DOCUMENT: &str = "\
[extra-env]
HTTPS_PROXY = \"http://proxy-user:hunter2-proxy@proxy.corp:3128\"
NO_PROXY = \".internal,10.0.0.0/8\"

[registries.\"Registry.corp\"]
username = \"robot\"
password = \"hunter2-password\"

[registries.\"registry.corp:5000\"]
registrytoken = \"hunter2-token\"
plain-http = true

[registries.\".corp.\"]
auth = \"cHVsbGVyOmh1bnRlcjItYXV0aA==\"

[registries.\".deep.corp\"]
insecure-skip-verify = true

[registries.\"192.0.2.1\"]
ca-certs = \"none\"

[registries.\"[::1]:5000\"]

[registries.\"example.com\"]
identitytoken = \"hunter2-identity\"

[registries.\"index.docker.io\"]
username = \"hub\"
password = \"hunter2-password\"
mirror = \"https://mirror.example/hub\"
mirror-fallback = true

[registries.\"quay.io\"]
username = \"quay\"
password = \"hunter2-password\"
mirror = \"http://mirror.corp:5000\"

[registries.\"mirror.corp:5000\"]
plain-http = true
";

fn explain(document: &str, image: &str) -> (String, Value) {
    let folder = Folder::new();
    let path = folder.file("document.toml", document);
    let text = run(&["explain", "--config", &path, image]);
    assert_eq!((text.code, text.stderr.as_str()), (0, ""), "{image}");
    let json = run(&["explain", "--json", "--config", &path, image]);
    assert_eq!((json.code, json.stderr.as_str()), (0, ""), "{image}");
    (text.stdout.replace(&path, "document.toml"), json.json())
}

#[test]
fn the_first_line_is_the_winning_key_as_written() {
    for (image, first, rule) in [
        ("registry.corp/app", "Registry.corp", "literal"),
        ("registry.corp:443/app", "Registry.corp", "literal"),
        ("registry.corp:5000/team/app:1.2", "registry.corp:5000", "literal with port"),
        ("REGISTRY.corp:80/app", "Registry.corp", "literal"),
        ("sub.registry.corp/app", ".corp.", "suffix"),
        ("a.deep.corp/app", ".deep.corp", "suffix"),
        ("deep.corp/app", ".corp.", "suffix"),
        ("192.0.2.1/app", "192.0.2.1", "literal"),
        ("192.0.2.1:5000/app", "192.0.2.1", "literal"),
        ("192.0.2.2/app", "(defaults)", "defaults"),
        // GHSA-6c87-g9pw-78fx: names that merely end or begin alike.
        ("example.com/app", "example.com", "literal"),
        ("notexample.com/app", "(defaults)", "defaults"),
        ("evil.example.com/app", "(defaults)", "defaults"),
        ("example.com.evil.org/app", "(defaults)", "defaults"),
        ("evilcorp.example/app", "(defaults)", "defaults"),
        ("alpine", "index.docker.io", "literal"),
        ("team/app:1", "index.docker.io", "literal"),
        ("docker.io/library/alpine", "index.docker.io", "literal"),
        ("registry-1.docker.io/team/app", "index.docker.io", "literal"),
        ("auth.docker.io/team/app", "(defaults)", "defaults"),
        ("localhost:5000/app", "(defaults)", "defaults"),
    ] {
        let (text, json) = explain(DOCUMENT, image);
        assert_eq!(text.lines().next().unwrap(), first, "{image}");
        assert_eq!(json["rule"], rule, "{image}");
        if first == "(defaults)" {
            assert_eq!(json["key"], Value::Null, "{image}");
        } else {
            assert_eq!(json["key"], first, "{image}");
        }
    }
    let (text, json) = explain("[registries.\".\"]\n", "192.0.2.1/app");
    assert_eq!(text.lines().next().unwrap(), ".");
    assert_eq!(json["rule"], "everything");
    let (text, _) = explain("", "registry.corp/app");
    assert_eq!(text.lines().next().unwrap(), "(defaults)");
}

#[test]
fn the_entry_for_the_repository_is_named_beside_that_of_the_host() {
    let login = |user: &str| format!("username = \"{user}\"\npassword = \"hunter2\"\n");
    let document = format!(
        "[registries.\".corp\"]\n{}plain-http = true\n[registries.\"r.corp/team\"]\n{}\
         [registries.\"R.corp/team/app\"]\n{}",
        login("host"),
        login("team"),
        login("app")
    );
    for (image, access, user) in [
        ("r.corp/team/app/x", Some("R.corp/team/app"), "app"),
        ("r.corp/team/other", Some("r.corp/team"), "team"),
        ("r.corp/team-b/app", None, "host"),
        ("sub.r.corp/team/app", None, "host"),
    ] {
        let (text, json) = explain(&document, image);
        assert_eq!(text.lines().next().unwrap(), ".corp", "{image}");
        assert_eq!(json["credentials_key"].as_str(), access, "{image}");
        assert_eq!(json["credentials"]["username"], user, "{image}");
        assert_eq!(json["registry"]["credentials"]["username"], user, "{image}");
        assert_eq!(json["registry"]["plain_http"], true, "{image}");
        assert_eq!(text.contains("\naccount     \""), access.is_some(), "{text}");
    }
    let (text, json) = explain(&document, "r.corp/team/app");
    let loser = &json["also_matching"][0];
    assert_eq!((&loser["key"], &loser["rule"]), (&"r.corp/team".into(), &"repositories".into()));
    assert!(text.contains("loses       \"r.corp/team\": an entry for more of the"), "{text}");
    // There need be no entry for the host.
    let alone = format!("[registries.\"r.corp/team\"]\n{}", login("team"));
    let (text, json) = explain(&alone, "r.corp/team/app");
    assert_eq!(text.lines().next().unwrap(), "(defaults)");
    assert_eq!(json["credentials"]["username"], "team");
}

/// The owner's entry says how, the host's who: `explain` names both, and nobody as a loser.
#[test]
fn the_owners_way_and_the_hosts_account_are_told_apart() {
    let folder = Folder::new();
    let host = "[registries.\"r.corp\"]\nusername = \"robot\"\npassword = \"hunter2\"\n\
        plain-http = true\n[registries.\".\"]\n";
    let config = folder.file("imagepuller.toml", host);
    for (owner, account) in [("", Some("r.corp")), ("anonymous = true\n", None)] {
        let owner = format!("[registries.\".corp\"]\n{owner}");
        let measured = folder.file("measured.toml", &owner);
        let arguments = ["explain", "--config", &config, "--measured", &measured];
        let text = run(&[&arguments[..], &["r.corp/app"]].concat()).stdout;
        let json = run(&[&arguments[..], &["--json", "r.corp/app"]].concat()).json();
        assert_eq!(json["key"], ".corp");
        assert_eq!(json["credentials_key"].as_str(), account);
        assert_eq!(json["registry"]["plain_http"], false);
        let why = "account     entry \"r.corp.\" says who the puller is, because measured entry \
            \".corp.\" says nothing of that\n";
        assert_eq!(text.contains(why), account.is_some(), "{text}");
        let wants_none = "measured entry \".corp.\" wants none (\"anonymous = true\")";
        assert_eq!(text.contains(wants_none), account.is_none(), "{text}");
        let losers = json["also_matching"].as_array().unwrap();
        let losers: Vec<_> = losers.iter().map(|loser| loser["key"].as_str().unwrap()).collect();
        let expected = match account {
            Some(_) => vec!["."],
            None => vec!["r.corp", "."],
        };
        assert_eq!(losers, expected, "{text}");
    }
}

#[test]
fn losers_are_named_in_their_order() {
    let (text, json) = explain(DOCUMENT, "registry.corp:5000/app");
    let keys: Vec<_> = json["also_matching"]
        .as_array()
        .unwrap()
        .iter()
        .map(|loser| loser["key"].as_str().unwrap())
        .collect();
    assert_eq!(keys, ["Registry.corp", ".corp."]);
    assert!(
        text.contains("loses       \"Registry.corp\": the name with the port is more specific\n"),
        "{text}"
    );
    let everything = "[registries.\".\"]\n[registries.\".corp\"]\n";
    let (_, json) = explain(everything, "registry.corp/app");
    assert_eq!(json["also_matching"][0]["rule"], "everything");
}

/// A row of the text without its label.
fn row<'a>(text: &'a str, label: &str) -> &'a str {
    let mut rows = text.lines().skip(1);
    let row = rows.find(|line| line.split_whitespace().next() == Some(label));
    row.unwrap_or_else(|| panic!("no {label} in {text}"))[label.len()..].trim_start()
}

#[test]
fn what_follows_is_told_without_secrets() {
    for (image, label, expected) in [
        ("registry.corp/app", "credentials", "user name and password, user \"robot\""),
        ("a.corp/app", "credentials", "user name and password, user \"puller\""),
        ("registry.corp:5000/app", "credentials", "bearer token (registrytoken)"),
        ("example.com/app", "credentials", "OAuth2 refresh token (identitytoken)"),
        (
            "other.org/app",
            "credentials",
            "none, the pull is anonymous: no entry of document.toml matches this host",
        ),
        (
            "other.org/app",
            "roots",
            "the web's public roots: no entry of document.toml matches this host",
        ),
        (
            "evil.example.com/app",
            "roots",
            "the web's public roots: no entry of document.toml matches this host (\"example.com.\" \
            holds for that host alone; hosts below it need \".example.com.\")",
        ),
        (
            "192.0.2.1/app",
            "roots",
            "none: \"ca-certs\" of entry \"192.0.2.1\" holds no certificate and so forbids the host",
        ),
        ("other.org/app", "TLS", "required and verified"),
        (
            "registry.corp:5000/app",
            "TLS",
            "tried first and verified; else plain HTTP, credentials included",
        ),
        (
            "a.deep.corp/app",
            "TLS",
            "tried first, the registry's certificate is NOT verified; else plain HTTP without \
            credentials",
        ),
        ("other.org/app", "mirror", "none"),
        (
            "alpine",
            "mirror",
            "https://mirror.example/hub is asked first, with what is lent by the \
            entry \"index.docker.io\": \
             credentials user name and password, user \"hub\"; roots the web's public roots: \
             entry \"docker.io.\" has no \"ca-certs\"",
        ),
        (
            "alpine",
            "registry",
            "asked where the mirror fails (mirror-fallback): credentials none, the pull is \
            anonymous: entry \"docker.io.\" lends its credentials to the mirror mirror.example, \
            so none are left for the registry itself",
        ),
        (
            "quay.io/team/app",
            "mirror",
            "http://mirror.corp:5000 is asked first, in plain HTTP, by its own \
            entry \"mirror.corp:5000\": credentials none, the pull is anonymous: \
            entry \"mirror.corp:5000\" has no credentials; roots the web's public roots: \
            entry \"mirror.corp:5000\" has no \"ca-certs\"",
        ),
        ("quay.io/team/app", "registry", "never asked itself, because mirror-fallback is not set"),
        (
            "other.org/app",
            "proxy",
            "HTTPS through http://[redacted]@proxy.corp:3128, except for hosts of NO_PROXY \
            = \".internal,10.0.0.0/8\", by Go's rules",
        ),
        (
            "other.org/app:1",
            "image",
            "app of the registry other.org, tag \"1\" without a digest: the guest pulls by digest \
            only",
        ),
    ] {
        let (text, _) = explain(DOCUMENT, image);
        assert_eq!(row(&text, label), expected, "{image}");
    }
    let (text, _) = explain("", "other.org/app");
    assert_eq!(row(&text, "proxy"), "none");
}

/// The flags of the mirror's own entry hold for it; those of the entry that names it do not.
#[test]
fn a_weak_mirror_is_told() {
    let explained = |url: &str, own: &str| {
        let document = format!(
            "[registries.\"a.corp\"]\ninsecure-skip-verify = true\nplain-http = true\nmirror \
            = \"{url}\"\n{own}"
        );
        let (text, json) = explain(&document, "a.corp/app");
        (row(&text, "mirror").to_owned(), json["mirror"].clone())
    };
    let own = "[registries.\"m.corp\"]\nusername = \"u\"\npassword = \"hunter2-password\"\n";
    let skipping = format!("{own}insecure-skip-verify = true\n");
    let plain = format!("{own}plain-http = true\n");
    let (unverified, withheld) = ("its certificate NOT verified", "never sent in clear");
    for (url, own, is_unverified, is_withheld) in [
        ("https://m.corp", "", false, false),
        ("https://m.corp", own, false, false),
        ("https://m.corp", &skipping, true, false),
        ("http://m.corp", &skipping, true, true),
        ("http://m.corp", &plain, false, false),
        ("http://m.corp", "", false, false),
    ] {
        let (text, json) = explained(url, own);
        assert_eq!(json["insecure_skip_verify"], is_unverified, "{url} {own}");
        assert_eq!(json["credentials_withheld"], is_withheld, "{url} {own}");
        let is_https = url.starts_with("https");
        assert_eq!(text.contains(unverified), is_unverified && is_https, "{text}");
        assert_eq!(text.contains(withheld), is_withheld, "{text}");
    }
}

#[test]
fn json_has_the_same_facts() {
    let (_, json) = explain(DOCUMENT, "alpine");
    assert_eq!(
        json["image"],
        json!({"host": "docker.io", "repository": "library/alpine", "tag": "latest", "digest": null})
    );
    assert_eq!(json["credentials"], json!({"kind": "basic", "username": "hub"}));
    assert_eq!(
        json["mirror"],
        json!({
            "asked": true,
            "url": "https://mirror.example/hub",
            "entry": "index.docker.io",
            "own_entry": false,
            "credentials": {"kind": "basic", "username": "hub"},
            "credentials_withheld": false,
            "roots": null,
            "insecure_skip_verify": false,
            "plain_http": false,
            "proxy": "http://[redacted]@proxy.corp:3128",
            "proxy_in_clear": null,
            "reasons": [
                "trusted roots: the web's public roots: entry \"docker.io.\" has no \"ca-certs\"",
                "through the proxy http://[redacted]@proxy.corp:3128 of [extra-env]",
            ],
        })
    );
    assert_eq!(json["registry"]["asked"], true);
    assert_eq!(json["registry"]["credentials"], json!({"kind": "anonymous", "username": null}));
    assert_eq!(
        json["registry"]["reasons"][0],
        "entry \"docker.io.\" lends its credentials to the mirror mirror.example, so none are left \
        for the registry itself"
    );
    assert_eq!(json["proxy"]["https"], "http://[redacted]@proxy.corp:3128");
    let (_, json) = explain(DOCUMENT, "192.0.2.1/app");
    assert_eq!((&json["roots"], &json["mirror"]), (&json!(0), &Value::Null));
    assert_eq!(json["insecure_skip_verify"], false);
}

/// A token as user name with an empty password is a secret, and must be shown as one.
#[test]
fn a_user_name_that_is_the_secret_is_hidden() {
    // base64 of "hunter2-token:".
    let document = "[registries.\"a.corp\"]\nauth = \"aHVudGVyMi10b2tlbjo=\"\n";
    let (text, json) = explain(document, "a.corp/app");
    assert!(row(&text, "credentials").ends_with("user \"[redacted]\""));
    assert_eq!(json["credentials"]["username"], "[redacted]");
}

#[test]
fn what_cannot_be_explained() {
    let folder = Folder::new();
    let path =
        folder.file("document.toml", "[registries.\"a.corp\"]\nusrname = \"hunter2-token\"\n");
    let refused = run(&["explain", "--config", &path, "a.corp/app"]);
    assert_eq!((refused.code, refused.stdout.as_str()), (65, ""));
    assert!(refused.stderr.contains(":2: registries.\"a.corp\".usrname: "));
    let path = folder.file("document.toml", DOCUMENT);
    for image in
        ["https://u:hunter2-token@a.corp/app", "a.corp/App", "", "a.corp/app@sha256:hunter2-token"]
    {
        let refused = run(&["explain", "--config", &path, image]);
        assert_eq!((refused.code, refused.stdout.as_str()), (64, ""), "{image}");
        assert!(refused.stderr.contains("reference"), "{}", refused.stderr);
    }
}

#[test]
fn references_are_named_and_take_the_hosts_settings_out() {
    let document = "\
[registries.\"registry.corp\"]
credentials-uri = \"kbs://kbs.corp/default/credential/registry\"
ca-certs-uri = \"sealed.aHVudGVyMi10b2tlbg.aHVudGVyMi10b2tlbg.aHVudGVyMi10b2tlbg\"
mirror = \"https://mirror.example\"
insecure-skip-verify = true
plain-http = true
";
    let (text, json) = explain(document, "registry.corp/app");
    for line in [
        "credentials what the docker configuration kbs:///default/credential/registry has for this \
        registry; the guest gets it where the host cannot see it\n",
        "roots       only those that \"ca-certs-uri\" of entry \"registry.corp.\" names, \
        sealed.[redacted]\n",
        "TLS         required and verified\n",
        "mirror      none\n",
    ] {
        assert!(text.contains(line), "{text}");
    }
    assert_eq!(
        json["credentials"],
        json!({"kind": "credentials-uri", "username": null, "uri": "kbs:///default/credential/registry"})
    );
    assert_eq!(json["roots_uri"], "sealed.[redacted]");
    assert_eq!(json["insecure_skip_verify"], false);
    assert_eq!(json["mirror"], Value::Null);
    assert!(!text.contains("aHVudGVyMi10b2tlbg"));
}

#[test]
fn the_owners_pins_say_what_runs() {
    let folder = Folder::new();
    let config = folder.file("host.toml", "");
    let digest = |letter: &str| format!("sha256:{}", letter.repeat(64));
    let (a, b) = (digest("a"), digest("b"));
    for only in ["", "only-pins = true\n"] {
        let text = format!("{only}[pins]\n\"r.corp/app:1\" = \"{a}\"\n");
        let measured = folder.file("measured.toml", text);
        let explain = |image: &str| {
            let arguments = ["--config", &config, "--measured", &measured, image];
            let text = run(&[&["explain"], &arguments[..]].concat());
            let json = run(&[&["explain", "--json"], &arguments[..]].concat());
            assert_eq!(text.code, json.code);
            (text.code, text.stdout, json.json())
        };
        for image in ["R.corp:443/app:1", &format!("r.corp/app@{a}")] {
            let (code, text, json) = explain(image);
            let shown = format!("pinned to {a}, as [pins] has r.corp/app:1\n");
            assert!(text.contains(&shown), "{text}");
            assert_eq!(code, 0);
            assert_eq!(json["image"]["pin"], "r.corp/app:1");
            assert_eq!(json["image"]["digest"], *a);
        }
        let (code, text, json) = explain(&format!("r.corp/app:1@{b}"));
        assert_eq!(code, 65, "{text}");
        let against = format!("pins r.corp/app:1 to {a}, and the image reference names {b}");
        assert!(text.contains(&against), "{text}");
        assert!(json["refused"].as_str().unwrap().contains(&against));
        let (code, text, _) = explain(&format!("r.corp/app@{b}"));
        assert_eq!(code, if only.is_empty() { 0 } else { 65 }, "{text}");
        assert_eq!(text.contains("does not have r.corp/app with"), code == 65);
    }
    // What the guest would not use.
    let measured = folder.file("measured.toml", "\n[pins]\n\"r.corp/App\" = \"sha256:1\"\n");
    let explained = run(&["explain", "--config", &config, "--measured", &measured, "r.corp/a"]);
    assert_eq!(explained.code, 65);
    let rule = "measured.toml:3: pins.\"r.corp/App\": the repository of the image reference has \
        upper-case";
    assert!(explained.stderr.contains(rule), "{}", explained.stderr);
    let checked = run(&["check", "--measured", &measured]);
    assert_eq!(checked.code, 65);
    assert!(checked.stdout.contains(rule), "{}", checked.stdout);
}

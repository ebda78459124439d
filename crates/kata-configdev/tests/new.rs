//! The built command `kata-configdev new`, and what is made of the command line itself.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use std::process::Command;

use command::{Folder, Run, importer, run, skip};

use crate::command;

const SECRETS: [&str; 1] = ["hunter2"];

/// `new` with a password on standard input.
fn new(arguments: &[&str], password: &str) -> Run {
    importer(&SECRETS).run_with(&[&["new"], arguments].concat(), password)
}

/// A root's certificate, in PEM.
fn root() -> String {
    let key = rcgen::KeyPair::generate().unwrap();
    let mut parameters = rcgen::CertificateParams::new([]).unwrap();
    parameters.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    parameters.self_signed(&key).unwrap().pem()
}

#[test]
fn the_first_document_passes_the_strictest_check() {
    let folder = Folder::new();
    let ca = folder.file("ca.pem", format!("# corp\n{}", root()));
    let output = folder.text("imagepuller.toml");
    let account = ["--registry", "registry.corp", "--user", "puller", "--password-stdin"];
    let full = [&account[..], &["--ca", &ca, "--output", &output]].concat();
    let first = new(&full, "hunter2 \"x\"\r\n");
    first.succeeds();
    assert_eq!((first.stdout.as_str(), first.stderr.as_str()), ("", ""));
    assert_eq!(folder.mode("imagepuller.toml"), 0o600);
    run(&["check", "--strict", &output]).succeeds();
    let text = String::from_utf8(folder.read("imagepuller.toml")).unwrap();
    assert!(text.contains("password = \"hunter2 \\\"x\\\"\"\n"), "{text}");
    assert!(text.starts_with("[registries.\"registry.corp\"]\nca-certs = \"\"\"\n-----BEGIN"));

    // Nothing is lost by doing it again, unless that is meant.
    let again = new(&full, "hunter2");
    again.fails(64, &["it exists already: give another path, or --force"]);
    assert_eq!(folder.read("imagepuller.toml"), text.as_bytes());
    new(&[&full[..], &["--force"]].concat(), "hunter2").succeeds();

    // A second registry, below a prefix, into the same file.
    let team = ["--registry", "quay.io/team", "--user", "team+robot", "--password-stdin"];
    let more = ["--into", &output, "--output", &output];
    new(&[&team[..], &more].concat(), "hunter2").succeeds();
    run(&["check", "--strict", &output]).prints(&["valid, 2 registries\n"]);
    // What is there stays.
    let there = new(&[&account[..], &more].concat(), "hunter2");
    there.fails(65, &["add the registry to the document: "]);
    let roots = new(&["--registry", "Registry.Corp.", "--ca", &ca, "--into", &output], "");
    roots.fails(65, &["it has an entry \"registry.corp\" already"]);
    run(&["check", "--strict", &output]).prints(&["valid, 2 registries\n"]);
}

#[test]
fn a_registry_below_another_entry_keeps_what_that_says() {
    let folder = Folder::new();
    let own = folder.file("own.toml", "# mine\n[registries.\".corp\"]\nplain-http = true\n");
    let account = ["--user", "u", "--password-stdin", "--into", &own];
    let into = new(&[&["--registry", "a.corp"], &account[..]].concat(), "hunter2\n");
    into.ends(0);
    assert!(into.stdout.starts_with("# mine\n"), "{}", into.stdout);
    assert!(into.stdout.contains("plain-http = true\n\n[registries"), "{}", into.stdout);
    // What `check` warns about is told.
    into.says(&["sends the credentials unencrypted"]);
    // Repositories have credentials only, and their host the roots.
    let ca = folder.file("ca.pem", root());
    let both = ["--registry", "ghcr.io/team", "--ca", &ca];
    let both = new(&[&both[..], &account[..3]].concat(), "hunter2");
    both.succeeds();
    both.prints(&["[registries.\"ghcr.io\"]\nca-certs", "[registries.\"ghcr.io/team\"]\nusername"]);
}

#[test]
fn no_password_comes_by_an_argument_and_none_is_guessed() {
    let folder = Folder::new();
    let ca = folder.file("ca.pem", "no certificate");
    let account = ["--registry", "a.corp", "--user", "u", "--password-stdin"];
    new(&account, "").fails(65, &["it is empty"]);
    new(&account, "\n").fails(65, &["it is empty"]);
    new(&account, &"x".repeat(20_000)).fails(65, &["more than 16386 bytes"]);
    new(&account, "hunter2\0").fails(65, &["control characters"]);
    // No entry is there that could be changed.
    let colon = ["--registry", "a.corp", "--user", "a:b", "--password-stdin"];
    for refused in [new(&colon, "hunter2"), new(&account, "hunter2\0")] {
        refused.fails(65, &[": correct --user, the password or --ca"]);
    }
    new(&["--registry", "a.corp", "--ca", &ca], "").fails(65, &["has no certificate"]);
    for (arguments, said) in [
        (&["--registry", "a.corp"][..], "--user"),
        (&["--registry", "a.corp", "--user", "u"], "--password-stdin"),
        (&["--registry", "a.corp", "--password", "x"], "--password"),
        (&["--user", "u", "--password-stdin"], "--registry"),
        (
            &["--registry", "https://u:hunter2@a.corp", "--ca", &ca],
            "has no scheme: write it as in registry.corp:5000",
        ),
        (
            &["--registry", "a.corp", "--user", "u", "--password-stdin", "--ca", "-"],
            "standard input twice",
        ),
    ] {
        let refused = new(arguments, "hunter2");
        refused.fails(64, &[said]);
    }
    let absent = folder.text("nowhere/imagepuller.toml");
    let lost = new(&[&account[..], &["--output", &absent]].concat(), "hunter2");
    lost.ends(69);
    lost.says(&["nowhere: No such file or directory", "create it"]);
}

#[test]
fn completions_are_scripts() {
    let folder = Folder::new();
    for (shell, word) in [("bash", "complete -F"), ("zsh", "#compdef"), ("fish", "complete -c")] {
        let script = run(&["completions", shell]);
        script.succeeds();
        script.prints(&[word, "docker-config"]);
        if shell == "bash" {
            let path = folder.file("completion", &script.stdout);
            let bash = Command::new("bash").args(["-n", &path]).status().unwrap();
            assert!(bash.success());
        }
    }
    run(&["completions", "command.com"]).ends(64);
}

#[test]
fn man_reads_the_pages_without_a_warning() {
    let folder = Folder::new();
    let output = folder.text("man1");
    run(&["man", "--output", &output]).succeeds();
    let page = folder.path("man1/kata-configdev-check.1");
    let man = Command::new("man")
        .args(["--warnings=w", "-l"])
        .arg(&page)
        .env("MANWIDTH", "100")
        .env("LC_ALL", "C.UTF-8")
        .output();
    let Ok(man) = man else {
        return skip("man is not there");
    };
    let told = String::from_utf8_lossy(&man.stderr);
    assert!(man.status.success() && told.is_empty(), "{told}");
    let text = String::from_utf8_lossy(&man.stdout);
    // Examples can be copied.
    let example = "kata-configdev check --strict tenants/*.toml\n";
    assert!(text.contains(example) && text.contains("--ask FILE [IMAGE]..."), "{text}");
    // A file in the way.
    let file = folder.file("file", "");
    run(&["man", "--output", &file]).fails(69, &["failed to write"]);
}

//! `kata-configdev check`.

use std::process::{Command, Stdio};

use puller_config::MAX_PROBLEMS;

use crate::cli::{INVALID, VALID};
use crate::command::{Folder, run};

#[test]
fn check_shows_every_problem_with_its_line() {
    let folder = Folder::new();
    let path = folder.file("document.toml", INVALID);
    let text = run(&["check", &path]);
    text.ends(65);
    for place in [
        ":2: registries.\"basic.corp.\".usrname: ",
        ":3: registries.\"basic.corp.\".auth: ",
        ":6: registries.\"token.corp.\".plain-http: ",
        ":7: registries.\"token.corp.\".credentials-uri: ",
    ] {
        text.prints(&[&format!("{path}{place}")]);
    }
    text.prints_last(": not valid, 4 problems\n");

    let json = run(&["check", "--json", &path]);
    json.ends(65);
    let report = json.json();
    assert_eq!(report["valid"], false);
    assert_eq!(report["problems"].as_array().unwrap().len(), 4);
    assert_eq!(report["problems"][1]["line"], 3);
    assert_eq!(report["problems"][1]["key"], "registries.\"basic.corp.\".auth");
}

#[test]
fn check_knows_both_documents() {
    let folder = Folder::new();
    let document = "\
[registries.\"registry.corp\"]
username = \"puller\"
password = \"hunter2-password\"
[resources]
sources = [\"cdh=unix:/run/cdh.sock\"]
";
    let path = folder.file("document.toml", document);
    let of_host = run(&["check", &path]);
    of_host.ends(65);
    let place = format!("{path}:4: resources: belongs in the measured document");
    of_host.prints(&[&place]);
    let of_nobody = run(&["check", "--json", &path, "--measured"]);
    assert!(of_nobody.json()["record"].is_null());
    let valid = folder.file("valid.toml", VALID);
    let record = run(&["check", "--json", &valid]).json()["record"].clone();
    let expected = puller_config::Document::parse(VALID.as_bytes()).unwrap();
    assert_eq!(record, expected.document.record());
    let owners = folder.file("measured.toml", "event-log = \"never\"\n");
    let explain = ["explain", "--config", &valid, "basic.corp/app"];
    run(&[&explain[..], &["--measured", &owners]].concat()).prints(&["event-log   never\n"]);
    run(&[&explain[..], &["--measured", &valid]].concat()).prints(&["event-log   if-there\n"]);
    assert!(!run(&explain).stdout.contains("event-log"));
    // Who may read or write the file on this node does not matter.
    folder.set_mode("document.toml", 0o666);
    let measured = run(&["check", "--measured", &path]);
    measured.ends(0);
    assert_eq!(
        measured.stdout,
        format!(
            "{path}:3: warning: registries.\"registry.corp\".password: is known to the host and to \
            everyone who verifies the \
             guest, because measured data is public; refer to it instead\n{path}: valid, 1 \
             registry, 1 warning\n"
        )
    );
}

#[test]
fn check_counts_the_problems_it_does_not_list() {
    let folder = Folder::new();
    let with = |count: usize| {
        let text: String = (0..count).map(|number| format!("key-{number} = 1\n")).collect();
        folder.file("document.toml", text)
    };
    for (count, listed, last) in [
        (MAX_PROBLEMS, MAX_PROBLEMS, None),
        (MAX_PROBLEMS + 1, MAX_PROBLEMS + 1, Some("1 more problem is not listed")),
        (MAX_PROBLEMS + 234, MAX_PROBLEMS + 1, Some("234 more problems are not listed")),
    ] {
        let path = with(count);
        let text = run(&["check", &path]);
        text.ends(65);
        let mut end = format!("{path}: not valid, {count} problems\n");
        if let Some(last) = last {
            end = format!("{path}: {last}\n{end}");
        }
        text.prints_last(&end);
        assert_eq!(text.stdout.lines().count(), listed + 1);
        let report = run(&["check", "--json", &path]).json();
        assert_eq!(report["problem_count"], count);
        assert_eq!(report["problems"].as_array().unwrap().len(), listed);
    }
}

#[test]
fn check_accepts_and_warns() {
    let folder = Folder::new();
    let path = folder.file("document.toml", VALID);
    let text = run(&["check", &path]);
    text.succeeds();
    text.prints(&[":3: warning: "]);
    text.prints(&["FTP_PROXY"]);
    text.prints_last(": valid, 4 registries, 1 warning\n");

    folder.set_mode("document.toml", 0o646);
    let report = run(&["check", "--json", &path]).json();
    assert_eq!((&report["valid"], &report["registries"]), (&true.into(), &4.into()));
    let messages = report["warnings"].to_string();
    assert!(messages.contains("its mode 0646 lets others read"), "{messages}");
    assert!(messages.contains("its mode 0646 lets others write"), "{messages}");

    let public =
        folder.file("public.toml", "[registries.\"a.corp.\"]\nmirror = \"https://m.corp\"\n");
    folder.set_mode("public.toml", 0o644);
    assert!(run(&["check", &public]).stdout.ends_with(": valid, 1 registry\n"));
}

#[test]
fn check_reads_pipes_but_not_for_ever() {
    let pipe = |name: &str, content: &str| {
        let mut child = Command::new(env!("CARGO_BIN_EXE_kata-configdev"))
            .args(["check", name])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // The program stops reading at its limit.
        let _ = std::io::Write::write_all(&mut child.stdin.take().unwrap(), content.as_bytes());
        child.wait_with_output().unwrap()
    };
    for name in ["/dev/stdin", "-"] {
        assert_eq!(pipe(name, VALID).status.code(), Some(0));
        let long = pipe(name, &"#\n".repeat(1 << 20));
        assert_eq!(long.status.code(), Some(65));
        let said = String::from_utf8(long.stderr).unwrap();
        assert!(said.contains("more than 1048576 bytes"), "{said}");
    }
    let said = String::from_utf8(pipe("-", INVALID).stdout).unwrap();
    assert!(said.starts_with("standard input:2: "), "{said}");
    run(&["check", "/dev/zero"]).ends(65);
    run(&["check", "/"]).ends(65);
}

/// `check --ask` starts the guest's puller, the one beside it first; here a script in its place.
#[test]
fn check_asks_by_the_puller_that_is_there() {
    let folder = Folder::new();
    let path = folder.file("valid.toml", VALID);
    let own = folder.text("kata-configdev");
    // Another process writes it: a child of a neighbouring test would keep it open.
    let copy = Command::new("cp").args([env!("CARGO_BIN_EXE_kata-configdev"), &own]).status();
    assert!(copy.unwrap().success());
    let asked = |arguments: &[&str]| {
        let mut command = Command::new(&own);
        command.args(arguments).env("PATH", folder.path(""));
        command.output().unwrap()
    };
    let none = asked(&["check", "--ask", &path]);
    assert_eq!(none.status.code(), Some(69));
    let error = String::from_utf8(none.stderr).unwrap();
    assert!(error.contains("ask the registries by the program imagepuller"), "{error}");
    assert!(error.contains("put it beside this program or into PATH"), "{error}");
    assert!(asked(&["check", &path]).status.success());

    folder.program("imagepuller", "755", "#!/bin/sh\necho \"{\\\"said\\\": \\\"$*\\\"}\"; exit 69");
    let text = asked(&["check", "--ask", &path, "r.corp/a:1", "--json"]);
    assert_eq!(text.status.code(), Some(69));
    let report: serde_json::Value = serde_json::from_slice(&text.stdout).unwrap();
    assert_eq!((&report["valid"], &report["registries"]), (&true.into(), &4.into()));
    let said = format!("probe --config {path} --json -- r.corp/a:1");
    assert_eq!(report["asked"]["said"], said);
    let measured = asked(&["check", "--ask", "--measured", &path]);
    let said = String::from_utf8(measured.stdout).unwrap();
    let from = "asked from this host, by its own network and names; a guest's may be others:\n";
    let rest = format!("{from}{{\"said\": \"probe --measured {path} --\"}}\n");
    assert!(said.ends_with(&rest), "{said}");

    // What is not valid is not tried, and what is no file cannot be read twice.
    let broken = folder.file("broken.toml", INVALID);
    let broken = asked(&["check", "--ask", &broken]);
    assert_eq!(broken.status.code(), Some(65));
    assert!(!String::from_utf8(broken.stdout).unwrap().contains("asked from"));
    run(&["check", "--ask", "/dev/null"]).fails(64, &["it is no file"]);
    // A second document is no image, and an image without --ask no document.
    let two = run(&["check", "--ask", &path, &path]);
    two.fails(64, &["is a file, not an image", "give --ask one document"]);
    run(&["check", &path, "r.corp/a:1"]).ends(65);
    // A program reads what is wrong where it reads the rest.
    let json = asked(&["check", "--json", "--strict", &path]);
    assert_eq!(json.status.code(), Some(65));
    std::fs::remove_file(folder.path("imagepuller")).unwrap();
    let json = asked(&["check", "--ask", "--json", &path]);
    assert_eq!((json.status.code(), json.stderr.len()), (Some(69), 0));
    let report: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(report["valid"], true);
    let error = report["error"].as_str().unwrap();
    assert!(error.starts_with("ask the registries by"), "{error}");
}

/// Each of several documents is checked, also behind one that cannot be read.
#[test]
fn check_takes_several_documents() {
    let folder = Folder::new();
    let good = folder.file("good.toml", "[registries.\"a.corp\"]\n");
    let warned = folder.file("warned.toml", "[registries.\"docker.io\"]\nca-certs = \"none\"\n");
    let broken = folder.file("broken.toml", INVALID);
    let absent = folder.text("absent.toml");

    run(&["check", &good, &warned]).ends(0);
    let text = run(&["check", &good, &absent, &broken]);
    text.ends(65);
    text.prints(&["good.toml: valid, 1 registry\n", "not valid, 4 problems\n"]);
    text.says(&["absent.toml: No such file", ": create it, or correct the path"]);

    // A template without its values.
    let empty = folder.file("empty.toml", "# registries:\n\n");
    run(&["check", &empty]).ends(0);
    run(&["check", "--strict", &empty]).prints(&["empty.toml: error: says nothing: "]);

    // Warnings are errors.
    let strict = run(&["check", "--strict", &good, &warned]);
    strict.ends(65);
    strict.prints(&[
        "warned.toml:2: error: ",
        "valid, 1 registry, 1 warning, refused because of --strict\n",
    ]);
    run(&["check", "--strict", &good]).succeeds();

    // One object for each line; a filter for one does for all.
    let json = run(&["check", "--json", &good, &absent, &broken]);
    json.ends(65);
    assert_eq!(json.stderr, "");
    let objects = json.stdout.lines().map(serde_json::from_str);
    let objects: Vec<serde_json::Value> = objects.collect::<Result<_, _>>().unwrap();
    let valid: Vec<_> = objects.iter().map(|object| &object["valid"]).collect();
    assert_eq!(valid, [true, false, false]);
    let error = objects[1]["error"].as_str().unwrap();
    assert!(error.contains("absent.toml: No such file"), "{error}");
    assert_eq!(objects[1]["remedy"], "create it, or correct the path");
    assert_eq!(objects[2]["problem_count"], 4);
    // Of one document it is laid out as ever.
    let alone = run(&["check", "--json", &absent]);
    alone.ends(65);
    assert_eq!(alone.json()["path"], absent);
    assert!(alone.stdout.starts_with("{\n"), "{}", alone.stdout);
    run(&["check", "-", "-"]).fails(64, &["standard input twice"]);
}

/// Whoever gives another program's file is told which import reads it.
#[test]
fn check_knows_files_that_are_no_documents() {
    let folder = Folder::new();
    let auths = "{\"auths\": {\"r.corp\": {\"auth\": \"cHVsbGVyOmh1bnRlcjItYXV0aA==\"}}}";
    for (name, content, import) in [
        ("config.json", auths, "docker-config"),
        ("registries.yaml", "mirrors:\n  docker.io:\n", "registries-yaml"),
        ("hosts.toml", "server = \"https://r.corp\"\n", "certs.d"),
    ] {
        let path = folder.file(name, content);
        let check = run(&["check", &path]);
        check.ends(65);
        check.prints(&[&format!("`kata-configdev import {import}` makes one of it")]);
        let image = folder.text("image");
        let packed = run(&["pack", "--config", &path, "--output", &image]);
        packed.ends(65);
        packed.says(&[&format!("import {import}`")]);
    }
}

/// The last line had a file's name as it was.
#[test]
fn check_shows_a_files_name_safely() {
    let folder = Folder::new();
    for text in [VALID, INVALID] {
        let path = folder.file("a\u{1b}[31m\u{9b}.toml", text);
        for arguments in [&["check", &path][..], &["check", "--json", &path]] {
            let run = run(arguments);
            assert!(run.code == 0 || run.code == 65, "{run:?}");
            assert!(!run.stdout.contains(['\u{1b}', '\u{9b}']), "{run:?}");
        }
    }
}

/// A guest refuses keys that it does not know, so that all pulls fail: that is told beforehand.
#[test]
fn check_names_what_an_older_guest_refuses() {
    let folder = Folder::new();
    let text = format!("{VALID}\n[pins]\n\"a.corp/b:1\" = \"sha256:{}\"\n", "0a".repeat(32));
    let path = folder.file("measured.toml", &text);
    let line = text.lines().position(|line| line == "[pins]").unwrap() + 1;
    let older = run(&["check", "--measured", "--for", "8cb4846", &path]);
    older.ends(65);
    let said = format!("{path}:{line}: error: pins: a guest of 8cb4846 refuses it");
    older.prints(&[&said, ": it came with 0.1.0"]);
    older.prints_last(", refused by that guest\n");
    let json = run(&["check", "--json", "--measured", "--for", "8cb4846", &path]);
    json.ends(65);
    let report = json.json();
    assert_eq!((&report["valid"], &report["refused"][0]["key"]), (&true.into(), &"pins".into()));
    assert_eq!(report["refused"][0]["line"], line);

    let same = run(&["check", "--json", "--measured", "--for", "0.1.0", &path]);
    same.ends(0);
    assert_eq!(same.json()["refused"], serde_json::json!([]));
    let old = folder.file("old.toml", VALID);
    run(&["check", "--for", "8cb4846", &old]).ends(0);
    let unknown = run(&["check", "--for", "0.9", &old]);
    unknown.ends(64);
    unknown.says(&["0.9", "those are: 8cb4846, 0.1.0"]);
}

//! Docker configurations below the document, as the program installs them.

use std::fs;
use std::path::PathBuf;

use registry_config::{Credentials, Document, MAX_REGISTRIES, RegistryHost};
use test_command::wait_until;

use crate::installer::machine::{
    DOCUMENT, Machine, NOTHING_YET, PASSWORD, SETTINGS, broken, document, mode,
};
use crate::installer::process::{Watching, program, run};

const KEY: &str = ".dockerconfigjson";

/// `hunter:` and the password in base64; parts of it stay the same whatever follows.
const AUTH: &str = "aHVudGVyOmNvcnJlY3QtaG9yc2UtYmF0dGVyeQ==";
const USER: &str = "hunter";
const TOKEN: &str = "refresh-token-9d1c";

/// A configuration with a password for each registry, which ends in what follows the registry.
fn config(entries: &[(&str, &str)]) -> String {
    format!("{{\"auths\":{{{}}}}}", legacy(entries))
}

fn legacy(entries: &[(&str, &str)]) -> String {
    let entry = |(registry, end): &(&str, &str)| {
        format!("{registry:?}:{{\"username\":\"{USER}\",\"password\":\"{PASSWORD}-{end}\"}}")
    };
    entries.iter().map(entry).collect::<Vec<_>>().join(",")
}

/// Runs the program; its log holds nothing that went in.
fn installed(machine: &Machine) -> (Option<i32>, String) {
    let (code, log) = run(program(machine, "install"));
    require_no_secret(&log);
    (code, log)
}

fn require_no_secret(log: &str) {
    for secret in [PASSWORD, AUTH, "aHVudGVy", USER, TOKEN] {
        assert!(!log.contains(secret), "{secret}: {log}");
    }
}

/// What follows the password that the installed document has for `registry`.
fn password(machine: &Machine, registry: &str) -> Option<String> {
    let text = fs::read(machine.host(DOCUMENT)).unwrap();
    let document = Document::parse(&text).unwrap().document;
    let host = RegistryHost::parse(registry).unwrap();
    let (_, entry) = document.registries.matches(&host).next()?;
    match &entry.credentials {
        Credentials::Anonymous => None,
        Credentials::Basic { password, .. } => {
            Some(password.expose().trim_start_matches(PASSWORD).into())
        }
        Credentials::IdentityToken { token, .. } => Some(token.expose().into()),
        Credentials::RegistryToken(_) => panic!("{registry} has a bearer token"),
    }
}

/// A machine whose set takes docker configurations from these places.
fn machine(places: &[&str]) -> Machine {
    let mut machine = Machine::new();
    let places: Vec<PathBuf> = places.iter().map(|place| machine.path(place)).collect();
    machine.more = format!("docker-configs = {places:?}\n");
    machine
}

#[test]
fn the_last_of_several_wins_and_without_a_document_they_are_all_there_is() {
    let mut machine = machine(&["one", "two", "three/.dockercfg"]);
    machine.mount_other("one", &[(KEY, &config(&[("a.corp", "1"), ("b.corp", "1")]))]);
    machine.mount_other("two", &[(KEY, &config(&[("a.corp", "2"), ("c.corp", "2")]))]);
    let last = format!(
        "{{{},\"e.corp\":{{\"auth\":\"{AUTH}\"}},\"f.corp\":{{\"identitytoken\":\"{TOKEN}\"}}}}",
        legacy(&[("c.corp", "3"), ("d.corp", "3")])
    );
    machine.mount_other("three", &[(".dockercfg", &last)]);
    let (code, log) = installed(&machine);
    assert_eq!(code, Some(0), "{log}");
    let have = ["a", "b", "c", "d", "e", "f"]
        .map(|name| password(&machine, &format!("{name}.corp")).unwrap());
    assert_eq!(have, ["-2", "-1", "-3", "-3", "", TOKEN]);
    assert_eq!(password(&machine, "g.corp"), None);
    assert_eq!(mode(&machine.host(DOCUMENT)), 0o600);
    assert!(machine.read(SETTINGS).contains("document = "));
    assert!(
        log.contains("one/.dockerconfigjson: a.corp: tried after \"a.corp\" of ")
            && log.contains("two/.dockerconfigjson, where that is refused"),
        "{log}"
    );
    // The old password and the new one: no pull fails while the registry switches over.
    let text = machine.read(DOCUMENT);
    assert_eq!(text.matches("also]]").count(), 2, "{log}");

    let before = machine.state();
    let (code, log) = installed(&machine);
    assert_eq!((code, log.contains("replaced")), (Some(0), false), "{log}");
    assert_eq!(machine.state(), before);

    machine.more = machine.more.replace("/one", "/x").replace("/two", "/one").replace("/x", "/two");
    assert_eq!(installed(&machine).0, Some(0));
    assert_eq!(password(&machine, "a.corp").unwrap(), "-1");
}

#[test]
fn the_document_always_wins() {
    let mut machine = machine(&["docker"]);
    let own = [document("a"), "[registries.\".lab\"]\nca-certs = \"none\"\n".to_owned()];
    machine.mount_document(&own.concat());
    machine.mount_other(
        "docker",
        &[(KEY, &config(&[("https://a.corp/v1/", "no"), ("b.lab", "yes")]))],
    );
    let (code, log) = installed(&machine);
    assert_eq!(code, Some(0), "{log}");
    assert_eq!(password(&machine, "a.corp").unwrap(), "");
    assert_eq!(password(&machine, "b.lab").unwrap(), "-yes");
    let text = machine.read(DOCUMENT);
    assert!(own.iter().all(|part| text.contains(part)), "the administrator's part is as it was");
    assert_eq!(text.matches("ca-certs").count(), 2, "whom to trust stays");
    assert!(log.contains(": a.corp.: left out: "), "{log}");

    // Nothing to add: the same bytes.
    machine.mount_other("docker", &[(KEY, "{}")]);
    assert_eq!(installed(&machine).0, Some(0));
    assert_eq!(machine.read(DOCUMENT), own.concat());
}

/// Whoever stops the pods of a node with a reason stops them, whatever the other secrets hold.
#[test]
fn a_reason_of_the_node_is_installed_alone() {
    let mut machine = machine(&["docker", "broken"]);
    machine.more += &format!("decryption-keys = [{:?}]\n", machine.path("keys"));
    machine.mount_document(&document("a"));
    machine.mount_other("docker", &[(KEY, &config(&[("b.corp", "yes")]))]);
    machine.mount_other("keys", &[("keys", "kbs:///default/key/1")]);
    assert_eq!(installed(&machine).0, Some(0));
    let reason = "node-error = \"the registry moves\"\n";
    machine.mount_document(reason);
    let (code, log) = installed(&machine);
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains("refuse every pull"), "{log}");
    assert_eq!(machine.read(DOCUMENT), reason);
    machine.mount_other("broken", &[(KEY, "]")]);
    let (code, log) = installed(&machine);
    assert_eq!(code, Some(65), "{log}");
    assert_eq!(machine.read(DOCUMENT), reason);
}

#[test]
fn placeholders_are_valid_and_a_warning_names_them() {
    let mut machine = machine(&["docker", "docker/missing"]);
    let place = machine.path("docker").display().to_string();
    let words = format!("WARN the secrets {place}, {place}/missing have not arrived on this node");
    for content in [None, Some("{}"), Some("{\"auths\":{}}"), Some("")] {
        // At first the mount is not there at all, then it is empty, then the placeholder comes.
        let empty = installed(&machine);
        assert_eq!(empty.0, Some(0), "{}", empty.1);
        machine.mount_other("docker", content.map(|text| (KEY, text)).as_slice());
        let (code, log) = installed(&machine);
        assert_eq!(code, Some(0), "{log}");
        assert!(log.contains(&words), "{log}");
        assert_eq!(machine.read(DOCUMENT), NOTHING_YET);
        assert!(machine.read(SETTINGS).contains("\ndocument = "));
    }
    machine.mount_document(&document("one"));
    assert_eq!(installed(&machine).0, Some(0));
    assert_eq!(machine.read(DOCUMENT), document("one"));
}

#[test]
fn keys_of_the_kubelet_are_no_keys_and_others_are_named() {
    let mut machine = machine(&["docker"]);
    machine.mount_other("docker", &[("config.json", &config(&[("a.corp", "1")]))]);
    let (code, log) = installed(&machine);
    assert_eq!(code, Some(0), "{log}");
    assert!(
        log.contains("it has no key .dockerconfigjson or .dockercfg, but config.json"),
        "{log}"
    );
    assert!(!log.contains(".."), "{log}");
    assert_eq!(machine.read(DOCUMENT), NOTHING_YET);
    // Of both keys the newer form's counts.
    let (newer, older) =
        (config(&[("a.corp", "new")]), format!("{{{}}}", legacy(&[("a.corp", "old")])));
    machine.mount_other("docker", &[(".dockercfg", &older), (KEY, &newer)]);
    assert_eq!(installed(&machine).0, Some(0));
    assert_eq!(password(&machine, "a.corp").unwrap(), "-new");
    machine.mount_other("docker", &[("config.json", &config(&[("a.corp", "1")]))]);
    // A file that is named itself may have any name.
    machine.more = machine.more.replace("/docker\"", "/docker/config.json\"");
    assert_eq!(installed(&machine).0, Some(0));
    assert_eq!(password(&machine, "a.corp").unwrap(), "-1");
}

#[test]
fn a_bad_configuration_keeps_the_old_document() {
    let bad_value = format!("{{\"auths\":{{\"a.corp\":{{\"auth\":[\"{AUTH}\"]}}}}}}");
    let manifest = format!("{{\"apiVersion\":\"v1\",\"kind\":\"Secret\",\"x\":\"{PASSWORD}\"}}");
    let many: Vec<String> = (0..1025).map(|number| format!("r{number}.corp")).collect();
    let many: Vec<(&str, &str)> = many.iter().map(|name| (name.as_str(), "1")).collect();
    let too_long = format!("{{\"x\":\"{}\"}}", PASSWORD.repeat(60_000));
    let cases = [
        (PASSWORD, Some(65), "it is not JSON: line 1, column 1"),
        (
            "{\"auths\":{\"a.corp\":{\"auth\":\"aHVudGVyOmNvcnJlY3Q",
            Some(65),
            "it is not JSON: line 1, column ",
        ),
        (&bad_value, Some(65), "has a value of another type"),
        (&manifest, Some(65), "it is a manifest"),
        (&config(&many), Some(65), "at most 1024 entries"),
        (&too_long, Some(65), "it has more than 1048576 bytes"),
    ];
    for has_own in [true, false] {
        let mut machine = machine(&["good", "docker"]);
        if has_own {
            machine.mount_document(&document("one"));
        }
        // The first one is bad: that does not mean "none", so that sandboxes are told instead of
        // pulling anonymously.
        machine.mount_other("docker", &[(KEY, "]")]);
        let (code, log) = installed(&machine);
        assert_eq!(code, Some(65), "{log}");
        assert!(log.contains("; sandboxes pull nothing until it is corrected"), "{log}");
        assert!(machine.read(DOCUMENT).starts_with("node-error = \"the registry configuration"));
        assert!(machine.read(SETTINGS).contains("\ndocument = "));

        machine.mount_other("good", &[(KEY, &config(&[("b.corp", "good")]))]);
        machine.mount_other("docker", &[(KEY, &config(&[("a.corp", "good")]))]);
        assert_eq!(installed(&machine).0, Some(0));
        let before = machine.state();
        for (text, exit, rule) in cases {
            machine.mount_other("docker", &[(KEY, text)]);
            let (code, log) = installed(&machine);
            assert_eq!(code, exit, "{log}");
            assert!(log.contains(rule) && log.contains("docker/.dockerconfigjson"), "{log}");
            assert_eq!(
                log.contains("; the previous document stays"),
                !rule.starts_with("it has more")
            );
            assert_eq!(machine.state(), before);
        }
        // Both kinds of problem are told at once.
        machine.mount_document(&broken());
        machine.mount_other("docker", &[(KEY, "]")]);
        let (_, log) = installed(&machine);
        assert!(log.contains("miror: ") && log.contains("it is not JSON"), "{log}");
        assert_eq!(machine.state(), before);
    }
}

/// A rotated secret whose entries were all unusable replaced a working document by an empty one,
/// and the node was ready: the guests pulled anonymously.
#[test]
fn a_configuration_without_a_usable_entry_is_no_configuration() {
    // The password's own base64 in base64, which ends in what `echo` put there.
    let twice = "YUhWdWRHVnlPbU52Y25KbFkzUXRhRzl5YzJVdFltRjBkR1Z5ZVE9PQo=";
    let cases = [
        (
            format!("{{\"auths\":{{\"a.corp\":{{\"auth\":\"{twice}\"}}}}}}"),
            "none of its entries can be used: a.corp: its \"auth\" has no colon between user name \
            and password: base64 twice?",
        ),
        (
            "{\"auths\":{\"a.corp\":{\"auth\":\"aHVudGVy\"}}}".to_owned(),
            "a.corp: its \"auth\" has no colon between user name and password; ",
        ),
        (
            "{\"auths\":{\"a.corp\":{\"auth\":\"%%%\"},\"b.corp\":{}}}".to_owned(),
            "a.corp: its \"auth\" is not base64",
        ),
        ("{\"auths\":{\"r\":{}}}".to_owned(), "r: it has no credentials"),
        ("{\"r\":{}}".to_owned(), "r: it has no credentials"),
        (
            "{\"auths\":{\"a.corp\":{}},\"credsStore\":\"desktop\"}".to_owned(),
            "credsStore: credentials kept by a helper program are not read; ",
        ),
        (
            config(&[("a.corp/Team", "1")]),
            "a.corp/Team: left out, because \"a.corp.\" would be wider",
        ),
    ];
    for required in [true, false] {
        let mut machine = machine(&["good", "docker"]);
        machine.more += &format!(
            "required = {required}\nsecret-names = {{ {:?} = \"kata/team\" }}\n",
            machine.path("docker")
        );
        // Before there is anything to keep, nobody pulls anonymously.
        machine.mount_other("good", &[(KEY, &config(&[("b.corp", "good")]))]);
        machine.mount_other("docker", &[(KEY, &cases[0].0)]);
        let (code, log) = installed(&machine);
        assert_eq!(code, Some(65), "{log}");
        assert!(machine.read(DOCUMENT).starts_with("node-error = "), "{log}");

        machine.mount_other("docker", &[(KEY, &config(&[("a.corp", "good")]))]);
        let watching = Watching::start(&machine);
        let before = machine.state();
        for (text, rule) in &cases {
            machine.mount_other("docker", &[(KEY, text)]);
            let (code, log) = installed(&machine);
            assert_eq!(code, Some(65), "{text}: {log}");
            let named = "docker/.dockerconfigjson (the secret kata/team): ";
            assert!(log.contains(named) && log.contains(rule), "{log}");
            assert!(log.contains("; the previous document stays"), "{log}");
            assert_eq!(machine.state(), before, "{text}");
            wait_until("the problem", || !watching.is_ready());
        }
        // One without entries takes the credentials back.
        machine.mount_other("docker", &[(KEY, "{\"auths\":{}}")]);
        let (code, log) = installed(&machine);
        let missing = "the secret kata/team has not arrived on this node";
        match required {
            true => {
                assert_eq!(code, Some(69), "{log}");
                assert!(log.contains(missing), "{log}");
                assert_eq!(machine.read(DOCUMENT), format!("node-error = {missing:?}\n"));
            }
            false => {
                assert_eq!(code, Some(0), "{log}");
                assert!(log.contains(missing), "{log}");
                assert_eq!(password(&machine, "a.corp"), None);
                assert_eq!(password(&machine, "b.corp").unwrap(), "-good");
            }
        }
        require_no_secret(&watching.stop());
    }
}

#[test]
fn nothing_is_read_that_is_no_file() {
    let mut machine = machine(&["docker"]);
    fs::create_dir_all(machine.path("docker").join(KEY)).unwrap();
    let (code, log) = installed(&machine);
    assert_eq!(code, Some(65));
    assert!(log.contains(".dockerconfigjson: it is not a regular file"), "{log}");
    // A FIFO without a writer would hang a careless reader.
    machine.more = machine.more.replace("/docker\"", "/fifo\"");
    let fifo = machine.path("fifo");
    rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, rustix::fs::Mode::RUSR).unwrap();
    let (code, log) = installed(&machine);
    assert_eq!(code, Some(65));
    assert!(log.contains("fifo: it is not a regular file"), "{log}");
}

#[test]
fn nobody_else_receives_a_password_unless_that_is_allowed() {
    let mut machine = machine(&["docker"]);
    let wide = config(&[
        ("quay.io/team", "team"),
        ("quay.io/Team", "path"),
        ("*.corp", "pattern"),
        ("plain.lab", "plain"),
        (&format!("https://{USER}:{PASSWORD}@in-key.lab"), "key"),
    ]);
    machine.mount_other("docker", &[(KEY, &wide)]);
    let (code, log) = installed(&machine);
    assert_eq!(code, Some(0), "{log}");
    assert_eq!(password(&machine, "plain.lab").unwrap(), "-plain");
    for registry in ["quay.io", "x.corp", "in-key.lab"] {
        assert_eq!(password(&machine, registry), None);
    }
    for key in ["quay.io/Team", "*.corp"] {
        assert!(log.contains(&format!("{key}: left out, because ")), "{log}");
    }
    assert!(log.contains("[redacted]@in-key.lab: left out"), "{log}");
    assert_eq!(log.matches("WARN").count(), 3, "{log}");

    machine.more.push_str("allow-widening = true\n");
    let (code, log) = installed(&machine);
    assert_eq!(code, Some(0), "{log}");
    assert_eq!(password(&machine, "quay.io").unwrap(), "-path");
    assert_eq!(password(&machine, "x.corp").unwrap(), "-pattern");
    assert!(log.contains("quay.io/Team: widened to "), "{log}");
}

#[test]
fn a_flood_of_findings_fills_no_log() {
    let mut machine = machine(&["docker"]);
    let paths: Vec<String> = (0..1000).map(|number| format!("a.corp/A{number}")).collect();
    let paths = paths.iter().map(|path| (path.as_str(), "1"));
    let paths: Vec<(&str, &str)> = paths.chain([("b.corp", "1")]).collect();
    machine.mount_other("docker", &[(KEY, &config(&paths))]);
    let (code, log) = installed(&machine);
    assert_eq!(code, Some(0), "{log}");
    assert!(log.contains(": 936 more like these"), "{log}");
    assert!(log.lines().count() < 80, "{log}");
}

/// Credentials that a full document has no room for were left out, and the node was ready.
#[test]
fn a_document_that_is_full_is_a_problem() {
    let mut machine = machine(&["docker", "more"]);
    let hosts: Vec<String> = (0..MAX_REGISTRIES).map(|number| format!("r{number}.corp")).collect();
    let all: Vec<(&str, &str)> = hosts.iter().map(|host| (host.as_str(), "1")).collect();
    machine.mount_other("docker", &[(KEY, &config(&all))]);
    machine.mount_other("more", &[(KEY, &config(&[("more.corp", "2")]))]);
    let (code, log) = installed(&machine);
    assert_eq!(code, Some(65), "{log}");
    assert!(log.contains(": 1 of them are left out, for it has at most"), "{log}");
    assert!(!log.contains("everything is as it should be"), "{log}");
    // The others are there.
    assert_eq!(password(&machine, "more.corp").unwrap(), "-2");
    machine.mount_other("docker", &[(KEY, &config(&all[1..]))]);
    let (code, log) = installed(&machine);
    assert_eq!(code, Some(0), "{log}");

    // So were those for which it has no bytes: two secrets of 600 KiB.
    let long = "x".repeat(6 << 10);
    let hundred = |from: usize| -> Vec<(&str, &str)> {
        let hosts = hosts[from..from + 100].iter();
        hosts.map(|host| (host.as_str(), long.as_str())).collect()
    };
    machine.mount_other("docker", &[(KEY, &config(&hundred(0)))]);
    machine.mount_other("more", &[(KEY, &config(&hundred(100)))]);
    let (code, log) = installed(&machine);
    assert_eq!(code, Some(65), "{log}");
    assert!(log.contains(" of them are left out, for it has at most"), "{log}");
    assert!(!log.contains("everything is as it should be"), "{log}");
    machine.mount_other("docker", &[(KEY, &config(&hundred(0)[..50]))]);
    let (code, log) = installed(&machine);
    assert_eq!(code, Some(0), "{log}");
}

#[test]
fn a_placeholder_that_is_filled_later_is_picked_up() {
    let mut machine = machine(&["registries"]);
    machine.mount_other("registries", &[(KEY, "{}")]);
    let watching = Watching::start(&machine);
    let ready = || watching.is_ready();
    assert!(ready() && machine.has_stand_in());

    let has = |machine: &Machine, end: &str| {
        !machine.has_stand_in() && password(machine, "a.corp").as_deref() == Some(end)
    };
    for end in ["1", "2"] {
        machine.mount_other("registries", &[(KEY, &config(&[("a.corp", end)]))]);
        wait_until("the credentials", || has(&machine, &format!("-{end}")));
    }
    assert!(machine.read(SETTINGS).contains("document = "));
    machine.mount_other("registries", &[(KEY, PASSWORD)]);
    wait_until("the problem", || !ready());
    assert!(has(&machine, "-2"), "the old document stays");
    // It is not ready before it says why.
    wait_until("the line", || {
        watching.log().contains("accept the docker configuration of the set default at ")
    });
    machine.mount_document(&document("a"));
    machine.mount_other("registries", &[(KEY, &config(&[("a.corp", "3")]))]);
    wait_until("the document's own credentials", || has(&machine, "") && ready());
    machine.mount(&[]);
    machine.mount_other("registries", &[(KEY, "{\"auths\":{}}")]);
    wait_until("the removal", || machine.has_stand_in() && ready());
    require_no_secret(&watching.stop());
}

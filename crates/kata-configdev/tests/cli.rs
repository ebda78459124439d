//! The built command `kata-configdev`: what it prints, how it ends, and that no secret gets out.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use std::os::unix::fs::symlink;

use command::{Folder, run, run_line, sha256sum};
use config_image::Magic;

use crate::command;

const VALID: &str = "\
[extra-env]
HTTPS_PROXY = \"http://proxy-user:hunter2-proxy@proxy.corp:3128\"
FTP_PROXY = \"http://elsewhere\"

[registries.\"basic.corp.\"]
username = \"puller\"
password = \"hunter2-password\"

[registries.\".auth.corp.\"]
auth = \"cHVsbGVyOmh1bnRlcjItYXV0aA==\"

[registries.\"token.corp.\"]
registrytoken = \"hunter2-token\"

[registries.\"identity.corp.\"]
identitytoken = \"hunter2-identity\"
";

/// Four mistakes, on the lines 2, 3, 6 and 7.
const INVALID: &str = "\
[registries.\"basic.corp.\"]
usrname = \"hunter2-password\"
auth = \"hunter2-auth\"

[registries.\"token.corp.\"]
plain-http = 7
credentials-uri = \"kbs:///hunter2-token\"
";

#[test]
fn pack_and_inspect_round_trip() {
    let folder = Folder::new();
    let config = folder.file("document.toml", VALID);
    let image = folder.text("image");
    let packed = run(&["pack", "--config", &config, "--output", &image, "--json"]);
    packed.ends(0);
    packed.says(&[":3: warning: "]);
    let packed = packed.json();

    let bytes = std::fs::read(&image).unwrap();
    assert_eq!(folder.mode("image"), 0o600);
    let decoded = config_image::decode(bytes.as_slice(), Magic::IMAGEPULLER).unwrap();
    assert_eq!(decoded.document.as_slice(), VALID.as_bytes());
    assert_eq!(packed["path"], image);
    assert_eq!(packed["bytes"], bytes.len());
    assert_eq!(packed["document"]["bytes"], VALID.len());
    assert_eq!(packed["sha256"], sha256sum(folder.path("image")));
    assert_eq!(packed["document"]["sha256"], sha256sum(folder.path("document.toml")));

    let shown = run(&["inspect", &image]);
    shown.succeeds();
    for part in ["imgpullr", "basic.corp", "[redacted]", packed["sha256"].as_str().unwrap()] {
        shown.prints(&[part]);
    }
    let report = run(&["inspect", "--json", &image]).json();
    assert_eq!(report["magic"], "imgpullr");
    assert_eq!(report["gzip_bytes"], decoded.header.gzip_len());
    assert_eq!(report["bytes"], bytes.len());
    assert_eq!(report["sha256"], packed["sha256"]);
    assert_eq!(report["document"]["sha256"], packed["document"]["sha256"]);
    assert_eq!(report["document"]["valid"], true);
    assert!(report["document"]["content"].to_string().contains("[redacted]"));

    // Packing is a function of the document.
    let text = run(&["pack", "--config", &config, "--output", &image]);
    text.prints(&[packed["sha256"].as_str().unwrap()]);
    assert_eq!(std::fs::read(&image).unwrap(), bytes);
}

#[test]
fn a_reason_of_the_node_is_valid_and_told() {
    let folder = Folder::new();
    let config = folder.file("document.toml", "node-error = \"no such file\\u001b[2J\"\n");
    let warning = format!(
        "{config}:1: warning: node-error: makes the guest refuse every pull with this text as the \
        reason\n"
    );
    let check = run(&["check", &config]);
    check.succeeds();
    check.prints(&[&warning]);
    check.prints_last(": valid, 0 registries, 1 warning\n");
    let image = folder.text("image");
    let packed = run(&["pack", "--config", &config, "--output", &image]);
    packed.ends(0);
    packed.says(&[&warning]);
    let shown = run(&["inspect", &image]);
    shown.succeeds();
    shown.prints(&["node-error = 'no such file\\u{1b}[2J'\n"]);
    let report = run(&["inspect", "--json", &image]).json();
    assert_eq!(report["document"]["content"]["node-error"], "no such file\\u{1b}[2J");
    for extra in [&[][..], &["--measured", &folder.file("measured.toml", VALID)]] {
        let explained = run(&[&["explain", "--config", &config, "basic.corp/app"], extra].concat());
        explained.ends(65);
        explained.prints(&["refused     the node has no configuration and nothing is pulled \
            without it; the node says: no such file\\u{1b}[2J\n"]);
    }
}

#[test]
fn pack_refuses_what_check_refuses_and_writes_nothing() {
    let folder = Folder::new();
    let config = folder.file("document.toml", INVALID);
    let refused = run_line(&format!("pack --config {config} --output {}", folder.text("image")));
    refused.fails(65, &[":2: registries.\"basic.corp.\".usrname: "]);
    assert!(!folder.path("image").exists());
}

/// Packing a document onto itself once left the image where the only copy of the document had been.
#[test]
fn pack_never_replaces_the_document() {
    let folder = Folder::new();
    let config = folder.file("document.toml", VALID);
    symlink("document.toml", folder.path("link")).unwrap();
    std::fs::hard_link(&config, folder.path("hard-link")).unwrap();
    let detour = folder.text("./document.toml");
    for (config, output) in [
        (&config, &config),
        (&config, &detour),
        (&folder.text("link"), &config),
        (&config, &folder.text("hard-link")),
    ] {
        let refused = run(&["pack", "--config", config, "--output", output]);
        refused.fails(64, &[&format!("write {output}: it is the document")]);
        assert_eq!(std::fs::read(config).unwrap(), VALID.as_bytes());
    }
    let names = folder.count("");
    assert_eq!(names, 3, "no temporary file");
}

#[test]
fn pack_replaces_regular_files_only() {
    let folder = Folder::new();
    let config = folder.file("document.toml", VALID);
    let pack = |output: &str| run(&["pack", "--config", &config, "--output", output]);
    folder.file("victim", "untouched");
    symlink("victim", folder.path("link")).unwrap();
    let refused = pack(&folder.text("link"));
    refused.ends(65);
    refused.says(&["not a regular file"]);
    assert_eq!(std::fs::read(folder.path("victim")).unwrap(), b"untouched");
    assert_eq!(pack("/dev/null").code, 65);
    assert_eq!(pack(&folder.text("absent/image")).code, 69);

    folder.set_mode("victim", 0o666);
    assert_eq!(pack(&folder.text("victim")).code, 0);
    assert_eq!(folder.mode("victim"), 0o600);
    let names = folder.count("");
    assert_eq!(names, 3, "document, victim, link and no temporary file");
}

#[test]
fn help_teaches_and_wrong_arguments_are_told() {
    for arguments in [
        &["--help"][..],
        &["check", "--help"],
        &["pack", "--help"],
        &["inspect", "--help"],
        &["explain", "--help"],
        &["config", "--help"],
        &["attach", "--help"],
        &["detach", "--help"],
        &["sweep", "--help"],
        &["policy", "check", "--help"],
        &["policy", "explain", "--help"],
        &["pins", "--help"],
    ] {
        let help = run(arguments);
        help.succeeds();
        help.prints(&["Example"]);
    }
    run(&["--version"]).ends(0);
    for arguments in
        [&[][..], &["chekc"], &["check"], &["pack", "--config", "x"], &["check", "--password", "x"]]
    {
        let usage = run(arguments);
        usage.fails(64, &[]);
        assert!(!usage.stderr.is_empty());
    }
    let absent = run(&["check", "/nonexistent/document.toml"]);
    absent.ends(65);
    absent.says(&["/nonexistent/document.toml: No such file"]);
}

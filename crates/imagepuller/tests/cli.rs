//! The program's own words: help, usage, and a service that is not there.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use std::process::{Command, Output};

fn run(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_imagepuller"))
        .args(arguments)
        .output()
        .unwrap()
}

#[test]
fn help_teaches_and_wrong_arguments_are_64() {
    let help = run(&["serve", "--help"]);
    assert_eq!(help.status.code(), Some(0));
    let text = String::from_utf8(help.stdout).unwrap();
    for word in [
        "unix:PATH",
        "read anew for each pull",
        "/run/insecure-cfg/imagepuller.toml",
    ] {
        assert!(text.contains(word), "{word}: {text}");
    }
    let help = run(&["pull", "--help"]);
    let text = String::from_utf8(help.stdout).unwrap();
    for word in [
        "--insecure-no-digest",
        "--platform",
        "image-config.json",
        "73",
    ] {
        assert!(text.contains(word), "{word}: {text}");
    }
    for arguments in [
        &[][..],
        &["serve", "--store", "/s", "--config", "/c"],
        &[
            "serve",
            "--listen",
            "unix:/run/a",
            "--upstream",
            "unix:/run/a",
            "--store",
            "/s",
            "--config",
            "/c",
        ],
        &["pull", "image"],
        &["pull", "--output", "/o", "--attempts", "0", "image"],
        &["pull", "--output", "/o", "--platform", "x", "image"],
        &["serve"],
        &["request", "image"],
        &[
            "serve",
            "--listen",
            "/run/socket",
            "--store",
            "/s",
            "--config",
            "/c",
        ],
        &["request", "--timeout", "0", "image", "/bundle"],
    ] {
        assert_eq!(run(arguments).status.code(), Some(64), "{arguments:?}");
    }
}

#[test]
fn a_missing_service_is_69() {
    let output = run(&[
        "request",
        "--socket",
        "/nonexistent/socket",
        "image",
        "/bundle",
    ]);
    assert_eq!(output.status.code(), Some(69));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(
        text.contains("cannot connect to the image puller at /nonexistent/socket"),
        "{text}"
    );
}

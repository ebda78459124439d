//! The program's own words: help, usage, and a service that is not there.

use std::process::Output;

use crate::support::imagepuller;

fn run(arguments: &[&str]) -> Output {
    imagepuller(arguments).output().unwrap()
}

#[test]
fn help_teaches_and_wrong_arguments_are_64() {
    let config = "/run/insecure-cfg/imagepuller.toml";
    let serve = ["unix:PATH", "read anew for each pull", config];
    let pull = ["--insecure-no-digest", "--platform", "image-config.json", "73"];
    for (command, words) in [("serve", &serve[..]), ("pull", &pull)] {
        let help = run(&[command, "--help"]);
        assert_eq!(help.status.code(), Some(0));
        let text = String::from_utf8(help.stdout).unwrap();
        for word in words {
            assert!(text.contains(word), "{word}: {text}");
        }
    }
    for line in [
        "",
        "serve --store /s --config /c",
        "serve --listen unix:/run/a --upstream unix:/run/a --store /s --config /c",
        "pull image",
        "pull --output /o --platform x image",
        "serve",
        "hub /etc/hub.toml",
        "request image",
        "serve --listen /run/socket --store /s --config /c",
        "request --timeout 0 image /bundle",
    ] {
        let arguments: Vec<_> = line.split_whitespace().collect();
        assert_eq!(run(&arguments).status.code(), Some(64), "{line}");
    }
}

#[test]
fn a_missing_service_is_69() {
    let socket = "/nonexistent/socket";
    let output = run(&["request", "--socket", socket, "image", "/bundle"]);
    assert_eq!(output.status.code(), Some(69));
    let text = String::from_utf8(output.stderr).unwrap();
    let reason = format!("cannot connect to the image puller at {socket}");
    assert!(text.contains(&reason), "{text}");
}

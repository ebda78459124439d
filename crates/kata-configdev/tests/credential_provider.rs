//! `kata-configdev credential-provider`, as a kubelet would start it.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use crate::command;

use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use command::Folder;

const PASSWORD: &str = "hunter2-document";

fn document() -> String {
    format!(
        "[registries.\"reg.corp\"]\nusername = \"robot\"\npassword = \"{PASSWORD}\"\nca-certs \
        = \"none\"\n\
         [registries.\"reg.corp:5000\"]\nauth = \"cG9ydDpodW50ZXIyLXBvcnQ=\"\n\
         [registries.\".below.corp\"]\nusername = \"below\"\npassword = \"{PASSWORD}\"\n\
         [registries.\"docker.io\"]\nusername = \"hub\"\npassword = \"{PASSWORD}\"\n\
         [registries.\"token.corp\"]\nidentitytoken = \"{PASSWORD}\"\n\
         [registries.\"bearer.corp\"]\nregistrytoken = \"{PASSWORD}\"\n\
         [registries.\"lent.corp\"]\nusername = \"mirror\"\npassword = \"{PASSWORD}\"\nmirror \
         = \"https://mirror.corp/x\"\n\
         [registries.\"own.corp\"]\nusername = \"own\"\npassword = \"{PASSWORD}\"\nmirror \
         = \"https://named.corp\"\n\
         [registries.\"named.corp\"]\n\
         [registries.\"half.corp\"]\nauth = \"OnRva2Vu\"\n"
    )
}

fn ask(arguments: &[&str], question: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_kata-configdev"))
        .arg("credential-provider")
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It may refuse without reading all of it.
    let _ = child.stdin.take().unwrap().write_all(question);
    child.wait_with_output().unwrap()
}

fn question(version: &str, image: &str) -> String {
    format!(
        "{{\"kind\":\"CredentialProviderRequest\",\"apiVersion\":\"credentialprovider.kubelet.k8s.io/{version}\",\"image\":\"{image}\"}}\n"
    )
}

#[test]
fn the_answer_has_the_protocols_exact_bytes() {
    let folder = Folder::new();
    let document = folder.file("document.toml", document());
    for (image, key, user, password) in [
        ("reg.corp/team/app", "reg.corp", "robot", PASSWORD),
        ("reg.corp:5000/app", "reg.corp:5000", "port", "hunter2-port"),
        ("a.below.corp:80/app", "a.below.corp:80", "below", PASSWORD),
        ("docker.io/library/nginx", "docker.io", "hub", PASSWORD),
        ("own.corp/app", "own.corp", "own", PASSWORD),
        ("half.corp/app", "half.corp", "", "token"),
    ] {
        for version in ["v1", "v1beta1", "v1alpha1"] {
            let output = ask(&["--config", &document], question(version, image).as_bytes());
            assert_eq!(output.status.code(), Some(0));
            assert_eq!(
                String::from_utf8(output.stdout).unwrap(),
                format!(
                    "{{\"kind\":\"CredentialProviderResponse\",\"apiVersion\":\"credentialprovider.kubelet.k8s.io/{version}\",\
                     \"cacheKeyType\":\"Registry\",\"cacheDuration\":\"0s\",\
                     \"auth\":{{\"{key}\":{{\"username\":\"{user}\",\"password\":\"{password}\"}}}}}}\n"
                )
            );
            assert!(output.stderr.is_empty());
        }
    }
}

#[test]
fn a_registry_without_a_password_gets_none() {
    let folder = Folder::new();
    let document = folder.file("document.toml", document());
    for image in [
        "other.corp/app",
        "sub.reg.corp/app",
        "below.corp/app",
        "named.corp/app",
        // No place in the protocol.
        "token.corp/app",
        "bearer.corp/app",
        // Not this registry's: its mirror's.
        "lent.corp/app",
        // The mirror has no entry of its own, and nobody is told what was lent to it.
        "mirror.corp/app",
        "not a host/app",
        "",
    ] {
        let output = ask(&["--config", &document], question("v1", image).as_bytes());
        assert_eq!(output.status.code(), Some(0), "{image}");
        assert_eq!(
            String::from_utf8(output.stdout).unwrap(),
            "{\"kind\":\"CredentialProviderResponse\",\"apiVersion\":\"credentialprovider.kubelet.k8s.io/v1\",\
             \"cacheKeyType\":\"Registry\",\"cacheDuration\":\"0s\",\"auth\":{}}\n",
            "{image}"
        );
        assert!(output.stderr.is_empty());
    }
}

#[test]
fn the_settings_name_the_document() {
    let folder = Folder::new();
    folder.file("document.toml", document());
    let pattern = folder.path("docu*.toml");
    let settings = folder.file("settings.toml", format!("document = {pattern:?}\n"));
    let question = question("v1", "reg.corp/app");
    let output = ask(&["--settings", &settings], question.as_bytes());
    assert!(String::from_utf8(output.stdout).unwrap().contains(PASSWORD));
    // A node without a document has no credentials, which is an answer.
    let settings = folder.file("none.toml", "");
    let output = ask(&["--settings", &settings], question.as_bytes());
    assert!(String::from_utf8(output.stdout).unwrap().contains("\"auth\":{}"));
}

#[test]
fn what_cannot_be_answered_is_an_error_without_secrets() {
    let folder = Folder::new();
    let good = folder.file("document.toml", document());
    let broken = folder.file("broken.toml", document().replace("robot", ""));
    let absent = folder.text("absent.toml");
    let shared = folder.file("shared.toml", document());
    folder.set_mode("shared.toml", 0o666);
    let asked = question("v1", "reg.corp/app");
    let token = "hunter2-service-account";
    let unknown = asked.replace("\"image\"", &format!("\"serviceToken\":\"{token}\",\"image\""));
    let reason = folder.file("reason.toml", "node-error = \"no such file\"\n");
    let cases: [(&str, &str, &str); 11] = [
        (&good, "", "kubelet's question"),
        (&good, token, "kubelet's question"),
        (&good, &unknown, "kubelet's question"),
        (&good, &format!("{asked}{token}"), "kubelet's question"),
        (&good, &asked.replace("Request", "Response"), "its kind is not CredentialProviderRequest"),
        (&good, &asked.replace("/v1", "/v2"), "its apiVersion is not one of"),
        (&good, &" ".repeat(1 << 20), "more than 262144 bytes"),
        (&broken, &asked, "accept the document"),
        (&absent, &asked, "No such file"),
        (&shared, &asked, "mode 0666"),
        // No account would mean an anonymous pull of the node's.
        (&reason, &asked, "the node says: no such file"),
    ];
    for (document, question, words) in cases {
        let output = ask(&["--config", document], question.as_bytes());
        let stderr = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(65), "{stderr}");
        assert!(output.stdout.is_empty());
        assert!(stderr.contains(words), "{stderr}");
        assert!(!stderr.contains("hunter2"), "{stderr}");
    }
    // A token that belongs there does no harm.
    let with_token = asked.replace('}', &format!(",\"serviceAccountToken\":\"{token}\"}}"));
    let output = ask(&["--config", &good], with_token.as_bytes());
    assert!(String::from_utf8(output.stdout).unwrap().contains(PASSWORD));
}

/// Our own runner, with the kubelet's rules, in front of our own plugin.
#[test]
fn the_projects_two_halves_understand_each_other() {
    use credential_sources::Offered;
    use credential_sources::kubelet::answer::offers;
    use credential_sources::kubelet::config::Providers;
    use credential_sources::kubelet::probe;
    use credential_sources::kubelet::run::{Question, ask};
    use puller_config::RegistryHost;

    let folder = Folder::new();
    let document = folder.file("document.toml", document());
    let program = folder.path("kata-configdev");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_kata-configdev"), program).unwrap();
    for version in ["v1", "v1beta1", "v1alpha1"] {
        let config = format!(
            "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n- \
            name: kata-configdev\n  \
             apiVersion: credentialprovider.kubelet.k8s.io/{version}\n  matchImages: [reg.corp, \
             docker.io]\n  \
             defaultCacheDuration: 0s\n  args: [credential-provider, --config, {document}]\n"
        );
        let mut providers = Providers::default();
        providers.add(config.as_bytes()).unwrap();
        let hosts = ["reg.corp", "docker.io"].map(|host| RegistryHost::parse(host).unwrap());
        let questions = hosts
            .each_ref()
            .map(|host| Question { provider: &providers.list()[0], image: probe(host) });
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(50);
        let answers = ask(Path::new(&folder.text(".")), &questions, deadline);
        for ((host, answer), user) in hosts.iter().zip(&answers).zip(["robot", "hub"]) {
            let answer = answer.as_ref().unwrap();
            let (offers, findings) = offers(host, &[("kata-configdev", &answer.response)]);
            assert!(findings.is_empty());
            let Offered::Password { username, password } = &offers[0].offered else {
                panic!("{offers:?}")
            };
            assert_eq!((username.as_str(), password.expose()), (user, PASSWORD));
        }
    }
}

//! The program against an API server that misbehaves. What a real one answers,
//! `deploy/cluster/check` shows.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use tempfile::TempDir;
use test_http::pki::Authority;
use test_http::{Answer, End, Request, Server, ok, reply};

const TOKEN: &str = "hunter2-token";

/// A pod's account, and a server with the certificate of `issuer`.
struct Pod {
    account: TempDir,
    server: Server,
}

fn pod(answer: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Pod {
    let authority = Authority::new("cluster").unwrap();
    pod_with(&authority, &authority, answer)
}

fn pod_with(
    trusted: &Authority,
    issuer: &Authority,
    answer: impl Fn(&Request) -> Answer + Send + Sync + 'static,
) -> Pod {
    let account = tempfile::tempdir().unwrap();
    let tls = issuer.server_config(&["127.0.0.1"]).unwrap();
    for (name, text) in
        [("ca.crt", trusted.certificate()), ("namespace", "kata-configdev"), ("token", TOKEN)]
    {
        fs::write(account.path().join(name), text).unwrap();
    }
    Pod { account, server: Server::start_with(Some(tls), answer) }
}

impl Pod {
    fn run(&self, timeout: &str) -> (Option<i32>, String) {
        let Output { status, stderr, .. } = self.command(timeout).output().unwrap();
        let said = String::from_utf8(stderr).unwrap();
        assert!(!said.contains(TOKEN), "{said}");
        (status.code(), said)
    }

    fn command(&self, timeout: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_kata-configdev-remove"));
        command
            .args(["--daemon-set", "kata-installer", "--role-binding"])
            .args(["kata-cleanup", "--timeout", timeout, "--account"])
            .arg(self.account.path())
            .env("KUBERNETES_SERVICE_HOST", "127.0.0.1")
            .env("KUBERNETES_SERVICE_PORT", self.server.port.to_string())
            // A proxy of the environment is never asked.
            .env("HTTPS_PROXY", "http://127.0.0.1:1");
        command
    }

    /// Whether the last request deleted the binding.
    fn gave_its_right_back(&self) -> bool {
        let requests = self.server.requests();
        requests.last().is_some_and(|request| {
            request.starts_with(
                "DELETE /apis/rbac.authorization.k8s.io/v1/namespaces/kata-configdev/rolebindings/\
                kata-cleanup HTTP/1.1",
            )
        })
    }
}

/// The DaemonSet after so many changes, with the status of so many nodes.
fn daemon_set(generation: u32, observed: u32, ready: u32) -> Answer {
    ok(&format!(
        r#"{{"metadata": {{"generation": {generation}}}, "spec": {{"template": {{"spec":
        {{"containers": [{{"name": "installer", "args": ["node-agent"]}}]}}}}}},
        "status": {{"observedGeneration": {observed}, "desiredNumberScheduled": 3,
        "updatedNumberScheduled": {ready}, "numberReady": {ready}}}}}"#
    ))
    .into()
}

fn status(code: &str, message: &str) -> Answer {
    let body = format!(r#"{{"kind": "Status", "message": "{message}"}}"#);
    reply(code, "", &body).into()
}

#[test]
fn the_daemon_set_is_changed_once_and_waited_for() {
    let looks = Mutex::new(0);
    let pod = pod(move |request| {
        if request.starts_with("PATCH ") {
            return daemon_set(2, 1, 3);
        }
        let mut looks = looks.lock().unwrap();
        *looks += 1;
        match *looks {
            1 => daemon_set(1, 1, 3),
            // The API server is restarted meanwhile.
            2 => status("503 Service Unavailable", "starting"),
            3 => daemon_set(2, 2, 1),
            _ => daemon_set(2, 2, 3),
        }
    });
    let (code, said) = pod.run("60");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("of 3 nodes 1 have the pod"), "{said}");
    assert!(said.ends_with("clean nodes: 3\n"), "{said}");
    let requests = pod.server.requests();
    let patches: Vec<_> = requests.iter().filter(|request| request.starts_with("PATCH ")).collect();
    assert_eq!(patches.len(), 1);
    let patch = patches[0].to_ascii_lowercase();
    assert!(patch.starts_with(
        "patch /apis/apps/v1/namespaces/kata-configdev/daemonsets/kata-installer http/1.1"
    ));
    assert!(patch.contains("content-type: application/strategic-merge-patch+json"));
    assert!(patch.contains(&format!("authorization: bearer {TOKEN}")));
    assert!(pod.gave_its_right_back());
}

#[test]
fn nodes_that_are_not_clean_in_time_are_counted() {
    let pod = pod(|request| match request.starts_with("PATCH ") {
        true => daemon_set(2, 1, 3),
        false => daemon_set(2, 2, 2),
    });
    let (code, said) = pod.run("5");
    assert_eq!(code, Some(69), "{said}");
    for words in [
        "within 5 s",
        "of 3 nodes 2 have",
        "kubectl -n kata-configdev logs daemonset/kata-installer",
        "--no-hooks",
    ] {
        assert!(said.contains(words), "{said}");
    }
    assert!(pod.gave_its_right_back());
}

#[test]
fn no_node_is_no_success() {
    let pod = pod(|_| {
        let body = r#"{"metadata": {"generation": 2}, "spec": {"template": {"spec":
            {"containers": [{"name": "installer"}]}}}, "status": {"observedGeneration": 2}}"#;
        ok(body).into()
    });
    let (code, said) = pod.run("60");
    assert_eq!(code, Some(69), "{said}");
    for words in ["DaemonSet kata-configdev/kata-installer", "--no-hooks"] {
        assert!(said.contains(words), "{said}");
    }
    assert!(pod.gave_its_right_back());
}

#[test]
fn a_pod_that_is_ended_gives_its_right_back() {
    let pod = pod(|_| daemon_set(2, 2, 2));
    let mut child = pod.command("60").stderr(Stdio::piped()).spawn().unwrap();
    let said = BufReader::new(child.stderr.take().unwrap()).lines();
    for line in said {
        if line.unwrap().contains("of 3 nodes 2") {
            let killed = Command::new("kill").arg(child.id().to_string()).status();
            assert!(killed.unwrap().success());
        }
    }
    assert_eq!(child.wait().unwrap().code(), Some(69));
    assert!(pod.gave_its_right_back());
}

#[test]
fn without_a_daemon_set_nothing_is_removed() {
    let pod = pod(|_| status("404 Not Found", "not found"));
    let (code, said) = pod.run("60");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("nothing is removed"), "{said}");
}

#[test]
fn a_refusal_says_the_servers_words_in_one_line() {
    let pod = pod(|_| status("401 Unauthorized", "no\\n\\u001b[31mway"));
    let (code, said) = pod.run("60");
    assert_eq!(code, Some(69), "{said}");
    assert!(said.contains("get the DaemonSet kata-configdev/kata-installer"));
    assert!(said.contains("401") && said.contains("way"), "{said}");
    assert!(said.contains("failed to delete the binding"), "{said}");
    assert_eq!(said.lines().count(), 2, "{said}");
    assert!(!said.contains('\u{1b}'), "{said}");
}

#[test]
fn a_right_that_comes_a_little_later_is_waited_for() {
    let looks = Mutex::new(0);
    let pod = pod(move |_| {
        let mut looks = looks.lock().unwrap();
        *looks += 1;
        match *looks {
            1 => status("403 Forbidden", "not yet"),
            _ => daemon_set(2, 2, 3),
        }
    });
    let (code, said) = pod.run("60");
    assert_eq!(code, Some(0), "{said}");
    assert!(said.contains("403: not yet"), "{said}");
}

#[test]
fn a_server_of_another_authority_never_gets_the_token() {
    let (ours, other) = (Authority::new("ours").unwrap(), Authority::new("other").unwrap());
    let pod = pod_with(&ours, &other, |_| daemon_set(2, 2, 3));
    let (code, said) = pod.run("1");
    assert_eq!(code, Some(69), "{said}");
    assert!(said.contains("UnknownIssuer"), "{said}");
    assert!(!pod.server.transcript().contains(TOKEN));
}

#[test]
fn hostile_answers_end_it() {
    for (bytes, end, words) in [
        ("HTTP/1.1 200 OK\r\n\r\n[]", End::Close, "understand"),
        ("HTTP/1.1 200 OK\r\n\r\n{\"metadata\": {}, \"spec\": ", End::Flood, "longer than"),
        (
            "HTTP/1.1 200 OK\r\n\r\n{\"metadata\": {}, \"spec\": {\"template\": {\"spec\": \
            {\"containers\": []}}}}",
            End::Close,
            "no container",
        ),
    ] {
        let answer = Answer { bytes: bytes.as_bytes().to_vec(), end };
        let pod = pod(move |_| answer.clone());
        let started = Instant::now();
        let (code, said) = pod.run("60");
        assert_eq!(code, Some(65), "{said}");
        assert!(said.contains(words), "{said}");
        assert!(started.elapsed() < Duration::from_secs(50));
    }
}

#[test]
fn outside_of_a_pod_it_says_so() {
    let ended = Command::new(env!("CARGO_BIN_EXE_kata-configdev-remove"))
        .args(["--daemon-set", "x"])
        .env_remove("KUBERNETES_SERVICE_HOST")
        .output()
        .unwrap();
    assert_eq!(ended.status.code(), Some(65));
    assert!(String::from_utf8_lossy(&ended.stderr).contains("in a pod only"));
}

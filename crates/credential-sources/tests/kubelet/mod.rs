//! Real programs as credential providers, in shell and in Rust, of every behaviour that plugins
//! have been seen with.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use credential_sources::kubelet::answer::offers;
use credential_sources::kubelet::config::Providers;
use credential_sources::kubelet::protocol::Response;
use credential_sources::kubelet::run::{Failure, Question, ask, ask_by};
use registry_config::{Credentials, RegistryHost};
use tempfile::TempDir;
use test_command::example;

/// Long enough for every plugin that ends by itself.
const PLENTY: Duration = Duration::from_secs(50);

/// Waited for to its end where a plugin hangs, and long enough for its neighbours.
const BRIEFLY: Duration = Duration::from_secs(15);

/// Writes a program. Another process does it: a child that a neighbour of this test has just forked
/// has all our descriptors until its `exec`, and what somebody has open for writing cannot be
/// executed ("text file busy").
fn executable(path: &Path, text: &str) {
    let written = Command::new("/bin/sh")
        .args(["-c", "printf %s \"$1\" >\"$0\" && chmod 755 \"$0\""])
        .arg(path)
        .arg(text)
        .status();
    assert!(written.unwrap().success());
}

/// A directory of plugins and the configuration that names them.
struct Node {
    dir: TempDir,
    config: String,
}

impl Node {
    fn new() -> Self {
        Self {
            dir: tempfile::tempdir().unwrap(),
            config:
                "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n"
                    .into(),
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Names a plugin without making its program; `rest` are further lines of it.
    fn name(&mut self, name: &str, rest: &str) {
        self.config += &format!(
            "- name: {name}\n  matchImages: [\"*.corp\"]\n  defaultCacheDuration: \
            1m\n  apiVersion: credentialprovider.kubelet.k8s.io/v1\n{rest}"
        );
    }

    fn shell(&mut self, name: &str, script: &str) {
        self.name(name, "");
        self.program(name, script);
    }

    fn program(&self, name: &str, script: &str) {
        executable(&self.path(name), &format!("#!/bin/sh\n{script}\n"));
    }

    fn rust(&mut self, behaviour: &str) {
        let file = self.path(&format!("{behaviour}.pid"));
        self.name(behaviour, &format!("  args: [{behaviour}, {}]\n", file.display()));
        std::os::unix::fs::symlink(example("plugin"), self.path(behaviour)).unwrap();
    }

    /// A question to every plugin about reg.corp.
    fn questions(&self) -> Vec<Question> {
        let mut providers = Providers::default();
        providers.add(self.config.as_bytes()).unwrap();
        let ask = |provider| Question::new(self.dir.path(), provider, "reg.corp/probe".into());
        providers.list().iter().map(ask).collect()
    }

    /// Asks every plugin about reg.corp.
    fn ask(&self, within: Duration) -> Vec<Result<Response, Failure>> {
        ask(&self.questions(), Instant::now() + within)
    }

    fn pid(&self, behaviour: &str) -> String {
        let text = std::fs::read_to_string(self.path(&format!("{behaviour}.pid"))).unwrap();
        text.trim().to_owned()
    }
}

/// User and password of the one pair in an answer.
fn pair(answer: &Result<Response, Failure>) -> (String, String) {
    let answer = answer.as_ref().unwrap();
    let host = RegistryHost::parse("reg.corp").unwrap();
    let (offers, _) = offers(&host, None, &[("plugin", answer)]);
    let Credentials::Basic { username, password } = &offers[0].offered else {
        panic!("{offers:?}")
    };
    (username.clone(), password.expose().to_owned())
}

/// Requires an error with these words, and none that a plugin wrote.
fn refused(answer: &Result<Response, Failure>, words: &str) {
    let error = answer.as_ref().unwrap_err();
    let (shown, debug) = (&error.why, format!("{error:?}"));
    assert!(shown.contains(words), "{shown}");
    assert!(!shown.contains("hunter2") && !debug.contains("hunter2"), "{debug}");
}

/// Whether a process goes on, although it was killed a moment ago; one that ended and waits for its
/// parent does not.
fn runs(pid: &str) -> bool {
    let goes_on = || {
        std::fs::read_to_string(format!("/proc/{pid}/stat"))
            .is_ok_and(|stat| !stat.rsplit(')').next().unwrap().starts_with(" Z"))
    };
    // A signal is delivered when its receiver gets a processor.
    for _ in 0..1000 {
        if !goes_on() {
            return false;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    true
}

#[test]
fn a_shell_script_gets_exactly_what_the_kubelet_would_send() {
    let mut node = Node::new();
    let (question, environment) = (node.path("question"), node.path("environment"));
    node.name(
        "script",
        "  args: [get, \"a b\"]\n  env:\n  - {name: COLOUR, value: blue}\n  - \
        {name: COLOUR, value: green}\n  - {name: HOME, value: /x}\n",
    );
    node.program(
        "script",
        &format!(
            "cat > {}\necho \"$# $2 $COLOUR $HOME $(pwd) $(printenv PATH)\" > {}\n\
             for n in /proc/$$/fd/*; do echo ${{n##*/}}; done >> {}\n\
             echo '{{\"kind\":\"CredentialProviderResponse\",\
             \"apiVersion\":\"credentialprovider.kubelet.k8s.io/v1\",\"cacheKeyType\":\"Global\",\
             \"auth\":{{\"*.corp\":{{\"username\":\"u\",\"password\":\"p\"}}}}}}'",
            question.display(),
            environment.display(),
            environment.display(),
        ),
    );
    // Somebody else's descriptor, which this process has and a plugin must not get.
    let foreign = std::fs::File::open("/dev/null").unwrap();
    let foreign = rustix::io::fcntl_dupfd_cloexec(&foreign, 250).unwrap();
    rustix::io::fcntl_setfd(&foreign, rustix::io::FdFlags::empty()).unwrap();
    let answers = node.ask(PLENTY);
    assert_eq!(pair(&answers[0]), ("u".into(), "p".into()));
    assert_eq!(
        std::fs::read(question).unwrap(),
        b"{\"kind\":\"CredentialProviderRequest\",\
        \"apiVersion\":\"credentialprovider.kubelet.k8s.io/v1\",\"image\":\"reg.corp/probe\"}\n"
    );
    let environment = std::fs::read_to_string(environment).unwrap();
    let mut lines = environment.lines();
    // The environment of this process is there, and later entries win over it and over earlier
    // ones.
    let path = std::env::var("PATH").unwrap();
    assert_eq!(lines.next(), Some(&*format!("2 a b green /x / {path}")));
    let descriptors: Vec<_> = lines.collect();
    let foreign = std::os::fd::AsRawFd::as_raw_fd(&foreign).to_string();
    assert!(!descriptors.contains(&foreign.as_str()), "{descriptors:?}");
    assert!(descriptors.contains(&"0") && descriptors.contains(&"2"), "{descriptors:?}");
}

#[test]
fn good_plugins_answer_whatever_their_neighbours_do() {
    let mut node = Node::new();
    for behaviour in ["good", "slow", "pieces", "hangs"] {
        node.rust(behaviour);
    }
    // Does not read the question, and does not close its output before it ends.
    node.shell(
        "deaf",
        "exec 0<&-; echo \
    '{\"kind\":\"CredentialProviderResponse\",\
    \"apiVersion\":\"credentialprovider.kubelet.k8s.io/v1\",\"cacheKeyType\":\"Registry\",\
    \"auth\":{\"reg.corp\":{\"username\":\"robot\",\"password\":\"hunter2-rust\"}}}'",
    );
    node.name("absent", "");
    let answers = node.ask(BRIEFLY);
    for index in [0, 1, 2, 4] {
        assert_eq!(pair(&answers[index]), ("robot".into(), "hunter2-rust".into()), "{index}");
    }
    let debug = format!("{answers:?}");
    assert!(!debug.contains("hunter2"), "{debug}");
    refused(&answers[3], "took longer");
    refused(&answers[5], "cannot be started: No such file");
    assert!(!runs(&node.pid("hangs")), "the grandchild is gone too");
}

#[test]
fn every_failure_is_told_without_output() {
    let mut node = Node::new();
    for behaviour in ["fails-after-answer", "aborts", "junk", "version", "much"] {
        node.rust(behaviour);
    }
    node.shell("silent", "exit 0");
    node.shell("secret", "echo hunter2; echo hunter2 >&2; exit 1");
    node.name("not-executable", "");
    std::fs::write(node.path("not-executable"), "hunter2").unwrap();
    node.name("directory", "");
    std::fs::create_dir(node.path("directory")).unwrap();
    node.name("no-program", "");
    executable(&node.path("no-program"), "\u{1}hunter2");
    node.name("odd-environment", "  env: [{name: A, value: \"hunter2\\0x\"}]\n");
    node.program("odd-environment", "exit 0");
    let answers = node.ask(PLENTY);
    for (answer, words) in answers.iter().zip([
        "exit code 3",
        "signal 6",
        "not the JSON",
        "apiVersion is not credentialprovider.kubelet.k8s.io/v1",
        "more than 262144 bytes",
        "not the JSON",
        "exit code 1",
        "Permission denied",
        "Permission denied",
        // Given to no shell, as by the kubelet.
        "cannot be started: Exec format error",
        "cannot be started",
    ]) {
        refused(answer, words);
    }
    assert_eq!(answers.len(), 11);
}

#[test]
fn what_a_plugin_leaves_behind_is_killed_and_not_waited_for() {
    let mut node = Node::new();
    node.rust("leaves-a-process");
    let answers = node.ask(PLENTY);
    assert_eq!(pair(&answers[0]).0, "robot");
    assert!(!runs(&node.pid("leaves-a-process")));
}

/// A plugin joins the process group of its caller and hangs. Killing the group that it was started
/// in reached nobody: it went on as a child of QEMU, and the sandbox waited two seconds more for
/// its end.
#[test]
fn a_plugin_that_leaves_its_group_is_killed_all_the_same() {
    let mut node = Node::new();
    node.rust("leaves-its-group");
    let answers = node.ask(BRIEFLY);
    refused(&answers[0], "took longer");
    let pid = node.pid("leaves-its-group");
    assert!(!Path::new("/proc").join(pid).exists());
}

#[test]
fn after_the_deadline_nothing_is_started() {
    let mut node = Node::new();
    let mark = node.path("mark");
    node.shell("script", &format!("touch {}", mark.display()));
    let answers = node.ask(Duration::ZERO);
    refused(&answers[0], "took longer");
    assert!(!mark.exists());
}

/// Who asks in a sandbox's place hangs itself, and the sandbox would wait for it without end.
#[test]
fn a_child_that_asks_has_a_limit_and_must_be_understood() {
    let mut node = Node::new();
    node.shell("script", "exit 3");
    let asked = |script: &str| {
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]);
        ask_by(command, &node.questions(), Instant::now() + Duration::from_secs(1))
    };
    let whole = r#"echo '[{"Err":{"why":"no reason","hung":false}}]'"#;
    for (script, words) in [
        ("sleep 3600 & sleep 3600", "took longer"),
        ("exit 9", "exit code 9"),
        ("echo hunter2", "it is not whole"),
        ("echo '[]'", "it is not whole"),
        ("head -c 300000 /dev/zero", "more than 262144 bytes"),
        (whole, "no reason"),
        // It has the questions.
        (&format!("grep -q reg.corp/probe && {whole}"), "no reason"),
    ] {
        let [answer] = asked(script).try_into().unwrap();
        refused(&answer, words);
    }
}

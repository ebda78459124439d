//! `imagepuller hub`: a client that does what Kata's agent does keeps its one connection, whatever
//! ends behind it.

use std::fs;
use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;

use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use ttrpc::Code;
use ttrpc::r#async::Client;

use crate::hub::{Hub, call, failure, pull, runtime};
use crate::served::Served;
use crate::support::{imagepuller, wait_until};

const PULL_SOCKET: &str = "pull.socket";

/// The hub's configuration, with its socket in a directory of the test.
fn configuration(served: &Served) -> String {
    let socket = served.path("cdh.sock");
    format!(
        "socket = \"unix://{}\"\n[kbc]\nname = \"cc_kbc\"\nurl = \"http://kbs:8080\"\n",
        socket.display()
    )
}

/// Writes a script. Another process does it: a child that a neighbour has just forked has all our
/// descriptors until its `exec`, and what somebody has open for writing cannot be executed.
fn script(path: &Path, text: &str) {
    let written = Command::new("/bin/sh")
        .args(["-c", "printf '#!/bin/bash\\n%s\\n' \"$1\" >\"$0\" && chmod 755 \"$0\""])
        .arg(path)
        .arg(text)
        .status();
    assert!(written.unwrap().success());
}

/// Starts a hub as the agent's `launch_process` does: its configuration if it is there, no socket
/// from before, then a wait for the new one. `drop_in` is what stands in the hub's place.
fn launch(served: &mut Served, drop_in: &Path) {
    let mut command = Command::new(drop_in);
    let configuration = served.path("cdh.toml");
    if configuration.exists() {
        command.arg("-c").arg(configuration);
    }
    let socket = served.path("cdh.sock");
    if socket.exists() {
        fs::remove_file(&socket).unwrap();
    }
    served.start(command.env("OCICRYPT_KEYPROVIDER_CONFIG", "/etc/ocicrypt_config.json"));
    wait_until(|| served.log(), || socket.exists());
}

async fn connect(served: &Served) -> Client {
    let stream = tokio::net::UnixStream::connect(served.path("cdh.sock")).await;
    Client::new(stream.unwrap().into())
}

/// The process that listens at a socket.
async fn listener_of(served: &Served, socket: &str) -> Pid {
    let path = served.path(socket);
    wait_until(|| served.log(), || std::os::unix::net::UnixStream::connect(&path).is_ok());
    let stream = tokio::net::UnixStream::connect(path).await.unwrap();
    Pid::from_raw(stream.peer_cred().unwrap().pid().unwrap()).unwrap()
}

/// The service answers, here with what is wrong with the reference.
async fn assert_pulls(served: &Served, client: &Client) {
    let status = failure(client.request(pull(served, "no digest")).await);
    assert_eq!(status.code(), Code::INVALID_ARGUMENT, "{status} {}", served.log());
}

async fn assert_hub(client: &Client) {
    let answer = call(client, "api.GetResourceService", "GetResource", vec![1]);
    assert_eq!(answer.await.unwrap().payload, b"answer: \x01");
}

#[test]
fn an_agent_that_starts_the_hub_gets_both() {
    // It listens before the measured document is written, which names it.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let mut served = Served::new();
    let [hub, started, seen, settings, drop_in] =
        ["hub", "started", "seen", "settings", "confidential-data-hub"]
            .map(|name| served.path(name));
    // The real hub: it says how it was started, and its socket is the test's.
    let words = "\"$$ $1 $OCICRYPT_KEYPROVIDER_CONFIG\"";
    let (log, copy) = (started.display(), seen.display());
    script(&hub, &format!("cp \"$2\" {copy}\necho {words} >>{log}\nexec sleep 600"));
    let text = format!(
        "hub = {hub:?}\npuller = \"{}\"\nserve = [\"--store\", {:?}, \"--config\", {:?}, \
        \"--measured\", {:?}]\n",
        served.address(PULL_SOCKET),
        served.path("store"),
        served.path("imagepuller.toml"),
        served.path("measured.toml")
    );
    fs::write(&settings, text).unwrap();
    // Installed as the hub, as a copy; only the settings are elsewhere than in an image. A
    // descriptor of this process would keep the copy from being executed.
    let program = imagepuller::<&str>([]).get_program().to_owned();
    fs::create_dir(served.path("bin")).unwrap();
    let installed = served.path("bin/confidential-data-hub");
    let mut cp = Command::new("cp");
    assert!(cp.args([&program, installed.as_os_str()]).status().unwrap().success());
    let (installed, settings) = (installed.display(), settings.display());
    script(&drop_in, &format!("exec {installed} --settings {settings} \"$@\""));
    fs::write(served.path("cdh.toml"), configuration(&served)).unwrap();
    let before = UnixListener::bind(served.path("cdh.sock")).unwrap();
    launch(&mut served, &drop_in);
    drop(before);

    runtime().block_on(async {
        let client = connect(&served).await;
        assert_pulls(&served, &client).await;
        let _hub = Hub::start(&served.path("upstream-cdh.sock")).await;
        assert_hub(&client).await;

        // A registry that says nothing keeps a pull waiting until its service dies.
        let image = format!("{}/a@sha256:{}", silent.local_addr().unwrap(), "0".repeat(64));
        let asked = pull(&served, &image);
        let waiting = tokio::spawn({
            let client = client.clone();
            async move { client.request(asked).await }
        });
        let _contact = tokio::task::spawn_blocking(move || silent.accept().unwrap()).await;
        let first = listener_of(&served, PULL_SOCKET).await;
        kill_process(first, Signal::KILL).unwrap();
        let status = failure(waiting.await.unwrap());
        assert_eq!(status.code(), Code::UNAVAILABLE);
        assert!(status.message.contains("the image puller"), "{status}");
        // The kernel closes what a dead process had one after the other: its socket may still take
        // a connection when the last one ended.
        let is_gone = || test_kill_process(first).is_err();
        wait_until(|| served.log(), is_gone);
        assert_pulls(&served, &client).await;
        assert_ne!(listener_of(&served, PULL_SOCKET).await, first);
        assert_hub(&client).await;
    });

    let lines = || fs::read_to_string(&started).unwrap_or_default();
    wait_until(lines, || lines().lines().count() == 1);
    let line = lines();
    let (pid, rest) = line.trim_end().split_once(' ').unwrap();
    assert_eq!(rest, "-c /etc/ocicrypt_config.json");
    let moved = fs::read_to_string(&seen).unwrap();
    assert!(moved.contains("upstream-cdh.sock\"") && moved.contains("http://kbs:8080"), "{moved}");
    kill_process(Pid::from_raw(pid.parse().unwrap()).unwrap(), Signal::KILL).unwrap();
    wait_until(lines, || lines().lines().count() == 2);
    let second = lines().lines().nth(1).unwrap().split_once(' ').unwrap().0.parse().unwrap();

    assert!(served.terminate().success(), "{}", served.log());
    assert!(test_kill_process(Pid::from_raw(second).unwrap()).is_err(), "the hub still runs");
    assert!(!served.path("cdh.sock").exists() && !served.path(PULL_SOCKET).exists());
}

#[test]
fn an_agent_that_starts_nothing_survives_restarts_of_the_units() {
    let mut front = Served::new();
    let settings = format!("puller = \"{}\"\n", front.address(PULL_SOCKET));
    fs::write(front.path("settings"), settings).unwrap();
    fs::write(front.path("named.toml"), configuration(&front)).unwrap();
    let mut command = imagepuller(["hub", "--settings"]);
    command.arg(front.path("settings"));
    front.start(command.env("CDH_CONFIG", front.path("named.toml")));
    front.wait_for("cdh.sock");

    runtime().block_on(async {
        let client = connect(&front).await;
        for _ in 0..2 {
            let mut units = Served::new();
            let mut command = units.command(&[]);
            units.start(command.args(["--listen", &front.address(PULL_SOCKET)]));
            let mut hub = Hub::start(&front.path("upstream-cdh.sock")).await;
            assert_pulls(&front, &client).await;
            assert_hub(&client).await;
            hub.stop().await;
            assert!(units.terminate().success());
        }
    });
    let moved = fs::read_to_string(front.path("upstream-cdh.toml")).unwrap();
    assert!(moved.contains("upstream-cdh.sock\""), "{moved}");
    assert!(front.terminate().success());
}

#[test]
fn privileged_a_configuration_with_a_mistake_does_not_stop_pulls() {
    let mut front = Served::new();
    let settings = format!("puller = \"{}\"\n", front.address(PULL_SOCKET));
    fs::write(front.path("settings"), settings).unwrap();
    fs::write(front.path("cdh.toml"), "[kbc\n").unwrap();
    // At the place that every guest has, in a /run that no other process sees.
    let program = imagepuller::<&str>([]).get_program().to_owned();
    let mut command = Command::new("unshare");
    command.args(["--mount", "sh", "-c"]);
    command.arg("mount -t tmpfs tmpfs /run && exec \"$0\" hub -c \"$1\" --settings \"$2\"");
    command.arg(program).args(["cdh.toml", "settings"].map(|name| front.path(name)));
    front.start(&mut command);
    let run = format!("/proc/{}/root/run/confidential-containers", front.id());
    let socket = Path::new(&run).join("cdh.sock");
    wait_until(|| front.log(), || std::os::unix::net::UnixStream::connect(&socket).is_ok());

    let mut puller = Served::new();
    let mut command = puller.command(&[]);
    puller.start(command.args(["--listen", &front.address(PULL_SOCKET)]));
    runtime().block_on(async {
        let stream = tokio::net::UnixStream::connect(&socket).await.unwrap();
        let client = Client::new(stream.into());
        assert_pulls(&front, &client).await;
        let status = failure(call(&client, "api.GetResourceService", "GetResource", vec![]).await);
        assert_eq!(status.code(), Code::UNIMPLEMENTED);
        assert!(status.message.contains("cdh.toml: "), "{status}");
    });
    assert!(!Path::new(&run).join("upstream-cdh.toml").exists());
    assert!(front.terminate().success());
}

#[test]
fn settings_with_a_mistake_are_65() {
    let served = Served::new();
    let path = served.path("settings");
    fs::write(&path, "hub = \"/nonexistent\"\n").unwrap();
    let mut command = imagepuller(["hub", "--settings"]);
    let output = command.arg(&path).output().unwrap();
    assert_eq!(output.status.code(), Some(65));
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(text.contains("hub: /nonexistent: No such file"), "{text}");
}

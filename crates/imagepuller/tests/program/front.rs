//! `imagepuller hub`: a client that does what Kata's agent does keeps its one connection, whatever
//! ends behind it.

use std::fs;
use std::net::TcpListener;
use std::path::Path;

use rustix::process::{Pid, Signal, kill_process};
use ttrpc::Code;
use ttrpc::r#async::Client;

use crate::hub::{Hub, call, failure, pull, runtime};
use crate::served::Served;
use crate::support::wait_until;

/// What the hub sees as `/run/guest-services/imagepull.socket`.
const PULL_SOCKET: &str = "run/imagepull.socket";

/// The hub's configuration, with its socket in a directory of the test.
fn configuration(served: &Served) -> String {
    let socket = served.path("cdh.sock");
    format!(
        "socket = \"unix://{}\"\n[kbc]\nname = \"cc_kbc\"\nurl = \"http://kbs:8080\"\n",
        socket.display()
    )
}

async fn connect(served: &Served) -> Client {
    let stream = tokio::net::UnixStream::connect(served.path("cdh.sock")).await;
    Client::new(stream.unwrap().into())
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
fn privileged_an_agents_connection_survives_restarts_behind_it() {
    vm_harness::needs_root!();
    // It listens before the measured document is written, which names it.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let image = format!("{}/a@sha256:{}", silent.local_addr().unwrap(), "0".repeat(64));
    let mut front = Served::new();
    fs::write(front.path("named.toml"), configuration(&front)).unwrap();
    front.start(front.hub().env("CDH_CONFIG", front.path("named.toml")));
    front.wait_for("cdh.sock");

    runtime().block_on(async {
        let client = connect(&front).await;
        for round in 0..2 {
            let mut units = Served::new();
            let mut command = units.command(&[]);
            units.start(command.args(["--listen", &front.address(PULL_SOCKET)]));
            let mut hub = Hub::start(&front.path("upstream-cdh.sock")).await;
            assert_pulls(&front, &client).await;
            assert_hub(&client).await;
            hub.stop().await;
            if round > 0 {
                assert!(units.terminate().success());
                return;
            }
            // A registry that says nothing keeps a pull waiting until its service dies.
            let (client, asked) = (client.clone(), pull(&front, &image));
            let waiting = tokio::spawn(async move { client.request(asked).await });
            let silent = silent.try_clone().unwrap();
            let _contact = tokio::task::spawn_blocking(move || silent.accept().unwrap()).await;
            let id = Pid::from_raw(units.id().try_into().unwrap()).unwrap();
            kill_process(id, Signal::KILL).unwrap();
            units.end();
            let status = failure(waiting.await.unwrap());
            assert_eq!(status.code(), Code::UNAVAILABLE);
            assert!(status.message.contains("the image puller"), "{status}");
        }
    });
    let moved = fs::read_to_string(front.path("upstream-cdh.toml")).unwrap();
    assert!(moved.contains("upstream-cdh.sock\"") && moved.contains("http://kbs:8080"), "{moved}");
    assert!(front.terminate().success());
    assert!(!front.path("cdh.sock").exists());
}

#[test]
fn privileged_a_configuration_with_a_mistake_does_not_stop_pulls() {
    vm_harness::needs_root!();
    let mut front = Served::new();
    fs::write(front.path("cdh.toml"), "[kbc\n").unwrap();
    // At the place that every guest has, in a /run that no other process sees.
    front.start(front.hub().arg("-c").arg(front.path("cdh.toml")));
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

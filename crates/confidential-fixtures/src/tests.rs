//! The servers against recordings of the real programs, and against clients that are none of ours.

use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::process::Command;

use test_http::{Server, Tunnel};

use crate::{AttestationAgent, DataHub, EventLog, Vault, recorded_bytes, recorded_call};
use vm_harness::Scratch;

const PATH: &str = "default/key/image";
const SECRET: &[u8] = b"\x00the secret\xff";

fn vault() -> Vault {
    Vault::new().with(PATH, SECRET)
}

#[test]
fn an_attestation_agent_answers_as_the_recorded_one() {
    let scratch = Scratch::new().unwrap();
    let [request, recorded] = recorded_call("aa-extend-runtime-measurement").unwrap();
    for (event_log, expected) in [(EventLog::Off, 0), (EventLog::Kept, 1)] {
        let socket = scratch.path().join(format!("{event_log:?}.sock"));
        let agent = AttestationAgent::start(&socket, event_log).unwrap();
        let mut stream = UnixStream::connect(agent.socket()).unwrap();
        stream.write_all(&request).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        assert_eq!(answer == recorded, event_log == EventLog::Off);
        assert_eq!(agent.log(), vec!["d o c"; expected]);
    }
}

#[test]
fn the_offline_file_is_read_again() {
    let scratch = Scratch::new().unwrap();
    let file = scratch.write("offline.json", vault().offline_file()).unwrap();
    assert_eq!(Vault::load(&file).unwrap().get(PATH), Some(SECRET));
    assert!(!format!("{:?}", vault()).contains("secret"));
}

#[test]
fn a_tunnel_keeps_what_passes() {
    let server = Server::always(test_http::reply("200 OK", "", "the answer"));
    let tunnel = Tunnel::start().unwrap();
    let port = server.port;
    let proxy = format!("http://127.0.0.1:{}", tunnel.port);
    let url = format!("http://server.test:{port}/{PATH}");
    let output = Command::new("curl")
        .args(["--silent", "--noproxy", "", "--proxytunnel", "--proxy", &proxy, &url])
        .output()
        .unwrap();
    assert_eq!(output.stdout, b"the answer");
    assert_eq!(tunnel.targets(), [format!("server.test:{port}")]);
    let kept = tunnel.text();
    assert!(kept.starts_with("CONNECT server.test:"), "{kept}");
    assert!(kept.contains("GET /default/key/image"), "{kept}");
}

/// To the byte, refusals included.
#[test]
fn stand_ins_answer_as_the_real_programs_did() {
    let scratch = Scratch::new().unwrap();
    let socket = |name| scratch.path().join(name);
    let vault = Vault::new()
        .with("default/misc/secret", "correct horse battery staple")
        .with("default/image-kek/k1", recorded_bytes("keyprovider/kek.bin").unwrap());
    let hub = DataHub::start(&socket("cdh"), vault).unwrap();
    let _agent = AttestationAgent::start(&socket("aa"), EventLog::Off).unwrap();
    for (name, server) in [
        ("made-aa-unknown-method", "aa"),
        ("cdh-getresource-bad-uri", "cdh"),
        ("cdh-getresource-denied", "cdh"),
        ("cdh-getresource-missing", "cdh"),
        ("cdh-getresource-ok", "cdh"),
        ("cdh-unknown-service", "cdh"),
        ("cdh-unwrapkey-ok", "cdh"),
        ("kata-getresource-ok", "cdh"),
        ("made-cdh-unknown-method", "cdh"),
        ("made-cdh-unknown-service", "cdh"),
    ] {
        let [request, expected] = recorded_call(name).unwrap();
        let mut stream = UnixStream::connect(socket(server)).unwrap();
        stream.write_all(&request).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).unwrap();
        assert_eq!(answer, expected, "{name}");
    }
    assert_eq!(hub.asked().len(), 6);
}

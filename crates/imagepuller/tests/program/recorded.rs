//! What the clients of Kata's agent and of CoCo's hub really send, and what the hub answers: on
//! their way through `imagepuller hub` not a byte changes.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};

use confidential_fixtures::recorded_call;

use crate::served::Served;
use crate::support::LIMIT;

const PULLS: [&str; 2] = ["kata-pull-ok", "kata-pull-missing"];

const OTHERS: [&str; 15] = [
    "cdh-getresource-bad-uri",
    "cdh-getresource-denied",
    "cdh-getresource-missing",
    "cdh-getresource-ok",
    "cdh-unknown-service",
    "cdh-unseal-bad-signature",
    "cdh-unseal-no-key",
    "cdh-unseal-ok",
    "cdh-unseal-ok-2",
    "cdh-unseal-ok-3",
    "cdh-unwrapkey-ok",
    "kata-getresource-ok",
    "kata-unseal-ok",
    "made-cdh-unknown-method",
    "made-cdh-unknown-service",
];

/// Expects `bytes` at an end.
fn assert_arrives(bytes: &[u8], mut at: &UnixStream, what: &str) {
    at.set_read_timeout(Some(LIMIT)).unwrap();
    let mut arrived = vec![0; bytes.len()];
    at.read_exact(&mut arrived).unwrap();
    assert!(arrived == bytes, "{what}: changed on the way");
}

#[test]
fn privileged_recorded_calls_reach_who_they_are_for_unchanged() {
    vm_harness::needs_root!();
    let mut front = Served::new();
    let mut command = front.hub();
    let [puller, hub] = ["run/imagepull.socket", "upstream-cdh.sock"]
        .map(|name| UnixListener::bind(front.path(name)).unwrap());
    let text = format!("socket = \"{}\"\n", front.address("cdh.sock"));
    fs::write(front.path("cdh.toml"), text).unwrap();
    front.start(command.arg("-c").arg(front.path("cdh.toml")));
    front.wait_for("cdh.sock");

    for (names, listener) in [(&PULLS[..], puller), (&OTHERS, hub)] {
        for name in names {
            let [request, answer] = recorded_call(name).unwrap();
            let mut caller = UnixStream::connect(front.path("cdh.sock")).unwrap();
            caller.write_all(&request).unwrap();
            let (mut service, _) = listener.accept().unwrap();
            assert_arrives(&request, &service, name);
            service.write_all(&answer).unwrap();
            assert_arrives(&answer, &caller, name);
        }
    }
    assert!(front.terminate().success());
}

//! Sockets that the service manager made before the service was there.

use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::Command;

use imagepuller_api::client::ImagePullServiceClient;
use imagepuller_api::message::ImagePullRequest;
use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use ttrpc::Code;
use ttrpc::r#async::Client;

use crate::hub::runtime;
use crate::served::Served;
use crate::support::LIMIT;

/// A copy that the shell may pass on, with a number far above those that the service's sockets get
/// there: the shell works its redirections off one after the other, and `3<&4 4<&3` would give the
/// service one socket twice.
fn inheritable(descriptor: impl AsFd) -> OwnedFd {
    let descriptor = fcntl_dupfd_cloexec(descriptor, 100).unwrap();
    fcntl_setfd(&descriptor, FdFlags::empty()).unwrap();
    descriptor
}

/// Starts the service as systemd does: sockets from descriptor 3 on, and the process id that only
/// the new process knows.
fn start(served: &mut Served, sockets: &[OwnedFd], listen: &[&str]) {
    let redirections: Vec<_> = sockets
        .iter()
        .zip(3..)
        .map(|(socket, number)| format!("{number}<&{}", socket.as_raw_fd()))
        .collect();
    let script = format!(
        "LISTEN_PID=$$ LISTEN_FDS={} exec \"$0\" \"$@\" {}",
        sockets.len(),
        redirections.join(" ")
    );
    let command = served.command(listen);
    let mut shell = Command::new("/bin/bash");
    shell.args(["-c", &script]).arg(command.get_program());
    served.start(shell.args(command.get_args()));
}

/// What a call is answered with that pulls nothing.
fn refusal(stream: UnixStream) -> Code {
    stream.set_nonblocking(true).unwrap();
    runtime().block_on(async {
        let stream = tokio::net::UnixStream::from_std(stream).unwrap();
        let client = ImagePullServiceClient::new(Client::new(stream.into()));
        let time = ttrpc::context::with_duration(LIMIT);
        let request = ImagePullRequest::default();
        match client.pull_image(time, &request).await {
            Err(ttrpc::Error::RpcStatus(status)) => status.code(),
            other => panic!("{other:?}"),
        }
    })
}

#[test]
fn sockets_of_a_service_manager_are_served_and_stay() {
    let mut served = Served::new();
    let paths = ["first.socket", "cdh.sock"].map(|name| served.path(name));
    let listeners = paths.each_ref().map(|path| UnixListener::bind(path).unwrap());
    // Callers that were earlier than the service.
    let early = paths.each_ref().map(|path| UnixStream::connect(path).unwrap());
    let own = served.path("own.socket");
    start(&mut served, &listeners.map(inheritable), &["own.socket"]);
    for stream in early {
        assert_eq!(refusal(stream), Code::INVALID_ARGUMENT);
    }
    let stream = UnixStream::connect(&own).unwrap();
    assert_eq!(refusal(stream), Code::INVALID_ARGUMENT);
    // One that is taken away is made anew, and is then the service's own.
    let [removed, kept] = paths;
    std::fs::remove_file(&removed).unwrap();
    served.wait_for("first.socket");
    assert!(served.terminate().success());
    assert!(!own.exists() && !removed.exists());
    assert!(kept.metadata().unwrap().file_type().is_socket());
}

#[test]
fn descriptors_that_are_no_sockets_are_refused() {
    let mut served = Served::new();
    let file = inheritable(tempfile::tempfile().unwrap());
    start(&mut served, &[file], &[]);
    assert_eq!(served.end().code(), Some(70));
    let (log, expected) = (served.log(), "cannot be taken from the service manager");
    assert!(log.contains(expected), "{log}");
}

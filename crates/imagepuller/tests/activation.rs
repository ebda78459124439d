//! Sockets that the service manager made before the service was there.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use std::fs::File;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use imagepuller_api::client::ImagePullServiceClient;
use imagepuller_api::message::ImagePullRequest;
use rustix::io::{FdFlags, fcntl_dupfd_cloexec, fcntl_setfd};
use rustix::process::{Pid, Signal, kill_process};
use ttrpc::Code;
use ttrpc::r#async::Client;

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
fn serve(directory: &Path, sockets: &[OwnedFd], more: &str) -> Child {
    let redirections: Vec<_> = sockets
        .iter()
        .zip(3..)
        .map(|(socket, number)| format!("{number}<&{}", socket.as_raw_fd()))
        .collect();
    let script = format!(
        "LISTEN_PID=$$ LISTEN_FDS={} exec \"$0\" serve --store \"$1/store\" \
        --config \"$1/none.toml\" {more} {}",
        sockets.len(),
        redirections.join(" ")
    );
    Command::new("/bin/bash")
        .args(["-c", &script, env!("CARGO_BIN_EXE_imagepuller")])
        .arg(directory)
        .stdin(Stdio::null())
        .stderr(File::create(directory.join("log")).unwrap())
        .spawn()
        .unwrap()
}

/// What a call is answered with that pulls nothing.
fn refusal(stream: UnixStream) -> Code {
    stream.set_nonblocking(true).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let stream = tokio::net::UnixStream::from_std(stream).unwrap();
        let client = ImagePullServiceClient::new(Client::new(stream.into()));
        let time = ttrpc::context::with_duration(Duration::from_secs(60));
        let request = ImagePullRequest::default();
        match client.pull_image(time, &request).await {
            Err(ttrpc::Error::RpcStatus(status)) => status.code(),
            other => panic!("{other:?}"),
        }
    })
}

#[test]
fn sockets_of_a_service_manager_are_served_and_stay() {
    let directory = tempfile::tempdir().unwrap();
    let paths = ["first.socket", "cdh.sock"].map(|name| directory.path().join(name));
    let listeners = paths
        .each_ref()
        .map(|path| UnixListener::bind(path).unwrap());
    // Callers that were earlier than the service.
    let early = paths
        .each_ref()
        .map(|path| UnixStream::connect(path).unwrap());
    let own = directory.path().join("own.socket");
    let sockets = listeners.map(inheritable);
    let more = format!("--listen unix:{}", own.display());
    let mut service = serve(directory.path(), &sockets, &more);
    for stream in early {
        assert_eq!(refusal(stream), Code::INVALID_ARGUMENT);
    }
    assert_eq!(
        refusal(UnixStream::connect(&own).unwrap()),
        Code::INVALID_ARGUMENT
    );
    let pid = Pid::from_child(&service);
    kill_process(pid, Signal::TERM).unwrap();
    assert!(service.wait().unwrap().success());
    assert!(!own.exists());
    for path in paths {
        assert!(path.metadata().unwrap().file_type().is_socket());
    }
}

#[test]
fn descriptors_that_are_no_sockets_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let file = inheritable(tempfile::tempfile().unwrap());
    let mut service = serve(directory.path(), &[file], "");
    assert_eq!(service.wait().unwrap().code(), Some(70));
    let log = std::fs::read_to_string(directory.path().join("log")).unwrap();
    assert!(
        log.contains("cannot be taken from the service manager"),
        "{log}"
    );
}

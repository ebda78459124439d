//! What a service manager hears, on a real datagram socket.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use std::fs::File;
use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

/// Longer than any start takes; a test that waits for nothing needs a bound.
const LIMIT: Duration = Duration::from_secs(60);

fn serve(directory: &Path, notify: Option<&Path>) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_imagepuller"));
    command.arg("serve");
    for name in ["first.socket", "second.socket"] {
        let path = directory.join(name);
        command.args(["--listen", &format!("unix:{}", path.display())]);
    }
    command
        .arg("--store")
        .arg(directory.join("store"))
        .arg("--config")
        .arg(directory.join("imagepuller.toml"))
        .env_remove("NOTIFY_SOCKET")
        .env_remove("WATCHDOG_USEC")
        .stderr(File::create(directory.join("log")).unwrap())
        .stdin(Stdio::null());
    if let Some(socket) = notify {
        command.env("NOTIFY_SOCKET", socket);
    }
    command.spawn().unwrap()
}

fn terminate(service: &mut Child) {
    let pid = Pid::from_raw(i32::try_from(service.id()).unwrap()).unwrap();
    kill_process(pid, Signal::TERM).unwrap();
    assert!(service.wait().unwrap().success());
}

fn receive(manager: &UnixDatagram) -> String {
    let mut buffer = [0; 4096];
    let length = manager.recv(&mut buffer).unwrap();
    String::from_utf8(buffer[..length].to_vec()).unwrap()
}

#[test]
fn ready_when_the_sockets_listen_and_stopping_when_told_to() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(LIMIT)).unwrap();

    let mut service = serve(directory.path(), Some(&path));
    let ready = receive(&manager);
    let lines: Vec<_> = ready.lines().collect();
    assert_eq!(lines[0], "READY=1");
    assert!(lines[1].starts_with("STATUS=listening on /"), "{ready}");
    assert_eq!(lines.len(), 2, "{ready}");
    for name in ["first.socket", "second.socket"] {
        let socket = directory.path().join(name);
        assert!(lines[1].contains(&*socket.to_string_lossy()), "{ready}");
        assert!(socket.metadata().unwrap().file_type().is_socket());
        std::os::unix::net::UnixStream::connect(socket).unwrap();
    }

    terminate(&mut service);
    assert_eq!(
        receive(&manager),
        "STOPPING=1\nSTATUS=waiting for pulls to end\n"
    );
    manager.set_nonblocking(true).unwrap();
    let more = manager.recv(&mut [0; 1]).unwrap_err();
    assert_eq!(more.kind(), ErrorKind::WouldBlock);
}

#[test]
fn nobody_who_listens_is_no_reason_not_to_serve() {
    for notify in [None, Some(Path::new("/nonexistent/notify"))] {
        let directory = tempfile::tempdir().unwrap();
        let mut service = serve(directory.path(), notify);
        let socket = directory.path().join("second.socket");
        let start = std::time::Instant::now();
        while std::os::unix::net::UnixStream::connect(&socket).is_err() {
            assert!(start.elapsed() < LIMIT);
            std::thread::sleep(Duration::from_millis(10));
        }
        terminate(&mut service);
        let log = std::fs::read_to_string(directory.path().join("log")).unwrap();
        assert_eq!(
            log.contains("the service manager cannot be told"),
            notify.is_some(),
            "{log}"
        );
    }
}

#[test]
fn a_manager_that_wants_signs_of_life_gets_them() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("notify");
    let manager = UnixDatagram::bind(&path).unwrap();
    manager.set_read_timeout(Some(LIMIT)).unwrap();
    let mut service = Command::new(env!("CARGO_BIN_EXE_imagepuller"))
        .args(["serve", "--listen"])
        .arg(format!("unix:{}", directory.path().join("s").display()))
        .arg("--store")
        .arg(directory.path().join("store"))
        .arg("--config")
        .arg(directory.path().join("imagepuller.toml"))
        .env("NOTIFY_SOCKET", &path)
        .env("WATCHDOG_USEC", "200000")
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    assert!(receive(&manager).starts_with("READY=1"));
    for _ in 0..3 {
        assert_eq!(receive(&manager), "WATCHDOG=1\n");
    }
    terminate(&mut service);
}

//! What a service manager hears, on a real datagram socket.

use std::io::ErrorKind;
use std::os::unix::fs::FileTypeExt as _;
use std::os::unix::net::{UnixDatagram, UnixStream};
use std::path::Path;

use crate::served::Served;
use crate::support::LIMIT;

const SOCKETS: [&str; 2] = ["first.socket", "second.socket"];

/// A service manager's socket, and the path where a service finds it.
fn manager(served: &Served) -> UnixDatagram {
    let manager = UnixDatagram::bind(served.path("notify")).unwrap();
    manager.set_read_timeout(Some(LIMIT)).unwrap();
    manager
}

fn receive(manager: &UnixDatagram) -> String {
    let mut buffer = [0; 4096];
    let length = manager.recv(&mut buffer).unwrap();
    String::from_utf8(buffer[..length].to_vec()).unwrap()
}

#[test]
fn ready_when_the_sockets_listen_and_stopping_when_told_to() {
    let mut served = Served::new();
    let manager = manager(&served);
    let notify = served.path("notify");
    served.start(served.command(&SOCKETS).env("NOTIFY_SOCKET", notify));
    let ready = receive(&manager);
    let lines: Vec<_> = ready.lines().collect();
    assert_eq!(lines[0], "READY=1");
    assert!(lines[1].starts_with("STATUS=listening on /"), "{ready}");
    assert_eq!(lines.len(), 2, "{ready}");
    for socket in SOCKETS.map(|name| served.path(name)) {
        assert!(lines[1].contains(&*socket.to_string_lossy()), "{ready}");
        assert!(socket.metadata().unwrap().file_type().is_socket());
        UnixStream::connect(socket).unwrap();
    }

    assert!(served.terminate().success());
    let stopping = "STOPPING=1\nSTATUS=waiting for pulls to end\n";
    assert_eq!(receive(&manager), stopping);
    manager.set_nonblocking(true).unwrap();
    let more = manager.recv(&mut [0; 1]).unwrap_err();
    assert_eq!(more.kind(), ErrorKind::WouldBlock);
}

#[test]
fn nobody_who_listens_is_no_reason_not_to_serve() {
    for notify in [None, Some(Path::new("/nonexistent/notify"))] {
        let mut served = Served::new();
        let mut command = served.command(&SOCKETS);
        served.start(command.envs(notify.map(|path| ("NOTIFY_SOCKET", path))));
        served.wait_for(SOCKETS[1]);
        assert!(served.terminate().success());
        let log = served.log();
        let is_said = log.contains("the service manager cannot be told");
        assert_eq!(is_said, notify.is_some(), "{log}");
    }
}

#[test]
fn a_manager_that_wants_signs_of_life_gets_them() {
    let mut served = Served::new();
    let manager = manager(&served);
    let mut command = served.command(&SOCKETS);
    command.env("NOTIFY_SOCKET", served.path("notify"));
    served.start(command.env("WATCHDOG_USEC", "200000"));
    assert!(receive(&manager).starts_with("READY=1"));
    for _ in 0..3 {
        assert_eq!(receive(&manager), "WATCHDOG=1\n");
    }
    assert!(served.terminate().success());
}

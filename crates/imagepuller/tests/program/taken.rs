//! Sockets whose names another process removes or takes, as Kata's agent does with the hub's.

use std::fs;
use std::os::unix::net::{UnixListener, UnixStream};

use crate::served::Served;
use crate::support::wait_until;

const REMEDY: &str = "agent.guest_components_procs=none";

fn wait_for_log(served: &Served, words: &str) {
    wait_until(|| served.log(), || served.log().contains(words));
}

#[test]
fn a_removed_socket_comes_back() {
    for (name, has_remedy) in [("cdh.sock", true), ("other.socket", false)] {
        let mut served = Served::new();
        served.start(&mut served.command(&[name]));
        served.wait_for(name);
        fs::remove_file(served.path(name)).unwrap();
        served.wait_for(name);
        wait_for_log(&served, "another process removed the socket");
        assert_eq!(served.log().contains(REMEDY), has_remedy);
        assert!(served.terminate().success());
        assert!(!served.path(name).exists());
    }
}

#[test]
fn a_socket_of_a_living_process_is_left_to_it() {
    let mut served = Served::new();
    served.start(&mut served.command(&["cdh.sock"]));
    served.wait_for("cdh.sock");
    let early = UnixStream::connect(served.path("cdh.sock")).unwrap();
    let other = UnixListener::bind(served.path("new")).unwrap();
    fs::rename(served.path("new"), served.path("cdh.sock")).unwrap();
    wait_for_log(&served, "is served by another process already");
    assert!(served.log().contains(REMEDY), "{}", served.log());
    drop(other);
    wait_for_log(&served, "it is there again");
    served.wait_for("cdh.sock");
    drop(early);

    fs::write(served.path("new"), "precious").unwrap();
    fs::rename(served.path("new"), served.path("cdh.sock")).unwrap();
    wait_for_log(&served, "is the name of something that is no socket");
    assert!(served.terminate().success());
    assert_eq!(fs::read(served.path("cdh.sock")).unwrap(), b"precious");
}

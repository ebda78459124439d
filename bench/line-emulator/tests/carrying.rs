//! Packets over a real line between two namespaces: none early, none invented, none overtaken.
//!
//! How late they are is the machine's business; nothing here asserts it.

#![allow(clippy::unwrap_used, reason = "test code")]

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use line_emulator::{FAR_ADDRESS, Line, NEAR_ADDRESS, Quality, Way};
use nix::sched::{CloneFlags, setns, unshare};
use serde_json::Value;
use test_command::{Folder, LIMIT, skipped_without_root, wait_until};

const DELAY: Duration = Duration::from_millis(40);

/// Runs a test in a namespace of its own, with a line to another one.
fn with_line(quality: Quality, test: impl FnOnce(&Line) + Send + 'static) {
    if skipped_without_root("a network namespace") {
        return;
    }
    let alone = thread::spawn(move || {
        unshare(CloneFlags::CLONE_NEWNET).unwrap();
        test(&Line::new(quality).unwrap());
    });
    alone.join().unwrap();
}

/// What `work` gives at the near end.
fn near<T: Send>(line: &Line, work: impl FnOnce() -> T + Send) -> T {
    let namespace = File::open(line.near()).unwrap();
    thread::scope(|scope| {
        let work = scope.spawn(move || {
            setns(namespace, CloneFlags::CLONE_NEWNET).unwrap();
            work()
        });
        work.join().unwrap()
    })
}

fn udp(address: &str) -> UdpSocket {
    UdpSocket::bind((address, 0)).unwrap()
}

fn quality(bytes_per_sec: Option<u64>, queue_bytes: Option<u64>) -> Quality {
    Quality { delay: DELAY, bytes_per_sec, queue_bytes }
}

/// Sends numbered packets of 1,000 bytes one `way` and returns the numbers that arrive: as many as
/// were taken, and then no more.
fn numbers_that_arrive(
    from: &UdpSocket,
    to: &UdpSocket,
    count: u16,
    way: impl Fn() -> Way,
) -> Vec<u16> {
    let (target, sender) = (to.local_addr().unwrap(), from.local_addr().unwrap());
    for number in 0..count {
        let mut packet = [7; 1000];
        packet[..2].copy_from_slice(&number.to_be_bytes());
        from.send_to(&packet, target).unwrap();
    }
    wait_until("all are taken or lost", || way().packets + way().lost == u64::from(count));
    let receive = || {
        let mut packet = [0; 2000];
        let (length, from) = to.recv_from(&mut packet)?;
        assert_eq!((length, from), (1000, sender));
        assert!(packet[2..length].iter().all(|byte| *byte == 7));
        std::io::Result::Ok(u16::from_be_bytes([packet[0], packet[1]]))
    };
    to.set_read_timeout(Some(LIMIT)).unwrap();
    let numbers = (0..way().packets).map(|_| receive().unwrap()).collect();
    to.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    assert_eq!(receive().unwrap_err().kind(), ErrorKind::WouldBlock);
    numbers
}

#[test]
fn privileged_nothing_arrives_before_the_delay() {
    with_line(quality(None, None), |line| {
        let far = udp(FAR_ADDRESS);
        let near = near(line, || udp(NEAR_ADDRESS));
        let mut buffer = [0; 100];
        for number in 0..5 {
            let start = Instant::now();
            near.send_to(&[number], far.local_addr().unwrap()).unwrap();
            let (_, back) = far.recv_from(&mut buffer).unwrap();
            assert!(start.elapsed() >= DELAY);
            far.send_to(&[number], back).unwrap();
            assert_eq!(near.recv(&mut buffer).unwrap(), 1);
            assert_eq!(buffer[0], number);
            assert!(start.elapsed() >= DELAY * 2);
        }
    });
}

#[test]
fn privileged_all_arrive_in_their_order() {
    with_line(quality(None, None), |line| {
        let far = udp(FAR_ADDRESS);
        let near = near(line, || udp(NEAR_ADDRESS));
        let all: Vec<u16> = (0..60).collect();
        assert_eq!(numbers_that_arrive(&near, &far, 60, || line.counts().up), all);
        assert_eq!(numbers_that_arrive(&far, &near, 60, || line.counts().down), all);
        let counts = line.counts();
        for way in [counts.up, counts.down] {
            assert_eq!((way.packets, way.bytes, way.lost), (60, 61_680, 0));
        }
    });
}

#[test]
fn privileged_a_full_queue_loses_the_rest() {
    // The queue holds what the line sends in a second; hardly anything is sent meanwhile.
    with_line(quality(Some(20_000), Some(20_000)), |line| {
        let far = udp(FAR_ADDRESS);
        let near = near(line, || udp(NEAR_ADDRESS));
        let numbers = numbers_that_arrive(&near, &far, 200, || line.counts().up);
        assert!(numbers.is_sorted(), "{numbers:?}");
        assert!(numbers.len() >= 19, "{numbers:?}");
        let way = line.counts().up;
        assert!(way.lost > 0, "{way:?}");
    });
}

#[test]
fn privileged_tcp_works_and_connections_are_counted() {
    with_line(quality(Some(10_000_000), None), |line| {
        let server = TcpListener::bind((FAR_ADDRESS, 0)).unwrap();
        let address = server.local_addr().unwrap();
        let sent: Vec<u8> = (0..300_000_u32).map(|number| number as u8).collect();
        let expected = sent.clone();
        let serving = thread::spawn(move || {
            // Nobody has an answer before both have asked.
            let mut streams = [(); 2].map(|()| server.accept().unwrap().0);
            for stream in &mut streams {
                stream.read_exact(&mut [0; 3]).unwrap();
            }
            for mut stream in streams {
                stream.write_all(&sent).unwrap();
            }
        });
        near(line, move || {
            let streams = [(); 2].map(|()| TcpStream::connect(address).unwrap());
            for mut stream in &streams {
                stream.write_all(b"get").unwrap();
            }
            for mut stream in streams {
                let mut received = Vec::new();
                stream.read_to_end(&mut received).unwrap();
                assert!(received == expected);
            }
        });
        serving.join().unwrap();
        let counts = line.counts();
        assert_eq!((counts.connections, counts.waiting_at_most), (2, 2));
    });
}

#[test]
fn privileged_a_command_knows_no_other_way_and_the_line_goes_with_its_value() {
    with_line(quality(None, None), |line| {
        let mut show = Command::new("ip");
        show.args(["-brief", "-4", "address"]);
        let output = line.enter(&show).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        let names: Vec<&str> = text.split_whitespace().filter(|word| word.contains('/')).collect();
        assert_eq!(names, ["127.0.0.1/8", &format!("{NEAR_ADDRESS}/24")]);
        let second = Line::new(quality(None, None)).unwrap_err();
        assert!(format!("{second:#}").contains("interface far"), "{second:#}");
    });
    if skipped_without_root("a network namespace") {
        return;
    }
    let alone = thread::spawn(|| {
        unshare(CloneFlags::CLONE_NEWNET).unwrap();
        drop(Line::new(quality(None, None)).unwrap());
        wait_until("the interface goes", || Line::new(quality(None, None)).is_ok());
    });
    alone.join().unwrap();
}

#[test]
fn privileged_the_program_gives_back_its_commands_code_and_counts() {
    if skipped_without_root("a network namespace") {
        return;
    }
    let alone = thread::spawn(|| {
        unshare(CloneFlags::CLONE_NEWNET).unwrap();
        let folder = Folder::new();
        let report = folder.path("report.json");
        // Who does not listen refuses: one packet each way, and more only where the machine is so
        // busy that the first is sent again.
        let ask = format!("exec 3<>/dev/tcp/{FAR_ADDRESS}/9 || exit 7");
        let mut program = Command::new(env!("CARGO_BIN_EXE_line-emulator"));
        program.args(["--delay", "20", "--bandwidth", "10", "--report"]);
        program.arg(&report).args(["--", "bash", "-c", &ask]);
        let status = program.stderr(Stdio::null()).status().unwrap();
        assert_eq!(status.code(), Some(7));
        let report: Value = serde_json::from_slice(&std::fs::read(report).unwrap()).unwrap();
        assert_eq!(report["line"]["connections"], 1);
        for way in ["up", "down"] {
            let packets = report["line"][way]["packets"].as_u64().unwrap();
            assert!((1..=3).contains(&packets), "{report}");
        }
        assert!(report["wall_secs"].as_f64().unwrap() >= 0.04);
    });
    alone.join().unwrap();
}

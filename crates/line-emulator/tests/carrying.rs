//! Packets over a real line between two namespaces: none early, none invented, none overtaken.
//!
//! How late they are is the machine's business; nothing here asserts it.

#![allow(clippy::unwrap_used, reason = "test code")]

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use line_emulator::{FAR_ADDRESS, Line, NEAR_ADDRESS, Quality};
use nix::sched::{CloneFlags, setns, unshare};
use test_command::{skipped_without_root, wait_until};

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
    let socket = UdpSocket::bind((address, 0)).unwrap();
    socket
        .set_read_timeout(Some(Duration::from_secs(2)))
        .unwrap();
    socket
}

fn quality(bytes_per_sec: Option<u64>, queue_bytes: Option<u64>) -> Quality {
    Quality {
        delay: DELAY,
        bytes_per_sec,
        queue_bytes,
    }
}

/// Sends numbered packets of 1,000 bytes and returns the numbers that arrive until none comes.
fn numbers_that_arrive(from: &UdpSocket, to: &UdpSocket, count: u16) -> Vec<u16> {
    let target = to.local_addr().unwrap();
    for number in 0..count {
        let mut packet = [7; 1000];
        packet[..2].copy_from_slice(&number.to_be_bytes());
        from.send_to(&packet, target).unwrap();
    }
    let mut numbers = Vec::new();
    let mut buffer = [0; 2000];
    loop {
        match to.recv_from(&mut buffer) {
            Ok((length, sender)) => {
                assert_eq!(length, 1000);
                assert_eq!(sender, from.local_addr().unwrap());
                assert!(buffer[2..length].iter().all(|byte| *byte == 7));
                numbers.push(u16::from_be_bytes([buffer[0], buffer[1]]));
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                return numbers;
            }
        }
    }
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
        assert_eq!(numbers_that_arrive(&near, &far, 60), all);
        assert_eq!(numbers_that_arrive(&far, &near, 60), all);
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
        let numbers = numbers_that_arrive(&near, &far, 200);
        assert!(numbers.is_sorted(), "{numbers:?}");
        assert!(numbers.len() >= 19, "{numbers:?}");
        let way = line.counts().up;
        assert_eq!(way.packets, numbers.len() as u64);
        assert_eq!(way.packets + way.lost, 200);
        assert!(way.lost > 0);
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
            for _ in 0..2 {
                let (mut stream, _) = server.accept().unwrap();
                stream.read_exact(&mut [0; 3]).unwrap();
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
        let names: Vec<&str> = text
            .split_whitespace()
            .filter(|word| word.contains('/'))
            .collect();
        assert_eq!(names, ["127.0.0.1/8", &format!("{NEAR_ADDRESS}/24")]);
        let second = Line::new(quality(None, None)).unwrap_err();
        assert!(
            format!("{second:#}").contains("interface far"),
            "{second:#}"
        );
    });
    if skipped_without_root("a network namespace") {
        return;
    }
    let alone = thread::spawn(|| {
        unshare(CloneFlags::CLONE_NEWNET).unwrap();
        drop(Line::new(quality(None, None)).unwrap());
        wait_until("the interface goes", || {
            Line::new(quality(None, None)).is_ok()
        });
    });
    alone.join().unwrap();
}

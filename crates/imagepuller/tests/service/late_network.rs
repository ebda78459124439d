//! A network that comes after the request. An interface that comes late is a matter of a guest:
//! `tests/late_network.rs`.

use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

use fault_registry::{Content, FaultRegistry, Image, Layer, Script};
use test_http::pki::Authority;
use vm_harness::Scratch;

use crate::support::{Puller, wait_until};

pub const HOST: &str = "registry.late.test";

/// Longer than the five attempts that were once made, which took five seconds at most.
const LATE: Duration = Duration::from_secs(8);

/// Answers each question with 127.0.0.1 until the test ends (RFC 1035, section 4).
pub fn name_server() -> Ipv4Addr {
    // A port that resolvers ask; the addresses are for the taking.
    let mut addresses = (1..=u8::MAX).map(|last| Ipv4Addr::new(127, 53, 0, last));
    let found = addresses.find_map(|address| Some((address, UdpSocket::bind((address, 53)).ok()?)));
    let (address, socket) = found.expect("no address for a name server");
    std::thread::spawn(move || {
        let mut question = [0; 512];
        while let Ok((length, from)) = socket.recv_from(&mut question) {
            let mut answer = question[..length].to_vec();
            let is_ipv4 = answer.ends_with(&[0, 1, 0, 1]);
            // A response without an error, with one question and perhaps one answer to it.
            answer[2..12].copy_from_slice(&[0x81, 0x80, 0, 1, 0, u8::from(is_ipv4), 0, 0, 0, 0]);
            if is_ipv4 {
                answer.extend([0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 0, 0, 4, 127, 0, 0, 1]);
            }
            let _ = socket.send_to(&answer, from);
        }
    });
    address
}

/// A guest's `resolv.conf` is written when its network is there, which may be after its agent asks.
#[test]
fn privileged_a_name_server_that_is_known_later_is_asked() {
    vm_harness::needs_root!();
    let scratch = Scratch::new().unwrap();
    let authority = Authority::new("late").unwrap();
    let mut content = Content::default();
    let digest = Image::new(vec![Layer::gzip(&[("first", b"x")]).unwrap()]).publish(&mut content);
    let tls = fault_registry::Tls {
        identity: &authority.sign(&[HOST]).unwrap(),
        name: HOST,
        http: fault_registry::Http::One,
    };
    let registry = FaultRegistry::start(content, Script::new(), Some(&tls)).unwrap();
    let resolver = scratch.path().join("resolv.conf");
    // Nobody is asked yet: no name server, and that of this machine is none either.
    fs::write(&resolver, "nameserver 127.53.1.1\noptions timeout:1 attempts:1\n").unwrap();
    let roots = authority.certificate();
    let document = format!("[registries.\"{HOST}\"]\nca-certs = \"\"\"\n{roots}\"\"\"\n");
    let puller = Puller::start_with_resolver(&scratch, &document, &resolver);
    let image = format!("{HOST}:{}/team/app@{digest}", registry.address().port());
    let asked = Instant::now();
    let mut pull = puller.ask(&image, "late");
    let said = || puller.log().contains(HOST) && puller.log().contains("lookup");
    wait_until(|| puller.log(), said);
    std::thread::sleep(LATE.saturating_sub(asked.elapsed()));
    assert!(pull.try_wait().unwrap().is_none(), "{}", puller.log());
    fs::write(&resolver, format!("nameserver {}\n", name_server())).unwrap();
    assert!(pull.wait().unwrap().success(), "{}", puller.log());
}

/// A host that takes no connection, as one behind a wall that drops packets: nobody accepts, and
/// the queue is full.
struct Silent {
    listener: TcpListener,
    _queued: Vec<TcpStream>,
}

impl Silent {
    fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        // As short as the kernel makes it.
        rustix::net::listen(&listener, 0).unwrap();
        let address = listener.local_addr().unwrap();
        let soon = Duration::from_millis(200);
        let connect = || TcpStream::connect_timeout(&address, soon).ok();
        let queued = std::iter::from_fn(connect).take(100).collect();
        Self { listener, _queued: queued }
    }
}

/// A caller whose deadline passes is told so, and what was waited for: that a host did not answer
/// is not the caller's word.
#[test]
fn privileged_a_dial_that_times_out_is_told_apart_from_the_deadline() {
    vm_harness::needs_root!();
    let silent = Silent::start();
    let scratch = Scratch::new().unwrap();
    let puller = Puller::start_with(&scratch, "", &["--linger", "0"]);
    let port = silent.listener.local_addr().unwrap().port();
    let image = format!("localhost:{port}/team/app@sha256:{}", "0".repeat(64));
    for (timeout, last) in [("4", None), ("30", Some("no connection within 10 s"))] {
        let mut client = puller.client(&image, "silent");
        let output = client.args(["--timeout", timeout]).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(69), "{error}");
        let deadline = format!("the caller's deadline of {timeout} s passed");
        assert!(error.contains(&deadline), "{error}");
        let told = error.contains("no connection within");
        assert_eq!(told, last.is_some(), "{error}");
        assert!(last.is_none_or(|last| error.contains(last)), "{error}");
    }
}

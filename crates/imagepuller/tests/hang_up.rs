//! A caller that hangs up ends what it asked for, and nothing else.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

mod support;

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::{Duration, Instant};

use fault_registry::{Action, Content, FaultRegistry, Http, Image, Layer, Script, Tls, What};
use support::{PASSWORD, Puller, USER, entry, is_root};
use test_http::pki::Authority;
use vm_harness::Scratch;

/// Longer than anything here takes.
const LIMIT: Duration = Duration::from_secs(60);

/// More than answers other than the layer have.
const MANY: u64 = 100_000;

/// What happens on the way from the registry.
#[derive(Debug, PartialEq, Eq)]
enum Seen {
    /// A layer is on its way.
    Flowing,
    /// The puller left a connection after so many bytes of it.
    Left(u64),
}

/// A wire to a registry, that tells when the puller takes no more.
fn wire(registry: SocketAddr) -> (u16, Receiver<Seen>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, seen) = channel();
    std::thread::spawn(move || {
        for puller in listener.incoming() {
            let (mut puller, registry) = (puller.unwrap(), TcpStream::connect(registry).unwrap());
            let (mut asked, mut asking) =
                (puller.try_clone().unwrap(), registry.try_clone().unwrap());
            std::thread::spawn(move || {
                let _ = std::io::copy(&mut asked, &mut asking);
                // What still comes is for nobody.
                let _ = asking.shutdown(Shutdown::Both);
            });
            let sender = sender.clone();
            std::thread::spawn(move || copy(registry, &mut puller, &sender));
        }
    });
    (port, seen)
}

fn copy(mut registry: TcpStream, puller: &mut TcpStream, seen: &Sender<Seen>) {
    let (mut buffer, mut bytes) = ([0; 4096], 0);
    while let Ok(read @ 1..) = registry.read(&mut buffer) {
        if puller.write_all(&buffer[..read]).is_err() {
            break;
        }
        let before = bytes;
        bytes += read as u64;
        if before < MANY && bytes >= MANY {
            let _ = seen.send(Seen::Flowing);
        }
    }
    if bytes >= MANY {
        let _ = seen.send(Seen::Left(bytes));
    }
}

/// A registry whose layer takes minutes, and how the image is called there.
struct Slow {
    _registry: FaultRegistry,
    seen: Receiver<Seen>,
    image: String,
    document: String,
    layer_bytes: u64,
}

impl Slow {
    fn start() -> Self {
        // Bytes that do not get smaller.
        let mut state = 1u64;
        let noise: Vec<u8> = std::iter::repeat_with(|| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            state.to_be_bytes()[0]
        })
        .take(4 << 20)
        .collect();
        let layer = Layer::gzip(&[("noise", &noise)]).unwrap();
        let layer_bytes = layer.size;
        let mut content = Content::default();
        let digest = Image::new(vec![layer]).publish(&mut content);
        let slowly = Action::Drip {
            bytes: 2048,
            pause_ms: 20,
        };
        let script = Script::new().always(What::AnyLayer, [slowly]);
        let authority = Authority::new("slow").unwrap();
        let tls = Tls {
            identity: &authority.sign(&["localhost"]).unwrap(),
            name: "localhost",
            http: Http::One,
        };
        let registry = FaultRegistry::start(content, script, Some(&tls)).unwrap();
        let (port, seen) = wire(registry.address());
        Self {
            _registry: registry,
            seen,
            image: format!("localhost:{port}/team/app@{digest}"),
            document: entry("localhost", USER, PASSWORD, authority.certificate()),
            layer_bytes,
        }
    }

    fn wait_for_flow(&self) {
        assert_eq!(self.seen.recv_timeout(LIMIT).unwrap(), Seen::Flowing);
    }

    fn wait_for_end(&self) {
        match self.seen.recv_timeout(LIMIT).unwrap() {
            Seen::Left(bytes) => assert!(bytes < self.layer_bytes, "all {bytes} came"),
            Seen::Flowing => panic!("asked for again"),
        }
    }
}

fn request(puller: &Puller, image: &str, bundle: &str) -> Child {
    Command::new(env!("CARGO_BIN_EXE_imagepuller"))
        .args(["request", "--socket"])
        .arg(puller.socket())
        .arg(image)
        .arg(puller.rootfs(bundle).parent().unwrap())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn privileged_a_caller_that_hangs_up_ends_the_transfer() {
    if !is_root("privileged_a_caller_that_hangs_up_ends_the_transfer") {
        return;
    }
    let slow = Slow::start();
    let scratch = Scratch::new().unwrap();
    let mut puller = Puller::start(&scratch, Some(&slow.document));

    let mut caller = request(&puller, &slow.image, "first");
    slow.wait_for_flow();
    let staging = puller.rootfs("store/images/staging");
    let staging = staging.parent().unwrap();
    let start = Instant::now();
    // The bytes that flowed may still be on their way to the puller.
    while fs::read_dir(staging).map_or(0, Iterator::count) != 1 {
        assert!(start.elapsed() < LIMIT, "no layer was begun");
        std::thread::sleep(Duration::from_millis(10));
    }
    caller.kill().unwrap();
    caller.wait().unwrap();
    slow.wait_for_end();
    puller.wait_for_unfinished();

    // Somebody else who waits for the same layer is not given up with it.
    let mut caller = request(&puller, &slow.image, "first");
    slow.wait_for_flow();
    let mut other = request(&puller, &slow.image, "second");
    caller.kill().unwrap();
    caller.wait().unwrap();
    slow.wait_for_end();
    slow.wait_for_flow();
    assert!(other.try_wait().unwrap().is_none());
    other.kill().unwrap();
    other.wait().unwrap();
    slow.wait_for_end();
    puller.wait_for_unfinished();
    assert!(puller.terminate().success());
}

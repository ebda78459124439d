//! A caller that hangs up ends what it asked for, and nothing else, where a fetch is not to go on
//! without a caller.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::mpsc::{Receiver, Sender, channel};

use crate::support::{LIMIT, Puller, misbehaving, names, noise, wait_until};
use fault_registry::{Action, Content, FaultRegistry, Image, Layer, Script, What};
use vm_harness::Scratch;

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
        let layer = Layer::gzip(&[("noise", &noise(4 << 20, 1))]).unwrap();
        let layer_bytes = layer.size;
        let mut content = Content::default();
        let digest = Image::new(vec![layer]).publish(&mut content);
        let slowly = Action::Drip { bytes: 2048, pause_ms: 20 };
        let script = Script::new().always(What::AnyLayer, [slowly]);
        let (registry, document) = misbehaving(content, script);
        let (port, seen) = wire(registry.address());
        Self {
            _registry: registry,
            seen,
            image: format!("localhost:{port}/team/app@{digest}"),
            document,
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

#[test]
fn privileged_a_caller_that_hangs_up_ends_the_transfer() {
    vm_harness::needs_root!();
    let slow = Slow::start();
    let scratch = Scratch::new().unwrap();
    let mut puller = Puller::start_with(&scratch, &slow.document, &["--linger", "0"]);

    let mut caller = puller.ask(&slow.image, "first");
    slow.wait_for_flow();
    // The bytes that flowed may still be on their way to the puller.
    let is_begun = || names(&puller.store("staging")).len() == 1;
    wait_until(|| "no layer was begun", is_begun);
    caller.kill().unwrap();
    caller.wait().unwrap();
    slow.wait_for_end();
    puller.wait_for_unfinished();

    // Somebody else who waits for the same layer is not given up with it.
    let mut caller = puller.ask(&slow.image, "first");
    slow.wait_for_flow();
    let mut other = puller.ask(&slow.image, "second");
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

//! A fetch that goes on when its caller's deadline passes or its caller hangs up.

use std::fs;

use fault_registry::{Action, Content, FaultRegistry, Image, Layer, Login, Script, What};
use serde_json::Value;
use vm_harness::Scratch;

use crate::support::{
    LIMIT, PASSWORD, Puller, USER, imagepuller, misbehaving, names, noise, wait_until,
};

/// The large layer takes ten seconds at least, whatever the machine.
const LARGE_BYTES: usize = 1 << 20;

/// A registry that wants a password and sends one layer of two slowly.
pub struct Slow {
    pub registry: FaultRegistry,
    pub document: String,
    digest: String,
}

impl Slow {
    pub fn start() -> Self {
        let layers = [("large", LARGE_BYTES), ("small", 5000)];
        let layers = layers.map(|(name, bytes)| {
            let content = noise(bytes, u32::try_from(bytes).unwrap());
            Layer::gzip(&[(name, &content)]).unwrap()
        });
        let mut content = Content::default();
        let digest = Image::new(layers.into()).publish(&mut content);
        Self::of(content, &digest)
    }

    /// The same with another image.
    pub fn of(content: Content, digest: &str) -> Self {
        let slowly = Action::Drip { bytes: 2048, pause_ms: 60 };
        let script = Script::new()
            .login(Login::bearer(USER, PASSWORD, "token-of-the-slow"))
            .always(What::Layer(0), [slowly]);
        let (registry, document) = misbehaving(content, script);
        Self { registry, document, digest: digest.to_string() }
    }

    pub fn image(&self) -> String {
        let port = self.registry.address().port();
        format!("localhost:{port}/team/app@{}", self.digest)
    }

    /// How often a layer was sent to who is logged in.
    pub fn asked_for(&self, layer: usize) -> usize {
        let requests = self.registry.requests();
        let is_it = |request: &&fault_registry::Request| {
            request.what == What::Layer(layer) && !request.is_challenged
        };
        requests.iter().filter(is_it).count()
    }
}

/// What the service says of its pulls.
pub fn status(puller: &Puller) -> Value {
    let socket = puller.socket();
    let mut command = imagepuller(["status", "--json", "--socket"]);
    let output = command.arg(&socket).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let status: Value = serde_json::from_slice(&output.stdout).unwrap();
    status["pulls"].clone()
}

/// The kubelet asks again after a time-out. Each request once began all layers anew, so an image
/// that takes longer than one deadline never came.
#[test]
fn privileged_an_image_that_takes_three_requests_comes() {
    vm_harness::needs_root!();
    let slow = Slow::start();
    let scratch = Scratch::new().unwrap();
    let mut puller = Puller::start_with(&scratch, &slow.document, &[]);
    let mut refused = 0;
    loop {
        let mut client = puller.client(&slow.image(), "bundle");
        let output = client.args(["--timeout", "4"]).output().unwrap();
        if output.status.success() {
            break;
        }
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(error.contains("deadline of 4 s passed"), "{error}");
        refused += 1;
        assert!(refused < 20, "{}", puller.log());
    }
    assert!(refused >= 2, "only {refused} requests were too short");
    // The log was once silent until the end.
    let log = puller.log();
    for words in ["pull begins", "pull goes on", "the caller's time is over", "fetched"] {
        assert!(log.contains(words), "{words:?} is missing in:\n{log}");
    }
    let large = fs::read(puller.rootfs("bundle").join("large")).unwrap();
    assert_eq!(large.len(), LARGE_BYTES);
    // In one piece each: what was in flight went on where it was.
    assert_eq!((slow.asked_for(0), slow.asked_for(1)), (1, 1));
    puller.wait_for_unfinished();
    assert!(puller.terminate().success());
}

/// Who joins gets the bytes only with a reference and an account of its own.
#[test]
fn privileged_bytes_are_shared_and_permission_is_not() {
    vm_harness::needs_root!();
    let slow = Slow::start();
    let scratch = Scratch::new().unwrap();
    let mut puller = Puller::start_with(&scratch, &slow.document, &[]);
    let mut first = puller.ask(&slow.image(), "first");
    let flows = |pulls: &Value| pulls[0]["receivedBytes"].as_u64().is_some_and(|bytes| bytes > 0);
    wait_until(|| puller.log(), || flows(&status(&puller)));
    let pull = &status(&puller)[0];
    assert_eq!((&pull["image"], &pull["layers"]), (&slow.image().into(), &2.into()));
    assert_eq!(pull["hasCaller"], true, "{pull}");
    first.kill().unwrap();
    first.wait().unwrap();
    wait_until(|| puller.log(), || status(&puller)[0]["hasCaller"] == false);
    assert!(puller.log().contains("the caller hung up"), "{}", puller.log());

    // Another password gets nothing; `joined.rs` has what else does not.
    puller.configure(&slow.document.replace(PASSWORD, "another"));
    let output = puller.request(&slow.image(), "second");
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(69), "{error}");
    assert!(error.contains("refused the credentials"), "{error}");
    assert_eq!(names(&puller.store("containers")).len(), 0);

    puller.configure(&slow.document);
    let rootfs = puller.pull(&slow.image(), "third");
    assert!(rootfs.join("large").exists());
    assert_eq!(slow.asked_for(0), 1, "the first one's transfer was joined");
    wait_until(|| status(&puller), || status(&puller) == Value::Array(Vec::new()));
    assert!(puller.terminate().success());
}

/// What nobody asks for again ends, and leaves nothing.
#[test]
fn privileged_a_fetch_without_a_caller_ends_in_time() {
    vm_harness::needs_root!();
    let slow = Slow::start();
    let scratch = Scratch::new().unwrap();
    let options = ["--linger", "1", "--log-format", "json", "--log-level", "debug"];
    let mut puller = Puller::start_with(&scratch, &slow.document, &options);
    let mut first = puller.ask(&slow.image(), "first");
    let is_begun = || slow.asked_for(0) == 1 && slow.asked_for(1) == 1;
    wait_until(|| puller.log(), is_begun);
    first.kill().unwrap();
    first.wait().unwrap();
    puller.wait_for_unfinished();
    for line in puller.log().lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        assert!(line["message"].is_string() && line["level"].is_string(), "{line}");
    }
    let layers = names(&puller.store("layers"));
    assert!(layers.len() < 2, "{layers:?}");
    let ended = std::time::Instant::now();
    assert!(puller.terminate().success());
    assert!(ended.elapsed() < LIMIT);
}

//! Blobs are read before they can be unpacked, so that a long line is waited for once; and no more
//! of them than there is room for.

use fault_registry::{
    Action, Bytes, Content, End, FaultRegistry, Image, Layer, Point, Request, Script, What,
};
use vm_harness::Scratch;

use crate::support::{Puller, misbehaving, noise, wait_until};

/// What `pull/budget.rs` allows: layers that are read at once, bytes that all pulls may read ahead,
/// what each reader costs besides, layers of a pull that need none of them, and layers of it that
/// are unpacked at once.
const READERS: usize = 32;
const BUDGET_BYTES: u64 = 8 << 20;
const READER_BYTES: u64 = (64 << 10) + (512 << 10);
const LANES: usize = 2;
const UNPACKED_AT_ONCE: usize = 2;

/// A registry with one image of layers of these sizes.
struct Place {
    registry: FaultRegistry,
    document: String,
    image: String,
    /// The compressed size of each layer.
    sizes: Vec<u64>,
}

impl Place {
    fn start(sizes: &[usize], script: Script) -> Self {
        let layer = |(place, size): (usize, &usize)| {
            let content = noise(*size, u32::try_from(place).unwrap());
            Layer::gzip(&[(&format!("f{place}"), &content)]).unwrap()
        };
        let layers: Vec<_> = sizes.iter().enumerate().map(layer).collect();
        let sizes = layers.iter().map(|layer| layer.size).collect();
        let mut content = Content::default();
        let digest = Image::new(layers).publish(&mut content);
        let (registry, document) = misbehaving(content, script);
        let port = registry.address().port();
        let name = format!("\"localhost:{port}\"");
        Self {
            registry,
            document: document.replacen("\"localhost\"", &name, 1),
            image: format!("localhost:{port}/team/app@{digest}"),
            sizes,
        }
    }

    /// The layers that were asked for so far.
    fn layers(&self) -> Vec<usize> {
        let layer = |request: &Request| match request.what {
            What::Layer(place) => Some(place),
            _ => None,
        };
        self.registry.requests().iter().filter_map(layer).collect()
    }
}

/// Nothing more comes after the first bytes of a layer.
fn hanging() -> Script {
    let at = Point::Body(100);
    let how = End::Stall;
    Script::new().always(What::AnyLayer, [Action::Cut { at, how }])
}

/// Two layers were once asked for at a time, so sixty of them waited thirty times for the line.
#[test]
fn privileged_small_layers_are_asked_for_at_once() {
    vm_harness::needs_root!();
    let together = [Action::Together(READERS)];
    let place = Place::start(&[2000; 60], Script::new().always(What::AnyLayer, together));
    let scratch = Scratch::new().unwrap();
    let puller = Puller::start(&scratch, Some(&place.document));
    let rootfs = puller.pull(&place.image, "bundle");
    assert_eq!(std::fs::read_dir(rootfs).unwrap().count(), 60);
    assert_eq!(place.layers().len(), 60, "each once");
    // The last 28 layers came over the connections of the first 32, but for one or two that were
    // begun in vain.
    let connections = place.registry.connections();
    assert!(connections < READERS + 10, "{connections} connections");
}

/// The manifest names the blobs, so the configuration is not waited for before they are asked for.
#[test]
fn privileged_layers_are_asked_for_with_the_configuration() {
    vm_harness::needs_root!();
    let blobs = What::Path("/v2/team/app/blobs/".to_owned());
    let together = [Action::Together(1 + READERS)];
    let place = Place::start(&[2000; 60], Script::new().always(blobs, together));
    let scratch = Scratch::new().unwrap();
    let puller = Puller::start(&scratch, Some(&place.document));
    puller.pull(&place.image, "bundle");
    assert_eq!(place.layers().len(), 60, "each once");
}

/// What the store has is known by the configuration alone, so nothing is read before that.
#[test]
fn privileged_what_the_store_has_is_not_read_ahead() {
    vm_harness::needs_root!();
    let slowly = Script::new().always(What::Config, [Action::Wait(300)]);
    let small = Place::start(&[2000; 3], slowly.clone());
    // The same layers, and two more.
    let large = Place::start(&[2000; 5], slowly);
    let scratch = Scratch::new().unwrap();
    let document = [&small, &large].map(|place| place.document.as_str());
    let puller = Puller::start(&scratch, Some(&document.concat()));
    puller.pull(&small.image, "small");
    puller.pull(&large.image, "large");
    let mut asked = large.layers();
    asked.sort_unstable();
    assert_eq!(asked, [3, 4]);
    // Without its documents an image is not known, but its layers are.
    puller.forget_documents();
    puller.pull(&large.image, "again");
    assert_eq!(large.layers().len(), 2);
}

/// What another pull has read ahead from its registry was once taken for the blob, and waited for:
/// one registry's lie or silence ended the pull of another one's image.
#[test]
fn privileged_a_pull_goes_by_its_own_registry() {
    vm_harness::needs_root!();
    for lie in [Action::Body(Bytes::Flipped), Action::Cut { at: Point::Body(100), how: End::Stall }]
    {
        let silent = Action::Cut { at: Point::Answer, how: End::Stall };
        let script = Script::new().always(What::AnyLayer, [lie]);
        let bad = Place::start(&[2000; 3], script.always(What::Config, [silent]));
        // The same blobs.
        let good = Place::start(&[2000; 3], Script::new());
        let scratch = Scratch::new().unwrap();
        let document = [&bad, &good].map(|place| place.document.as_str());
        let puller = Puller::start_with(&scratch, &document.concat(), &["--linger", "0"]);
        let mut caller = puller.ask(&bad.image, "bad");
        wait_until(|| puller.log(), || bad.layers().len() == 3);
        puller.pull(&good.image, "good");
        assert_eq!(good.layers().len(), 3);
        caller.kill().unwrap();
        caller.wait().unwrap();
    }
}

/// A blob that is opened and not read is worse than one that is not opened: its sender begins
/// slowly again.
#[test]
fn privileged_large_layers_wait_for_who_reads_them() {
    vm_harness::needs_root!();
    let place = Place::start(&[2 << 20; 9], hanging());
    hangs(&place, UNPACKED_AT_ONCE + LANES);
}

/// The sizes in a manifest are anybody's word, and so are the bytes that come.
#[test]
fn privileged_what_is_read_ahead_is_bounded() {
    vm_harness::needs_root!();
    let place = Place::start(&[1_000_000; 20], hanging());
    let cost = place.sizes[0] + READER_BYTES;
    let ahead = usize::try_from(BUDGET_BYTES / cost).unwrap();
    hangs(&place, ahead + UNPACKED_AT_ONCE + LANES);
}

/// Such a pull asks for so many layers and for no more. Nobody else waits for it, and when it ends
/// it leaves everything to others.
fn hangs(place: &Place, most: usize) {
    let good = Place::start(&[2000; 60], Script::new());
    let together = [Action::Together(READERS)];
    let all = Place::start(&[3000; 40], Script::new().always(What::AnyLayer, together));
    let document = [place, &good, &all].map(|place| place.document.as_str());
    let scratch = Scratch::new().unwrap();
    let puller = Puller::start_with(&scratch, &document.concat(), &["--linger", "0"]);
    let mut caller = puller.ask(&place.image, "bundle");
    wait_until(|| puller.log(), || place.layers().len() >= most);
    puller.pull(&good.image, "good");
    assert_eq!(place.layers().len(), most);
    caller.kill().unwrap();
    caller.wait().unwrap();
    puller.wait_for_unfinished();
    puller.pull(&all.image, "all");
    assert_eq!(place.layers().len(), most, "somebody went on");
}

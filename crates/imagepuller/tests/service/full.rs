//! An image that does not fit.

use std::fs;
use std::sync::{Arc, Mutex, OnceLock};

use fault_registry::{Action, Content, FaultRegistry, Image, Layer, Script, What};
use imagepuller::pull::Options;
use imagepuller::watch::{Tell, Watch};
use layer_store::name::LayerName;
use layer_store::store::Store;
use oci_image::digest::Digest;
use vm_harness::Scratch;
use vm_harness::archive::Tar;
use vm_harness::layout::{self, Compression};

use crate::support::{
    LIMIT, Puller, Site, Tmpfs, documents, misbehaving, names, noise, wait_until,
};

/// 330 of 400 MiB of a guest's memory were once kept for a pull that could never end well.
#[test]
fn privileged_a_pull_that_cannot_fit_gives_back_what_it_brought() {
    vm_harness::needs_root!();
    let small = Tar::default().file("small", "fits").bytes();
    let site = Site::with(|path| {
        let layers = vec![(small.clone(), Compression::Gzip)];
        layout::of_archives(path, layers).unwrap()
    });
    site.push(&site.layout);
    // Its layers fit as they travel, and the first of them unpacked, too.
    let large = Tar::default().file("large", noise(3 << 20, 3)).bytes();
    let growing = Tar::default().file("growing", vec![7; 20 << 20]).bytes();
    let layers = [small, large, growing].map(|layer| (layer, Compression::Gzip));
    let path = site.scratch.path().join("too-large");
    let too_large = layout::of_archives(&path, layers.into()).unwrap();
    let registry = &site.registry;
    registry.push(&site.scratch, &too_large.path, "team/large").unwrap();
    let too_large = format!("localhost:{}/team/large@{}", registry.port(), too_large.manifest);

    let directory = tempfile::tempdir_in(site.scratch.path()).unwrap().keep();
    std::mem::forget(Tmpfs::mount(directory.join("store"), c"mode=700,size=12m"));
    let puller = Puller::start_in(directory, Some(&site.document("localhost")));
    let kept = |puller: &Puller| names(&puller.store("layers"));
    for before in [0, 1] {
        puller.refuse(&too_large, 69, &["the layers need more than there is"]);
        assert_eq!(kept(&puller).len(), before);
        wait_until(|| "waste is left", || names(&puller.store("waste")).is_empty());
        // What an image has that is used stays, also if the one that does not fit has it too.
        puller.pull(&site.image(), &format!("small-{before}"));
        assert_eq!(kept(&puller).len(), 1);
        if before == 1 {
            return;
        }
    }
}

/// An image of these layers in a registry of its own: its name, and the document that opens it.
fn published(layers: Vec<Layer>, script: Script) -> (FaultRegistry, String, String) {
    let mut content = Content::default();
    let digest = Image::new(layers).publish(&mut content);
    let (registry, document) = misbehaving(content, script);
    let host = format!("localhost:{}", registry.address().port());
    let image = format!("{host}/team/app@{digest}");
    let document = document.replace("\"localhost\"", &format!("\"{host}\""));
    (registry, image, document)
}

/// What a fetch without a caller had brought once stayed in the way of a pull that somebody waited
/// for: the fetch was ended, and its finished layers were kept, because they seemed to leave room.
#[test]
fn privileged_a_fetch_without_a_caller_gives_way_with_all_that_it_brought() {
    vm_harness::needs_root!();
    let layer = |name: &str, content: &[u8]| Layer::gzip(&[(name, content)]).unwrap();
    let slowly = Action::Drip { bytes: 256, pause_ms: 100 };
    let script = Script::new().always(What::Layer(1), [slowly]);
    let left = vec![layer("large", &noise(6 << 20, 6)), layer("slow", &noise(1 << 20, 1))];
    let (_slow, left, of_left) = published(left, script);
    // Small as it travels, and larger than what the other one leaves.
    let growing = vec![layer("growing", &vec![7; 9 << 20])];
    let (_fast, wanted, of_wanted) = published(growing, Script::new());

    let scratch = Scratch::new().unwrap();
    let directory = tempfile::tempdir_in(scratch.path()).unwrap().keep();
    std::mem::forget(Tmpfs::mount(directory.join("store"), c"mode=700,size=12m"));
    let puller = Puller::start_in(directory, Some(&format!("{of_left}{of_wanted}")));
    let mut first = puller.ask(&left, "left");
    let has_large = || {
        let layers = puller.store("layers");
        layers.exists() && names(&layers).len() == 1
    };
    wait_until(|| puller.log(), has_large);
    first.kill().unwrap();
    first.wait().unwrap();
    wait_until(|| puller.log(), || puller.log().contains("the caller hung up"));

    let rootfs = puller.pull(&wanted, "wanted");
    assert!(rootfs.join("growing").exists());
    let log = puller.log();
    assert!(log.contains("pulls without a caller were ended to make room"), "{log}");
    assert_eq!(names(&puller.store("layers")).len(), 1);
}

/// The store and the layer of the next test, and whether the layer was locked at each end of it.
static LOOKED_AT: OnceLock<(Arc<Store>, LayerName)> = OnceLock::new();
static LOCKED: Mutex<Vec<bool>> = Mutex::new(Vec::new());

/// A layer that fitted was once kept for a pull that did not: the task that had brought it held
/// it a moment longer than its lock, and so it seemed to be in use.
#[test]
fn privileged_a_layer_is_locked_as_long_as_its_task_has_it() {
    vm_harness::needs_root!();
    let layer = Layer::gzip(&[("file", b"content")]).unwrap();
    let name = Digest::parse(&layer.diff_id).unwrap();
    let (_registry, image, document) = published(vec![layer], Script::new());
    let scratch = Scratch::new().unwrap();
    let path = scratch.path().join("imagepuller.toml");
    fs::write(&path, document).unwrap();
    let store = Arc::new(Store::open(&scratch.path().join("store")).unwrap());
    let puller = imagepuller::pull::Puller::new(store.clone(), documents(path), Options::default());
    LOOKED_AT.set((store, LayerName::Plain(name))).unwrap();
    let tell: Tell = |event| {
        let (store, name) = LOOKED_AT.get().unwrap();
        if ["unpacked", "shared"].contains(&event["event"].as_str().unwrap()) {
            let is_locked = store.flight(name).try_lock().is_err();
            LOCKED.lock().unwrap().push(is_locked);
        }
    };
    let watch = Watch::new(&image, tell);
    let fetched = Arc::new(puller).fetch_image(image, LIMIT, watch.into());
    let runtime = tokio::runtime::Runtime::new().unwrap();
    drop(runtime.block_on(fetched).unwrap());
    assert_eq!(*LOCKED.lock().unwrap(), [true]);
}

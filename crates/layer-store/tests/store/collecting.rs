//! Who uses a layer, and what goes when nobody does.

use std::cell::Cell;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, sleep};
use std::time::Duration;

use layer_store::caretaker::Caretaker;
use layer_store::collect::Collected;
use layer_store::layer::Layer;
use layer_store::limits::MAX_SIGNATURES_BYTES;
use layer_store::mount::overlay;
use layer_store::store::Store;
use rustix::mount::{UnmountFlags, unmount};
use vm_harness::archive::Tar;

use crate::fixture::{Place, count, digest_of, publish, reopen, try_publish, wait_until};

/// A store and a place for mounts.
struct Site {
    directory: Place,
}

impl Site {
    fn new() -> Self {
        let directory = Place::new();
        Self { directory }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("store")
    }

    fn open(&self) -> Store {
        reopen(&self.path())
    }

    /// Mounts layers and leaves them to the caller.
    fn mount(&self, store: &Store, name: &str, layers: &[&Layer]) -> PathBuf {
        let rootfs = self.directory.path().join(name);
        fs::create_dir_all(&rootfs).unwrap();
        let layers = layers.iter().map(|layer| (*layer).clone()).collect();
        overlay(store.container(layers).unwrap(), rootfs).unwrap().keep()
    }

    /// Collects until so many containers are left. Whoever else unshares a mount namespace on this
    /// machine, another test for example, has our mounts too for that time.
    fn collect_until(&self, store: &Store, containers: usize) -> Collected {
        let sum = Cell::new(Collected::default());
        wait_until(|| {
            let more = store.collect().unwrap();
            let so_far = sum.get();
            sum.set(Collected {
                layers: so_far.layers + more.layers,
                containers: so_far.containers + more.containers,
            });
            self.containers() == containers
        });
        sum.get()
    }

    fn containers(&self) -> usize {
        count(&self.path().join("containers"))
    }
}

fn layer(store: &Store, name: &str) -> Layer {
    publish(Tar::default().file(name, name), store)
}

fn release(rootfs: &Path) {
    unmount(rootfs, UnmountFlags::empty()).unwrap();
}

fn removed(layers: usize, containers: usize) -> Collected {
    Collected { layers, containers }
}

#[test]
fn a_handle_keeps_a_layer() {
    let site = Site::new();
    let store = site.open();
    let (one, two) = (layer(&store, "one"), layer(&store, "two"));
    let again = one.clone();
    drop(one);
    let path = two.path().to_owned();
    drop(two);
    assert_eq!(store.collect().unwrap(), removed(1, 0));
    assert!(!path.exists());
    assert!(again.root().join("one").exists());
    assert_eq!(count(&site.path().join("waste")), 0);
    drop(again);
    assert_eq!(store.collect().unwrap(), removed(1, 0));
}

#[test]
fn privileged_a_mount_keeps_its_layers_also_across_a_restart() {
    vm_harness::needs_root!();
    let site = Site::new();
    let store = site.open();
    let (base, app, other) = (layer(&store, "base"), layer(&store, "app"), layer(&store, "other"));
    let first = site.mount(&store, "first", &[&base, &app]);
    let second = site.mount(&store, "second", &[&base, &other]);
    drop((base, app, other));
    assert_eq!(store.collect().unwrap(), removed(0, 0));
    fs::write(first.join("written"), "x").unwrap();

    release(&second);
    assert_eq!(site.collect_until(&store, 1), removed(1, 1));
    drop(store);
    let store = site.open();
    assert_eq!(store.collect().unwrap(), removed(0, 0));
    for name in ["base", "app", "written"] {
        assert!(fs::read(first.join(name)).is_ok(), "{name}");
    }
    // It may go while no service runs, too.
    drop(store);
    release(&first);
    let store = site.open();
    assert_eq!(site.collect_until(&store, 0).layers, 2);
    for name in ["layers", "containers", "waste", "staging"] {
        assert_eq!(count(&site.path().join(name)), 0, "{name}");
    }
}

#[test]
fn privileged_a_mount_counts_in_every_namespace() {
    vm_harness::needs_root!();
    let site = Site::new();
    let store = site.open();
    let rootfs = site.mount(&store, "rootfs", &[&layer(&store, "one")]);
    let mut inside = Command::new("unshare");
    inside.args(["--mount", "cat"]).stdin(Stdio::piped());
    let mut inside = inside.spawn().unwrap();
    // It has a namespace of its own by then, and has cut it off from ours.
    let name = format!("/proc/{}/comm", inside.id());
    wait_until(|| fs::read_to_string(&name).is_ok_and(|name| name == "cat\n"));
    release(&rootfs);
    assert!(store.tidy(), "it is to be looked for again");
    assert_eq!(store.collect().unwrap(), removed(0, 0));
    assert_eq!(site.containers(), 1);
    drop(inside.stdin.take());
    inside.wait().unwrap();
    assert_eq!(site.collect_until(&store, 0), removed(1, 1));
}

#[test]
fn privileged_the_caretaker_sees_a_mount_go() {
    vm_harness::needs_root!();
    let site = Site::new();
    let store = Arc::new(site.open());
    let left = site.path().join("waste/left");
    fs::create_dir(&left).unwrap();
    let caretaker = Caretaker::start(store.clone()).unwrap();
    wait_until(|| !left.exists());
    let kept = site.mount(&store, "kept", &[&layer(&store, "one")]);
    let gone = site.mount(&store, "gone", &[&layer(&store, "two")]);
    assert_eq!(site.containers(), 2);
    release(&gone);
    wait_until(|| site.containers() == 1);
    wait_until(|| count(&site.path().join("waste")) == 0);
    // Layers stay for the next start.
    assert_eq!(count(&site.path().join("layers")), 2);
    assert!(kept.join("one").exists());
    drop(caretaker);
    release(&kept);
}

#[test]
fn the_longest_unused_goes_first() {
    let site = Site::new();
    let store = site.open();
    let names: Vec<_> = ["a", "b", "c"]
        .map(|name| {
            let digest = digest_of(&Tar::default().file(name, name).bytes());
            drop(layer(&store, name));
            sleep(Duration::from_millis(20));
            digest
        })
        .into();
    drop(store.layer(&names[0]));
    // More than there is, so it depends on nothing but who is held.
    let held = store.layer(&names[2]).unwrap();
    let error = store.make_room(u64::MAX, 0).unwrap_err();
    assert!(error.to_string().contains("at least"), "{error}");
    assert!(store.layer(&names[0]).is_none() && store.layer(&names[1]).is_none());
    drop(held);
    assert!(store.layer(&names[2]).is_some());
}

/// Layers are found, made and removed at the same time, and whoever has a handle has a whole layer.
#[test]
fn collecting_beside_pulls() {
    const ROUNDS: usize = 300;
    let site = Site::new();
    let store = site.open();
    let tars: Vec<_> = (0..3)
        .map(|number| {
            let files =
                (0..10).fold(Tar::default(), |tar, file| tar.file(format!("{number}/{file}"), "x"));
            files.bytes()
        })
        .collect();
    let left = AtomicUsize::new(4);
    let pull = &|thread: usize| {
        for round in 0..ROUNDS {
            let tar = &tars[(thread + round) % tars.len()];
            let found = store.layer(&digest_of(tar));
            let layer = found.unwrap_or_else(|| try_publish(tar, &store).unwrap());
            let number = (thread + round) % tars.len();
            assert_eq!(count(&layer.root().join(number.to_string())), 10);
            assert!(layer.implied().is_ok());
        }
        left.fetch_sub(1, Ordering::Relaxed);
    };
    thread::scope(|scope| {
        for thread in 0..4 {
            scope.spawn(move || pull(thread));
        }
        let mut removed = 0;
        while left.load(Ordering::Relaxed) > 0 {
            removed += store.collect().unwrap().layers;
        }
        assert!(removed > 0);
    });
    store.collect().unwrap();
    for name in ["layers", "waste", "staging"] {
        assert_eq!(count(&site.path().join(name)), 0, "{name}");
    }
}

/// Layers that nobody can tell the users of are all kept.
#[test]
fn privileged_a_mount_without_a_list_keeps_everything() {
    vm_harness::needs_root!();
    let site = Site::new();
    let store = site.open();
    let rootfs = site.mount(&store, "rootfs", &[&layer(&store, "one")]);
    drop(layer(&store, "two"));
    drop(store);
    let container = fs::read_dir(site.path().join("containers"));
    let container = container.unwrap().next().unwrap().unwrap().path();
    fs::remove_file(container.join("layers")).unwrap();
    let store = site.open();
    assert_eq!(store.collect().unwrap(), removed(0, 0));
    assert!(rootfs.join("one").exists());
    release(&rootfs);
    assert_eq!(site.collect_until(&store, 0), removed(2, 1));
}

/// They lie beside the documents of their image, and go with them.
#[test]
fn privileged_signatures_go_with_their_image() {
    vm_harness::needs_root!();
    let site = Site::new();
    let store = site.open();
    let layer = publish(Tar::default().file("file", "content"), &store);
    let image = digest_of(b"image");
    store.keep_signatures(&image, b"early").unwrap();
    assert_eq!(store.signatures(&image), None, "there was no image");
    let documents = [(image.clone(), b"image".to_vec())];
    let keep = || store.keep_documents(&image, &documents, std::slice::from_ref(&layer));
    keep().unwrap();
    assert_eq!(store.signatures(&image), None);
    for kept in [&b"first"[..], b"second"] {
        store.keep_signatures(&image, kept).unwrap();
        assert_eq!(store.signatures(&image).unwrap(), kept);
        assert_eq!(store.document(&image, &image).unwrap(), b"image");
    }
    assert_eq!(count(&site.path().join("staging")), 0);
    let long = vec![b'x'; 2 * MAX_SIGNATURES_BYTES];
    store.keep_signatures(&image, &long).unwrap();
    // Cut, so that it is seen as longer than what is kept, and no more memory is taken.
    assert_eq!(store.signatures(&image).unwrap().len(), MAX_SIGNATURES_BYTES + 1);
    keep().unwrap();
    assert_eq!(store.signatures(&image), None, "they were of other documents");
    store.keep_signatures(&image, b"last").unwrap();
    drop(layer);
    store.collect().unwrap();
    assert_eq!(store.signatures(&image), None);
}

//! An image with everything that is seldom in it, pulled and mounted, looks as `umoci` unpacks it:
//! on a tmpfs and on ext4.
mod image;
mod known;
mod tools;
mod torture;

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::process::Command;

use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
use vm_harness::Scratch;

use crate::support::{Puller, Site, Tmpfs, imagepuller};
use image::Layer;
use known::KnownDifferences;
use tools::{HOLES, PACKERS};
use vm_harness::walk::{Seen, walk};

/// A file system for one test, unmounted when dropped.
struct Mounted<'a>(&'a Path);

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        let _ = unmount(self.0, UnmountFlags::DETACH);
    }
}

/// The layers of the image, bottom first, as we are to unpack them or as `umoci` is.
fn layers(trees: &Path, is_for_umoci: bool) -> Vec<Layer> {
    // It calls the type of this entry unknown.
    let names =
        if is_for_umoci { torture::names() } else { torture::with_global_header(torture::names()) };
    let mut layers = vec![
        Layer::plain(torture::numbers()),
        Layer::gzip(names, 5000),
        Layer::gzip(torture::attributes(), usize::MAX),
        Layer::gzip(torture::repeats(), 700),
        Layer::plain(vec![0; 1024]),
        Layer::plain(torture::lower()),
        Layer::gzip(torture::upper(), usize::MAX),
        Layer::plain(torture::odd_lower()),
        Layer::gzip(torture::odd(), usize::MAX),
    ];
    for packer in &PACKERS {
        let archive = packer.pack(trees, is_for_umoci);
        layers.push(Layer::gzip(archive, usize::MAX));
    }
    layers
}

/// Pulls the image with a store below `directory` and compares it with what `umoci` makes there of
/// the same image.
fn compare(site: &Site, directory: &Path) {
    let scratch = site.scratch.path();
    let trees = scratch.join("trees");
    for packer in &PACKERS {
        packer.make_tree(&trees);
    }
    let layout = scratch.join("torture");
    // What is a SHA-512 to us is a SHA-256 to umoci.
    let manifest = image::write(&layout, &layers(&trees, false), true);
    site.registry.push(&site.scratch, &layout, "torture").unwrap();
    let layout = scratch.join("torture-for-umoci");
    image::write(&layout, &layers(&trees, true), false);

    let theirs = directory.join("umoci");
    let unpacked = Command::new("umoci")
        .args(["raw", "unpack", "--image"])
        .arg(format!("{}:latest", layout.display()))
        .arg(&theirs)
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&unpacked.stderr);
    assert!(unpacked.status.success(), "umoci: {error}");

    let theirs = walk(&theirs);
    let image = format!("localhost:{}/torture@{manifest}", site.registry.port());
    let document = site.document("localhost");
    let puller = Puller::start_in(directory.to_owned(), Some(&document));
    check(&puller.pull(&image, "bundle"), &theirs, known::MOUNTED);

    // The same without a mount, where nothing is left to overlayfs.
    let output = directory.join("pulled");
    let pulled = imagepuller(["pull", "--config"])
        .arg(puller.document())
        .arg("--output")
        .arg(&output)
        .arg(&image)
        .output()
        .unwrap();
    let error = String::from_utf8_lossy(&pulled.stderr);
    assert!(pulled.status.success(), "{error}");
    check(&output.join("rootfs"), &theirs, known::PULLED);
}

/// Compares a tree with that of `umoci`.
fn check(root: &Path, theirs: &Tree, special: &[KnownDifferences]) {
    let differences = differences(&walk(root), theirs);
    let known = known::all_with(special);
    let unknown: Vec<_> = differences.difference(&known).collect();
    assert!(unknown.is_empty(), "{root:?} differs from umoci's: {unknown:#?}");
    let gone: Vec<_> = known.difference(&differences).collect();
    assert!(gone.is_empty(), "{root:?} is not different any more: {gone:#?}");
    check_holes(root);
}

type Tree = std::collections::BTreeMap<String, Seen>;

/// Each as `PATH: PROPERTY: ours OURS, umoci THEIRS`.
fn differences(ours: &Tree, theirs: &Tree) -> BTreeSet<String> {
    let mut differences = BTreeSet::new();
    let nothing = Seen::new();
    let paths: BTreeSet<_> = ours.keys().chain(theirs.keys()).collect();
    for path in paths {
        let (our, their) =
            (ours.get(path).unwrap_or(&nothing), theirs.get(path).unwrap_or(&nothing));
        let mut properties: BTreeSet<_> = our.keys().chain(their.keys()).collect();
        if our.get("kind") != their.get("kind") {
            // Then nothing else can be compared.
            properties.retain(|property| *property == "kind");
        }
        for property in properties {
            let show = |seen: &Seen| seen.get(property).cloned().unwrap_or_else(|| "-".into());
            let (our, their) = (show(our), show(their));
            if our != their {
                differences.insert(known::shown(path, property, &our, &their));
            }
        }
    }
    differences
}

fn check_holes(root: &Path) {
    for packer in PACKERS.iter().filter(|packer| packer.keeps_holes()) {
        for (name, data) in HOLES {
            let stat = fs::metadata(root.join(packer.name).join(name)).unwrap();
            let allocated = stat.blocks() * 512;
            // Blocks that tell where others are come on top.
            assert!(
                (data..=data + 16 * 1024).contains(&allocated),
                "{}/{name} has {data} bytes of data and takes {allocated}",
                packer.name
            );
        }
    }
}

#[test]
fn privileged_fidelity_on_tmpfs() {
    vm_harness::needs_root!();
    let site = Site::start();
    let directory = site.scratch.path().join("tmpfs");
    let _mounted = Tmpfs::mount(directory.clone(), c"mode=755");
    compare(&site, &directory);
}

#[test]
fn privileged_fidelity_on_ext4() {
    vm_harness::needs_root!();
    let site = Site::start();
    let directory = site.scratch.path().join("ext4");
    fs::create_dir(&directory).unwrap();
    make_ext4(&site.scratch, &directory);
    let _mounted = Mounted(&directory);
    compare(&site, &directory);
}

fn make_ext4(scratch: &Scratch, directory: &Path) {
    let disk = scratch.path().join("disk");
    fs::File::create(&disk).unwrap().set_len(256 << 20).unwrap();
    let (disk, place) = (disk.to_str().unwrap(), directory.to_str().unwrap());
    let format = ["mkfs.ext4", "-q", "-F", "-b", "4096", "-I", "256", disk];
    for command in [&format[..], &["mount", "-o", "loop", disk, place]] {
        let output = Command::new(command[0]).args(&command[1..]).output();
        let output = output.unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command:?}: {error}");
    }
}

/// Overlayfs cannot hold what layers need: neither whiteouts nor the upper directory of a mount.
#[test]
fn privileged_fidelity_on_overlay() {
    vm_harness::needs_root!();
    let site = Site::start();
    let tmpfs = site.scratch.path().join("tmpfs");
    let _below = Tmpfs::mount(tmpfs.clone(), c"mode=755");
    let [lower, upper, work, directory] = ["lower", "upper", "work", "merged"].map(|name| {
        let path = tmpfs.join(name);
        fs::create_dir(&path).unwrap();
        path.to_str().unwrap().to_owned()
    });
    let options = format!("lowerdir={lower},upperdir={upper},workdir={work}");
    let options = std::ffi::CString::new(options).unwrap();
    let (kind, flags) = ("overlay", MountFlags::empty());
    mount(kind, &directory, kind, flags, Some(options.as_c_str())).unwrap();
    let _mounted = Mounted(Path::new(&directory));

    let document = site.document("localhost");
    let puller = Puller::start_in(directory.clone().into(), Some(&document));
    let output = puller.request(&site.image(), "bundle");
    assert!(!output.status.success());
    let said = String::from_utf8_lossy(&output.stderr).into_owned() + &puller.log();
    assert!(said.contains("overlay file system"), "{said}");
}

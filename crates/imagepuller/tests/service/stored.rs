//! An image that is in the store needs no registry: a container that starts again in a running pod
//! does not wait for one, and does not fail without one.

use std::fs;
use std::process::Output;

use confidential_fixtures::encrypted::{KeyKind, Which};
use fault_registry::{Content, Script};
use rustix::mount::{UnmountFlags, unmount};
use serde_json::json;

use crate::encrypted::place::{Place, written};
use crate::support::{Puller, Site, misbehaving, names, wait_until};
use vm_harness::walk::walk;

#[test]
fn privileged_a_registry_is_asked_for_what_is_missing_alone() {
    vm_harness::needs_root!();
    let site = Site::start();
    let image = site.image();
    let mut puller = Puller::start(&site.scratch, Some(&site.document("localhost")));
    let first = walk(&puller.pull(&image, "first"));
    let asked = site.registry.requests();
    assert!(walk(&puller.pull(&image, "again")) == first);
    assert_eq!(site.registry.requests(), asked);
    // The registry is gone.
    drop(site.registry);
    assert!(walk(&puller.pull(&image, "without-registry")) == first);
    // The service is another one, and there is no network at all.
    assert!(puller.terminate().success());
    puller.restart_offline();
    assert!(walk(&puller.pull(&image, "without-network")) == first);
    let other = image.replace("team/app@", "team/other@");
    assert!(walk(&puller.pull(&other, "by-another-name")) == first);
    let unknown = format!("{}{}", &image[..image.len() - 64], "0".repeat(64));
    puller.refuse(&unknown, 69, &["cannot reach localhost"]);
}

/// An index is kept too, and leads to the same image.
#[test]
fn privileged_an_index_is_kept() {
    vm_harness::needs_root!();
    let site = Site::with(|path| vm_harness::layout::sample(path).unwrap());
    let mut content = Content::load(&site.layout.path).unwrap();
    let manifest = &site.layout.manifest;
    let index = json!({
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.index.v1+json",
        "manifests": [{
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "digest": manifest,
            "size": content.size(manifest).unwrap(),
            "platform": {"os": "linux", "architecture": "amd64"},
        }],
    });
    let index = content.add_manifest(index.to_string().into_bytes());
    let (registry, document) = misbehaving(content, Script::new());
    let puller = Puller::start(&site.scratch, Some(&document));
    let image = format!("localhost:{}/team/app@{index}", registry.address().port());
    let pull = |bundle: &str| -> Output { puller.request(&image, bundle) };
    let first = pull("first");
    assert!(first.status.success(), "{}", puller.log());
    drop(registry);
    let second = pull("second");
    assert!(second.status.success(), "{}", puller.log());
    assert_eq!(first.stdout, second.stdout);
    assert_eq!(String::from_utf8_lossy(&second.stdout).trim(), manifest);
}

/// Having an image is no leave to use it: what the documents and the keys say counts as ever.
#[test]
fn privileged_what_is_stored_is_checked_as_ever() {
    vm_harness::needs_root!();
    let place = Place::start();
    let key = place.key("key", KeyKind::P256);
    let image = place.push(&place.encrypt("image", &[&key], Which::All));
    let document = place.document(&[written(key.pem().unwrap().as_bytes())]);
    let puller = Puller::start(&place.0.scratch, Some(&document));
    let first = walk(&puller.pull(&image, "first"));
    let site = place.0;
    drop(site.registry);
    assert!(walk(&puller.pull(&image, "with-key")) == first);
    let keyless = "[registries.localhost]\n";
    puller.configure(keyless);
    puller.refuse(&image, 69, &["is encrypted and there is no key for it"]);
    puller.configure(&format!("{document}\n[registries.other]\nca-cert = 1\n"));
    puller.refuse(&image, 65, &["ca-cert"]);
    let keys = document.split_once("[decryption-keys]").unwrap().1;
    let forbidden = format!("[registries.localhost]\nca-certs = \"\"\n[decryption-keys]{keys}");
    puller.configure(&forbidden);
    puller.refuse(&image, 69, &["is forbidden", "holds no certificate"]);
    puller.configure("node-error = \"the secret is missing\"\n");
    puller.refuse(&image, 65, &["the secret is missing"]);
    puller.configure(&document);
    assert!(walk(&puller.pull(&image, "again")) == first);
}

/// The host may write to a store on its disk, and a disk may break.
#[test]
fn privileged_a_damaged_document_is_fetched_again() {
    vm_harness::needs_root!();
    let site = Site::start();
    let image = site.image();
    let puller = Puller::start(&site.scratch, Some(&site.document("localhost")));
    let first = walk(&puller.pull(&image, "first"));
    let images = puller.store("images");
    let [name] = &names(&images)[..] else {
        panic!("{:?}", names(&images));
    };
    let manifest = images.join(name).join(name);
    let right = fs::read(&manifest).unwrap();
    let longer = [&right[..], b" "].concat();
    let changed = String::from_utf8(right.clone()).unwrap().replace("sha256:", "sha256;");
    for damaged in [&b""[..], &right[1..], &longer, changed.as_bytes(), &[b'x'; 5 << 20]] {
        fs::write(&manifest, damaged).unwrap();
        assert!(walk(&puller.pull(&image, "damaged")) == first);
        assert!(fs::read(&manifest).unwrap() == right, "it was kept again");
        unmount(puller.rootfs("damaged"), UnmountFlags::DETACH).unwrap();
    }
    drop(site.registry);
    fs::write(&manifest, &longer).unwrap();
    puller.refuse(&image, 69, &["cannot reach localhost"]);
}

#[test]
fn privileged_documents_go_with_the_last_layer() {
    vm_harness::needs_root!();
    let site = Site::start();
    let mut puller = Puller::start(&site.scratch, Some(&site.document("localhost")));
    let rootfs = puller.pull(&site.image(), "bundle");
    let images = puller.store("images");
    let layers = puller.store("layers");
    assert_eq!(names(&images).len(), 1);
    unmount(&rootfs, UnmountFlags::DETACH).unwrap();
    let is_ended = || names(&puller.store("containers")).is_empty();
    wait_until(|| "the container is still there", is_ended);
    // A service that starts looks what is of no use. While one layer is left, the documents save
    // one request.
    let waste = puller.store("waste");
    let mut cleaned = |left: usize| {
        assert!(puller.terminate().success());
        for layer in &names(&layers)[left..] {
            fs::remove_dir_all(layers.join(layer)).unwrap();
        }
        fs::create_dir(waste.join("mark")).unwrap();
        puller.restart();
        wait_until(|| "it does not look", || names(&waste).is_empty());
        names(&images).len()
    };
    assert_eq!(cleaned(1), 1);
    assert_eq!(cleaned(0), 0);
}

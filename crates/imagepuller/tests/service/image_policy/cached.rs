//! Images that are in the store: having them is no leave to use them, and needs nobody.

use std::fs;

use confidential_fixtures::signed::SimpleSignature;
use serde_json::json;

use super::place::{Place, policy, signed_by};
use crate::support::names;

#[test]
fn privileged_what_was_verified_once_is_verified_again_without_a_registry() {
    vm_harness::needs_root!();
    let mut place = Place::start();
    let (digest, image) = (place.site.layout.manifest.clone(), place.site.image());
    let name = place.name("team/app");
    // It is there before anybody asks for a signature.
    place.puller.pull(&image, "without-policy");
    let by_team = policy(&[(&place.name("team"), signed_by("team.pub", "matchRepository"))]);
    place.policy(&by_team, "");
    place.puller.refuse(&image, 65, &["no signature was found"]);
    place.sign(&place.team, &digest, &name, "team/app");
    place.puller.pull(&image, "signed");
    let asked = place.site.registry.requests();
    place.puller.pull(&image, "again");
    assert_eq!(place.site.registry.requests(), asked, "nobody was asked");

    // Stricter by now: the registry is asked whether it has more.
    let by_other = json!({"default": [signed_by("other.pub", "matchRepository")]});
    place.policy(&by_other, "");
    place.puller.refuse(&image, 65, &["by other.pub", "is by"]);
    let signatures = [&place.other, &place.team];
    let signatures = signatures.map(|key| SimpleSignature::new(key, &digest, &name).unwrap());
    place.put(&signatures, &digest, "team/app");
    place.puller.pull(&image, "by-other");
    let both = json!({"default": [
        signed_by("team.pub", "matchRepository"), signed_by("other.pub", "matchRepository"),
    ]});
    let reject = json!({"default": [{"type": "reject"}]});

    // The registry is gone, and the service is another one.
    let port = place.site.registry.port();
    drop(place.site.registry);
    place.puller.kill();
    place.puller.restart_offline();
    for (bundle, policy) in [("team", &by_team), ("other", &by_other), ("both", &both)] {
        let document = super::place::document(policy, "");
        place.puller.measure(&document);
        place.puller.pull(&image, bundle);
    }
    let measured = |policy: &serde_json::Value, more: &str| {
        let document = super::place::document(policy, more);
        place.puller.measure(&document);
    };
    measured(&reject, "");
    place.puller.refuse(&image, 65, &["the default rejects it"]);
    measured(&by_team, &format!("refuse = [\"{digest}\"]\n"));
    place.puller.refuse(&image, 65, &["refuse of [image-policy]"]);
    // Under a name that nobody signed.
    let renamed = image.replace("team/app@", "team/other@");
    measured(&by_team, "");
    place.puller.refuse(&renamed, 69, &["cannot reach localhost"]);
    measured(&json!({"default": [signed_by("team.pub", "matchExact")]}), "");
    place.puller.refuse(&image, 69, &[&format!("cannot reach localhost:{port}")]);
    measured(&by_team, "");
    place.puller.pull(&image, "last");
}

/// The host may write to a store on its disk, and a disk may break.
#[test]
fn privileged_kept_signatures_are_not_believed() {
    vm_harness::needs_root!();
    let place = Place::start();
    let (digest, image) = (place.site.layout.manifest.clone(), place.site.image());
    let by_team = json!({"default": [signed_by("team.pub", "matchRepository")]});
    place.policy(&by_team, "");
    place.sign(&place.team, &digest, &place.name("team/app"), "team/app");
    place.puller.pull(&image, "first");
    let images = place.puller.store("images");
    let [name] = &names(&images)[..] else {
        panic!("{:?}", names(&images));
    };
    let kept = images.join(name).join("signatures");
    let right = fs::read(&kept).unwrap();
    let changed = String::from_utf8(right.clone()).unwrap().replace("team/app", "team/apq");
    for damaged in [&b""[..], &right[1..], changed.as_bytes(), &[b'x'; 2 << 20]] {
        fs::write(&kept, damaged).unwrap();
        place.puller.pull(&image, "damaged");
        assert!(fs::read(&kept).unwrap().starts_with(&right), "they were kept again");
        let rootfs = place.puller.rootfs("damaged");
        rustix::mount::unmount(rootfs, rustix::mount::UnmountFlags::DETACH).unwrap();
    }
    let Place { site, puller, .. } = place;
    drop(site.registry);
    puller.pull(&image, "kept");
    fs::write(&kept, changed).unwrap();
    puller.refuse(&image, 69, &["cannot reach localhost"]);
}

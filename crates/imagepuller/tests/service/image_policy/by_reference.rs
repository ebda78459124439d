//! A policy and keys that the CDH gets.

use confidential_fixtures::{DataHub, Vault};
use serde_json::json;

use super::place::{Place, policy, signed_by};
use crate::support::Puller;

/// What an error says of a reference, whatever lies there.
const NOTHING: &str = "the broker gave nothing usable to this guest; `imagepuller status` inside \
                       says why";

/// A measured document with a policy by reference.
fn by_reference(hub: &DataHub, uri: &str) -> String {
    let uri = format!("[image-policy]\nuri = \"kbs:///default/{uri}\"\n");
    format!("{uri}[resources]\nsource = \"{}\"\n", hub.source())
}

impl Place {
    /// A CDH that has this, at a socket of this name.
    fn hub(&self, name: &str, vault: Vault) -> DataHub {
        DataHub::start(&self.site.scratch.path().join(name), vault).unwrap()
    }
}

#[test]
fn privileged_policy_and_keys_of_the_broker_are_those_of_the_boot() {
    vm_harness::needs_root!();
    let mut place = Place::start();
    let (digest, image) = (place.site.layout.manifest.clone(), place.site.image());
    let by_key = |key: &str| {
        let key = format!("kbs:///default/{key}");
        json!({"default": [signed_by(&key, "matchRepository")]}).to_string()
    };
    let team = std::fs::read(place.team.public()).unwrap();
    let vault = Vault::new()
        .with("default/policy/images", by_key("key/team"))
        .with("default/policy/no-key", by_key("key/none"))
        .with("default/policy/other-secret", by_key("policy/images"))
        .with("default/key/team", &team);
    let hub = place.hub("cdh.sock", vault);
    place.sign(&place.team, &digest, &place.name("team/app"), "team/app");
    // Nothing says whether there is such a thing, or what it is.
    for (uri, named) in [
        ("policy/absent", "policy/absent"),
        ("key/team", "key/team"),
        ("policy/no-key", "key/none"),
        ("policy/other-secret", "policy/images"),
    ] {
        place.measured(&by_reference(&hub, uri));
        let words = [&format!("kbs:///default/{named}: "), NOTHING];
        place.puller.refuse(&image, 69, &words);
    }
    place.measured(&by_reference(&hub, "policy/images"));
    place.puller.pull(&image, "first");
    let asked = hub.asked().len();
    let unsigned = place.push("team/unsigned:1", "unsigned");
    let unsigned = format!("{}@{unsigned}", place.name("team/unsigned"));
    place.puller.refuse(&unsigned, 65, &["no signature was found"]);
    assert_eq!(hub.asked().len(), asked, "it was asked once");

    drop(hub);
    drop(place.site.registry);
    place.puller.pull(&image, "without-anybody");
    // Another service knows nothing of what this one was told.
    place.puller.kill();
    place.puller.restart();
    place.puller.refuse(&image, 69, &["kbs:///default/policy/images"]);
}

/// Two CDHs, of two owners: who blocks the one that the owner names does not get the other one
/// asked, which is behind the service.
#[test]
fn privileged_the_source_that_the_owner_names_is_the_only_one() {
    vm_harness::needs_root!();
    let mut place = Place::start();
    let (digest, image) = (place.site.layout.manifest.clone(), place.site.image());
    let by = |key: &str| {
        let key = format!("kbs:///default/key/{key}");
        signed_by(&key, "matchRepository")
    };
    let policy =
        policy(&[(&place.name("team/app"), by("app")), (&place.name("team/next"), by("next"))]);
    let key = std::fs::read(place.team.public()).unwrap();
    let first = Vault::new()
        .with("default/policy/images", policy.to_string())
        .with("default/key/app", &key)
        .with("default/key/next", &key);
    // The other one would let somebody else's images run.
    let other = std::fs::read(place.other.public()).unwrap();
    let second = Vault::new().with("default/key/next", other);
    let [first, second] = [place.hub("first", first), place.hub("second", second)];
    let upstream = format!("unix:{}", second.socket().display());
    let more = ["--upstream", &upstream, "--attempts", "1"];
    let document = place.site.document("localhost");
    place.puller = Puller::start_with(&place.site.scratch, &document, &more);
    place.measured(&by_reference(&first, "policy/images"));
    place.sign(&place.team, &digest, &place.name("team/app"), "team/app");
    place.push_layout(&place.site.layout, "team/next:1");
    place.sign(&place.other, &digest, &place.name("team/next"), "team/next");
    place.puller.pull(&image, "first");
    drop(first);
    // The policy is known, and its key is not.
    let next = image.replace("team/app@", "team/next@");
    place.puller.refuse(&next, 69, &["kbs:///default/key/next"]);
    assert_eq!(second.asked(), [""; 0], "another owner's key");
    place.puller.pull(&image, "again");
}

/// The owner changes the policy and a key while a guest runs: the guest goes by what it was told at
/// its boot, and the next boot by what is there then.
#[test]
fn privileged_what_the_owner_changes_holds_from_the_next_boot() {
    vm_harness::needs_root!();
    let mut place = Place::start();
    let (digest, image) = (place.site.layout.manifest.clone(), place.site.image());
    let by_key = |key: &str| {
        let key = format!("kbs:///default/key/{key}");
        json!({"default": [signed_by(&key, "matchRepository")]}).to_string()
    };
    let [team, other] = [&place.team, &place.other].map(|key| std::fs::read(key.public()).unwrap());
    let vault = Vault::new()
        .with("default/policy/images", by_key("team"))
        .with("default/key/team", &team)
        .with("default/key/other", &other);
    let hub = place.hub("cdh.sock", vault);
    place.measured(&by_reference(&hub, "policy/images"));
    place.sign(&place.team, &digest, &place.name("team/app"), "team/app");
    place.puller.pull(&image, "first");
    let next = place.push("team/next:1", "next");
    place.sign(&place.team, &next, &place.name("team/next"), "team/next");
    let next = format!("{}@{next}", place.name("team/next"));

    hub.replace("default/policy/images", by_key("other"));
    hub.replace("default/key/team", &other);
    place.puller.pull(&image, "again");
    place.puller.pull(&next, "another-image");
    place.puller.kill();
    place.puller.restart();
    let words = ["by kbs:///default/key/other", "no signature that was found is by that key"];
    place.puller.refuse(&image, 65, &words);
    place.puller.refuse(&next, 65, &words);

    hub.replace("default/policy/images", by_key("team"));
    hub.replace("default/key/team", &team);
    place.puller.refuse(&image, 65, &words);
    place.puller.kill();
    place.puller.restart();
    place.puller.pull(&image, "back");
}

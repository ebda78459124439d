//! A policy and keys that the key broker has.

use confidential_fixtures::{Kbs, Policy, Vault};
use serde_json::json;

use super::place::{Place, policy, signed_by};

/// What an error says of a reference, whatever lies there.
const NOTHING: &str = "the broker gave nothing usable to this guest; `imagepuller status` inside \
                       says why";

/// A measured document with a policy by reference.
fn by_reference(kbs: &Kbs, uri: &str) -> String {
    format!(
        "[image-policy]\nuri = \"kbs:///default/{uri}\"\n[resources]\nsources = [\"kbs={}\"]\n\
        kbs-attester = \"sample\"\n",
        kbs.base()
    )
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
        .with("default/policy/refused", by_key("key/team"))
        .with("default/key/team", &team);
    let refused =
        Policy { refused: vec!["default/policy/refused".to_owned()], ..Policy::default() };
    let kbs = Kbs::start(vault, refused, None).unwrap();
    place.sign(&place.team, &digest, &place.name("team/app"), "team/app");
    // Nothing says whether there is such a thing, or what it is.
    for (uri, named) in [
        ("policy/refused", "policy/refused"),
        ("policy/absent", "policy/absent"),
        ("key/team", "key/team"),
        ("policy/no-key", "key/none"),
        ("policy/other-secret", "policy/images"),
    ] {
        place.measured(&by_reference(&kbs, uri));
        let words = [&format!("kbs:///default/{named}: "), NOTHING];
        place.puller.refuse(&image, 69, &words);
    }
    place.measured(&by_reference(&kbs, "policy/images"));
    place.puller.pull(&image, "first");
    let asked = kbs.requests().len();
    let unsigned = place.push("team/unsigned:1", "unsigned");
    let unsigned = format!("{}@{unsigned}", place.name("team/unsigned"));
    place.puller.refuse(&unsigned, 65, &["no signature was found"]);
    assert_eq!(kbs.requests().len(), asked, "it was asked once");

    drop(kbs);
    drop(place.site.registry);
    place.puller.pull(&image, "without-anybody");
    // Another service knows nothing of what this one was told.
    place.puller.kill();
    place.puller.restart();
    place.puller.refuse(&image, 69, &["kbs:///default/policy/images"]);
}

/// Two brokers, of two owners: the host may block one, and must not mix what they say.
#[test]
fn privileged_what_was_told_before_binds_the_pull_to_who_told_it() {
    vm_harness::needs_root!();
    let place = Place::start();
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
    let [first, second] =
        [first, second].map(|vault| Kbs::start(vault, Policy::default(), None).unwrap());
    place.measured(&format!(
        "[image-policy]\nuri = \"kbs:///default/policy/images\"\n[resources]\nsources \
        = [\"kbs={}\", \"kbs={}\"]\nkbs-attester = \"sample\"\n",
        first.base(),
        second.base()
    ));
    place.sign(&place.team, &digest, &place.name("team/app"), "team/app");
    place.push_layout(&place.site.layout, "team/next:1");
    place.sign(&place.other, &digest, &place.name("team/next"), "team/next");
    place.puller.pull(&image, "first");
    drop(first);
    // The policy is known, and its key is not.
    let next = image.replace("team/app@", "team/next@");
    place.puller.refuse(&next, 69, &["kbs:///default/key/next"]);
    assert_eq!(second.given(), Vec::<String>::new(), "another owner's key");
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
    let kbs = Kbs::start(vault, Policy::default(), None).unwrap();
    place.measured(&by_reference(&kbs, "policy/images"));
    place.sign(&place.team, &digest, &place.name("team/app"), "team/app");
    place.puller.pull(&image, "first");
    let next = place.push("team/next:1", "next");
    place.sign(&place.team, &next, &place.name("team/next"), "team/next");
    let next = format!("{}@{next}", place.name("team/next"));

    kbs.replace("default/policy/images", by_key("other"));
    kbs.replace("default/key/team", &other);
    place.puller.pull(&image, "again");
    place.puller.pull(&next, "another-image");
    place.puller.kill();
    place.puller.restart();
    let words = ["by kbs:///default/key/other", "no signature that was found is by that key"];
    place.puller.refuse(&image, 65, &words);
    place.puller.refuse(&next, 65, &words);

    kbs.replace("default/policy/images", by_key("team"));
    kbs.replace("default/key/team", &team);
    place.puller.refuse(&image, 65, &words);
    place.puller.kill();
    place.puller.restart();
    place.puller.pull(&image, "back");
}

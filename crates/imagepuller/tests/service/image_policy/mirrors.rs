//! Mirrors serve signatures, and are believed for nothing else.

use std::net::Ipv4Addr;
use std::path::Path;

use confidential_fixtures::encrypted::{Key, KeyKind};
use confidential_fixtures::signed::{SimpleSignature, signature_manifest, signature_tag};
use fault_registry::{
    Action, Bytes, Content, FaultRegistry, Http, Image, Layer, Script, Tls, What,
};
use serde_json::json;
use test_http::pki::Authority;
use vm_harness::{Port, Scratch};

use super::place::{document, signed_by};
use crate::support::Puller;

/// A mirror before a registry, and a guest.
struct Stage {
    registry: FaultRegistry,
    mirror: FaultRegistry,
    puller: Puller,
    digest: String,
}

/// What both have: an image, and beside it what each has of its own.
fn content(file: &str) -> (Content, String) {
    let mut content = Content::default();
    let layer = Layer::gzip(&[("file", file.as_bytes())]).unwrap();
    let digest = Image::new(vec![layer]).publish(&mut content);
    content.tag("1", &digest);
    (content, digest)
}

/// Adds signatures of an image.
fn add(content: &mut Content, signatures: &[SimpleSignature], digest: &str) {
    let (manifest, blobs) = signature_manifest(signatures);
    let manifest = content.add_manifest(manifest.to_string().into_bytes());
    content.tag(&signature_tag(digest), &manifest);
    content.tag("latest", digest);
    for blob in blobs {
        content.add(What::Unknown, "application/octet-stream", blob);
    }
}

impl Stage {
    fn new(
        scratch: &Scratch,
        key: &Path,
        registry: impl FnOnce(u16) -> Content,
        mirror: impl FnOnce(u16) -> (Content, Script),
        digest: &str,
    ) -> Self {
        let authority = Authority::new("mirrors").unwrap();
        let identity = authority.sign(&["localhost"]).unwrap();
        let tls = Tls { identity: &identity, name: "localhost", http: Http::One };
        // The name that is signed has the port, so that comes first.
        let reserved = Port::reserve().unwrap();
        let port = reserved.number();
        let content = registry(port);
        let address = (Ipv4Addr::LOCALHOST, port).into();
        let registry = FaultRegistry::listen(address, content, Script::new(), Some(&tls));
        let registry = registry.unwrap();
        let (content, script) = mirror(port);
        let mirror = FaultRegistry::start(content, script, Some(&tls)).unwrap();
        let certificate = authority.certificate();
        let ca = format!("ca-certs = '''\n{certificate}'''\n");
        let at = mirror.address().port();
        let configuration = format!(
            "[registries.\"localhost:{port}\"]\nmirrors = [\"https://localhost:{at}\"]\n\
            mirror-fallback = true\n{ca}[registries.\"localhost:{at}\"]\n{ca}"
        );
        let puller = Puller::start(scratch, Some(&configuration));
        let by_team = json!({"default": [signed_by("team.pub", "matchRepository")]});
        let measured = document(&by_team, &format!("allow-tags = [\"localhost:{port}\"]\n"));
        puller.measure(&measured);
        std::fs::copy(key, puller.document().with_file_name("team.pub")).unwrap();
        Self { registry, mirror, puller, digest: digest.to_owned() }
    }

    fn name(&self) -> String {
        format!("localhost:{}/team/app", self.registry.address().port())
    }

    fn image(&self) -> String {
        format!("{}@{}", self.name(), self.digest)
    }
}

#[test]
fn privileged_a_mirror_serves_signatures_and_makes_nothing_better() {
    vm_harness::needs_root!();
    let scratch = Scratch::new().unwrap();
    let key = Key::generate(&scratch, "team", KeyKind::P256).unwrap();
    let other = Key::generate(&scratch, "other", KeyKind::P256).unwrap();
    let name = |port: u16| format!("localhost:{port}/team/app");
    let (plain, digest) = content("file");
    let signed = |port: u16, by: &Key| {
        let mut content = plain.clone();
        let signature = SimpleSignature::new(by, &digest, &name(port)).unwrap();
        add(&mut content, &[signature], &digest);
        content
    };
    let stage = |registry: &dyn Fn(u16) -> Content, mirror: &dyn Fn(u16) -> (Content, Script)| {
        Stage::new(&scratch, key.public(), registry, mirror, &digest)
    };
    let asked = |stage: &Stage, start: &str| {
        let requests = stage.registry.requests();
        let paths = requests.iter().map(|request| request.path.clone());
        paths.filter(|path| path.contains(start)).count()
    };

    let good = stage(&|_| plain.clone(), &|port| (signed(port, &key), Script::new()));
    good.puller.pull(&good.image(), "good");
    assert_eq!(good.registry.requests().len(), 0, "the mirror was enough");

    // The registry has what the mirror withholds, forges or breaks.
    let tag = format!("/v2/team/app/manifests/{}", signature_tag(&digest));
    let broken = Script::new().always(What::Path(tag.clone()), [Action::Body(Bytes::Flipped)]);
    let down = Script::new().always(What::Path(tag), [Action::status(500)]);
    for (case, by, script) in [
        ("withheld", None, Script::new()),
        ("forged", Some(&other), Script::new()),
        ("broken", Some(&key), broken),
        ("failing", Some(&key), down),
    ] {
        let made = stage(&|port| signed(port, &key), &|port| {
            let content = by.map_or(plain.clone(), |by| signed(port, by));
            (content, script.clone())
        });
        made.puller.pull(&made.image(), "pulled");
        assert!(asked(&made, ".sig") > 0, "{case}");
        assert_eq!(asked(&made, "/blobs/sha256:"), 1, "{case}: the payload alone");
    }
    let nowhere = stage(&|_| plain.clone(), &|port| (signed(port, &other), Script::new()));
    let words = ["the image policy refuses", "is by"];
    nowhere.puller.refuse(&nowhere.image(), 65, &words);

    // Under the tag it has an image of its own.
    let (of_mirror, _) = content("a lie");
    let liar = stage(&|port| signed(port, &key), &|_| (of_mirror.clone(), Script::new()));
    let words = ["no signature was found", "@sha256:...: "];
    liar.puller.refuse(&format!("{}:1", liar.name()), 65, &words);
    let layers = liar.mirror.requests();
    let layers = layers.iter().filter(|it| matches!(it.what, What::Layer(_)));
    assert_eq!(layers.count(), 0, "nothing of it was fetched");
}

/// One of them has all that the policy asks for: what two have half of each refuses the image. Each
/// is told of by what it has itself.
#[test]
fn privileged_one_source_has_every_signature_that_is_needed() {
    vm_harness::needs_root!();
    let scratch = Scratch::new().unwrap();
    let key = Key::generate(&scratch, "team", KeyKind::P256).unwrap();
    let tester = Key::generate(&scratch, "tester", KeyKind::P256).unwrap();
    let other = Key::generate(&scratch, "other", KeyKind::P256).unwrap();
    let (plain, digest) = content("file");
    let signed = |port: u16, by: Option<&Key>, junk: std::ops::Range<usize>| {
        let name = format!("localhost:{port}/team/app");
        let one = SimpleSignature::new(&other, &digest, &name).unwrap();
        let changed = |number: usize| SimpleSignature {
            payload: [&one.payload[..], number.to_string().as_bytes()].concat(),
            ..one.clone()
        };
        let by = by.map(|by| SimpleSignature::new(by, &digest, &name).unwrap());
        let all: Vec<_> = by.into_iter().chain(junk.map(changed)).collect();
        let mut content = plain.clone();
        add(&mut content, &all, &digest);
        content
    };
    let stage = |of_registry: Option<&Key>, of_mirror: Option<&Key>, junk: usize| {
        let registry = |port: u16| signed(port, of_registry, 200..200 + junk);
        let mirror = |port: u16| (signed(port, of_mirror, 0..300), Script::new());
        let made = Stage::new(&scratch, key.public(), registry, mirror, &digest);
        let there = |name: &str| made.puller.document().with_file_name(name);
        std::fs::copy(tester.public(), there("tester.pub")).unwrap();
        let both = json!({"default": [
            signed_by("team.pub", "matchRepository"), signed_by("tester.pub", "matchRepository"),
        ]});
        made.puller.measure(&document(&both, ""));
        made
    };
    let none = stage(None, None, 200);
    let words = ["is by that key", "; only 128 of 200 signatures were looked at"];
    none.puller.refuse(&none.image(), 65, &words);
    let half = stage(None, Some(&key), 200);
    let words = ["by team.pub", "; only 128 of 200 signatures were looked at"];
    half.puller.refuse(&half.image(), 65, &words);
    // What has none says nothing.
    let one = stage(None, Some(&key), 0);
    let words = ["by tester.pub", "; only 128 of 301 signatures were looked at"];
    one.puller.refuse(&one.image(), 65, &words);
    let half_each = stage(Some(&key), Some(&tester), 200);
    let words = ["by tester.pub", "; only 128 of 201 signatures were looked at"];
    half_each.puller.refuse(&half_each.image(), 65, &words);
}

/// Where the first place that is asked has the signature, two round trips are added: the places are
/// asked beside each other and beside the configuration, so the payload is one, and that no layer
/// is read before the verdict is the other.
#[test]
fn privileged_a_signature_costs_few_requests() {
    vm_harness::needs_root!();
    let scratch = Scratch::new().unwrap();
    let key = Key::generate(&scratch, "team", KeyKind::P256).unwrap();
    let (plain, digest) = content("file");
    let signed = |port: u16| {
        let mut content = plain.clone();
        let name = format!("localhost:{port}/team/app");
        let signature = SimpleSignature::new(&key, &digest, &name).unwrap();
        add(&mut content, &[signature], &digest);
        content
    };
    let stage = Stage::new(
        &scratch,
        key.public(),
        |_| plain.clone(),
        |port| {
            // The first one is the manifest. Configuration, tag and referrers are answered when all
            // three have been asked for, and with an error if they never are.
            let all = What::Path("/v2/team/app/".to_owned());
            let script = Script::new().times(all, 2..=4, [Action::Together(4)]);
            (signed(port), script)
        },
        &digest,
    );
    stage.puller.pull(&stage.image(), "signed");
    let requests = stage.mirror.requests();
    let paths: Vec<&str> = requests.iter().map(|request| request.path.as_str()).collect();
    let is_of_signature =
        |path: &&&str| path.contains("/referrers/") || path.contains("/manifests/sha256-");
    let of_signature = paths.iter().filter(is_of_signature).count();
    // The tag; the referrers, and the index in their place where a registry has no such interface.
    assert!((2..=3).contains(&of_signature), "{paths:?}");
    assert!(requests.len() <= 7, "none was asked for again: {paths:?}");
    let blobs = paths.iter().filter(|path| path.contains("/blobs/"));
    assert_eq!(blobs.count(), 3, "configuration, layer, payload: {paths:?}");
    let last = paths.last().unwrap();
    let layer = requests.iter().find(|request| matches!(request.what, What::Layer(_)));
    assert_eq!(layer.unwrap().path, *last, "the layer comes last: {paths:?}");
}

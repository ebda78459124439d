//! Keys that a data hub unwraps, and layers that CoCo's own key provider closed.

use std::fs;

use confidential_fixtures::encrypted::{Encrypted, KeyKind, Rewrap, Version, Which, WrapType};
use confidential_fixtures::{DataHub, Vault, recorded, recorded_bytes};
use serde_json::Value;
use vm_harness::layout::of_layers;

use super::place::{Place, Pulled};

const KEK: &str = "kbs:///team/kek/b";
const BY_HUB: &str = "by UnWrapKey of the hub";
const UNWRAP: &str = "unwrap = true";

impl Place {
    /// A pull with a hub that has this, and what else `[resources]` says; how the hub was asked.
    fn pull_by_hub(&self, image: &str, vault: &Vault, resources: &str) -> (Pulled, Vec<String>) {
        let dir = tempfile::tempdir_in(self.0.scratch.path()).unwrap();
        let socket = dir.path().join("cdh.sock");
        let hub = DataHub::start(&socket, vault.clone()).unwrap();
        let text = format!("[resources]\nsource = \"{}\"\n{resources}", hub.source());
        let measured = dir.path().join("measured.toml");
        fs::write(&measured, text).unwrap();
        let more = ["--measured", measured.to_str().unwrap()];
        let pulled = self.pull(image, &self.document(&[]), &more);
        (pulled, hub.asked())
    }
}

#[test]
fn privileged_the_hub_unwraps_all_packets_or_none() {
    vm_harness::needs_root!();
    let place = Place::start();
    let expected = place.expected();
    let key = place.key("key", KeyKind::Rsa2048);
    let image = place.encrypt("image", &[&key], Which::All);
    let kbs = Rewrap { version: Version::Two, ..Rewrap::new(KEK).unwrap() };
    let cloud = Rewrap { provider: "aliyun", ..kbs.clone() };
    let ctr = |rewrap: &Rewrap| Rewrap { wrap_type: WrapType::A256Ctr, ..rewrap.clone() };
    let push = |name: &str, rewrap: &Rewrap| {
        let image = rewrap.apply(&place.0.scratch, name, &image, &key);
        place.push(&image.unwrap())
    };
    let vault = Vault::new().with("team/kek/b", kbs.key);
    let [of_kbs, of_cloud] = [push("kbs", &kbs), push("cloud", &cloud)];
    for (image, resources, asked, how) in [
        (&of_cloud, UNWRAP, "UnWrapKey", BY_HUB),
        (&of_kbs, UNWRAP, "UnWrapKey", BY_HUB),
        (&of_kbs, "", KEK, "key provider"),
    ] {
        let (pulled, questions) = place.pull_by_hub(image, &vault, resources);
        assert_eq!(pulled.files(), expected, "{resources}");
        assert!(questions.iter().all(|question| question == asked), "{questions:?}");
        let unlocked = pulled.unlocked();
        assert_eq!(unlocked.len(), 3);
        assert!(unlocked.iter().all(|found| found.contains(how)), "{unlocked:?}");
    }

    // A key that is another one than that of the layers, and one that is none.
    let changed = |name: &str, symkey: &str| {
        let image = cloud.apply_changed(&place.0.scratch, name, &image, &key, |options| {
            options["symkey"] = symkey.into();
        });
        place.push(&image.unwrap())
    };
    let forged = changed("forged", &format!("{}=", "A".repeat(43)));
    let broken = changed("broken", "AAAA");
    let [ctr_kbs, ctr_cloud] = [push("ctr-kbs", &ctr(&kbs)), push("ctr-cloud", &ctr(&cloud))];
    let none = Vault::new();
    for (image, vault, resources, code, expected, is_asked) in [
        (&of_cloud, &vault, "", 69, "only the CDH opens, with \"unwrap\"", false),
        (&of_cloud, &none, UNWRAP, 69, "ttrpc status 13: the data hub did not unwrap", true),
        (&of_kbs, &none, UNWRAP, 69, "ttrpc status 13: the data hub did not unwrap", true),
        (&forged, &vault, UNWRAP, 65, "the HMAC of the encrypted layer does not hold", true),
        (&broken, &vault, UNWRAP, 69, "what the hub unwrapped are no usable options", true),
        (&ctr_kbs, &vault, UNWRAP, 69, "\"A256CTR\", which is refused", false),
        (&ctr_cloud, &vault, UNWRAP, 69, "\"A256CTR\", which is refused", false),
    ] {
        let (pulled, questions) = place.pull_by_hub(image, vault, resources);
        let refusal = pulled.refusal(code) + &pulled.reasons;
        assert!(refusal.contains(expected), "{image}: {refusal}");
        assert_eq!(!questions.is_empty(), is_asked, "{image}: {questions:?}");
    }
}

/// With `unwrap` the hub once got packets whose key a plugin of the broker makes up, from what the
/// image's author says. Nor is a packet's key fetched, where the hub is to unwrap it.
#[test]
fn privileged_a_packet_goes_to_the_hub_only_if_its_key_is_a_resource() {
    vm_harness::needs_root!();
    let place = Place::start();
    let key = place.key("key", KeyKind::Rsa2048);
    let image = place.encrypt("image", &[&key], Which::All);
    let push = |name: &str, rewrap: &Rewrap| {
        let image = rewrap.apply(&place.0.scratch, name, &image, &key);
        place.push(&image.unwrap())
    };
    let resource = Rewrap::new(KEK).unwrap();
    let made_up = Rewrap::new("kbs+maker:///key?of=author").unwrap();
    let of_vault = push("of-vault", &resource);
    let of_plugin = push("of-plugin", &made_up);

    let vault = Vault::new().with("team/kek/b", resource.key);
    let (pulled, asked) = place.pull_by_hub(&of_vault, &vault, UNWRAP);
    assert_eq!(pulled.files(), place.expected());
    assert_eq!(asked, ["UnWrapKey"; 3]);

    let (pulled, asked) = place.pull_by_hub(&of_plugin, &vault, UNWRAP);
    let refusal = pulled.refusal(69);
    let words = "the key kbs+maker:///key?of=author is no resource";
    assert!(refusal.contains(words), "{refusal}");
    assert!(asked.is_empty(), "{asked:?}");
}

/// Layers in the state in which the real key provider left them.
#[test]
fn privileged_what_cocos_key_provider_closed_is_opened() {
    vm_harness::needs_root!();
    let place = Place::start();
    let image = |name: &str, layers: &[&str]| {
        let path = place.0.scratch.path().join(name);
        let expect = recorded("keyprovider/expect.json").unwrap();
        let expect: Vec<Value> = serde_json::from_str(&expect).unwrap();
        fs::create_dir_all(path.join("blobs/sha256")).unwrap();
        let layers = layers.iter().map(|layer| {
            let descriptor = recorded(&format!("keyprovider/{layer}/descriptor.json")).unwrap();
            let descriptor: Value = serde_json::from_str(&descriptor).unwrap();
            let file = descriptor["digest"].as_str().unwrap().replace(':', "/");
            let bytes = recorded_bytes(&format!("keyprovider/{layer}/layer.enc")).unwrap();
            fs::write(path.join("blobs").join(file), bytes).unwrap();
            let expect = expect.iter().find(|expect| expect["dir"] == **layer).unwrap();
            (descriptor, expect["diff_id"].as_str().unwrap().to_owned())
        });
        of_layers(&path, layers.collect()).unwrap();
        place.push(&Encrypted::open(path).unwrap())
    };
    let vault = |name: &str, file: &str| {
        let key = recorded_bytes(&format!("keyprovider/{file}")).unwrap();
        Vault::new().with(name, key)
    };
    let many = ["tar", "gzip", "zstd", "kid-with-host", "a256ctr-asked-for"];
    let (many, sample) = (image("many", &many), image("sample", &["sample"]));
    let no_scheme = image("no-scheme", &["kid-without-scheme"]);
    let kek = vault("default/image-kek/k1", "kek.bin");
    let sample_kek = vault("default/test-key/1", "kek-sample.bin");
    for (image, vault, expected) in [
        (&many, &kek, None),
        (&sample, &sample_kek, None),
        (&sample, &kek, Some("kbs:///default/test-key/1")),
        (&no_scheme, &kek, Some("a resource URI begins with")),
    ] {
        let by_key = place.pull_with(image, &place.document(&[]), vault);
        let (by_hub, _) = place.pull_by_hub(image, vault, UNWRAP);
        for (pulled, is_by_hub) in [(by_key, false), (by_hub, true)] {
            match expected {
                None => {
                    let how = pulled.unlocked();
                    assert!(how.iter().all(|how| how.contains(BY_HUB) == is_by_hub), "{how:?}");
                    let file = fs::read(pulled.rootfs.join("hello.txt")).unwrap();
                    assert_eq!(file, b"hello from an encrypted layer\n");
                }
                Some(expected) => {
                    let refusal = pulled.refusal(69) + &pulled.reasons;
                    // What names no resource goes to no hub either.
                    let part = match is_by_hub && expected.starts_with("kbs:") {
                        true => "did not unwrap",
                        false => expected,
                    };
                    assert!(refusal.contains(part), "{refusal}");
                }
            }
        }
    }
}

//! Invariant: any signatures are judged in few words, what is enough is enough alone, and a
//! signature more never makes a verdict worse; nothing holds that no key of the policy made.
#![cfg_attr(fuzzing, no_main)]

use std::sync::OnceLock;

use image_policy::kept::{self, Placed};
use image_policy::{Conditions, Policy};
use oci_image::named::NamedReference;

macro_rules! key {
    ($name:literal) => {
        include_bytes!(concat!("../../tests/data/signatures/keys/", $name))
    };
}

/// The recorded keys, by their names.
const KEYS: [(&str, &[u8]); 6] = [
    ("cosign-a", key!("cosign-a.pub")),
    ("skopeo-s", key!("skopeo-s.pub")),
    ("hand-p256", key!("hand-p256.pub")),
    ("p384", key!("p384.pub")),
    ("ed25519", key!("ed25519.pub")),
    ("rsa2048", key!("rsa2048.pub")),
];

/// Each kind of identity by some of the keys, and a key that signed nothing.
fn policies() -> &'static [Policy] {
    static POLICIES: OnceLock<Vec<Policy>> = OnceLock::new();
    POLICIES.get_or_init(|| {
        let paths: Vec<_> = KEYS.iter().map(|(name, _)| format!("\"{name}\"")).collect();
        let signed = |keys: &str, identity: &str| {
            let keys = format!("\"type\":\"sigstoreSigned\",\"keyPaths\":[{keys}]");
            format!("{{{keys},\"signedIdentity\":{identity}}}")
        };
        let kinds = [
            "{\"type\":\"matchExact\"}",
            "{\"type\":\"matchRepoDigestOrExact\"}",
            "{\"type\":\"matchRepository\"}",
            "{\"type\":\"digestOnly\"}",
            "{\"type\":\"exactRepository\",\"dockerRepository\":\"registry.test:5000/made/ok\"}",
        ];
        let all = paths.join(",");
        let of_kinds = kinds.map(|kind| signed(&all, kind));
        let both = [signed("\"cosign-a\"", kinds[3]), signed("\"skopeo-s\"", kinds[2])].join(",");
        let texts = of_kinds.into_iter().chain([both, signed("\"never\"", kinds[3])]);
        texts
            .map(|text| {
                let text = format!("{{\"default\":[{text}]}}");
                Policy::parse(text.as_bytes()).unwrap()
            })
            .collect()
    })
}

/// The signatures that are enough, or the refusal.
fn verdict(
    policy: &Policy,
    name: &NamedReference,
    placed: &[Placed],
) -> Result<Vec<Placed>, String> {
    let contents = [name.digest().unwrap().clone()];
    let source = |path: &str| {
        // The key that signed nothing.
        const NEVER: &[u8] = key!("never-used.pub");
        let key = KEYS.iter().find(|(name, _)| *name == path);
        Ok(key.map_or(NEVER, |(_, key)| key).to_vec())
    };
    let judged = policy.ruling(name).judge(&contents, placed, &source, &Conditions::default());
    judged.map_err(|refusal| refusal.to_string())
}

fuzzing::target!(|bytes: &[u8]| {
    let Some(placed) = kept::read(bytes) else {
        return;
    };
    let Some((digest, _)) = placed.first() else {
        return;
    };
    for tag in ["", ":1.0"] {
        let name = format!("registry.test:5000/made/ok{tag}@{digest}");
        let name = NamedReference::parse(&name).unwrap();
        let policies = policies();
        for policy in policies {
            match verdict(policy, &name, &placed) {
                Ok(enough) => assert_eq!(verdict(policy, &name, &enough), Ok(enough.clone())),
                Err(words) => {
                    assert!(words.len() < 2000, "{words}");
                    assert!(!words.chars().any(char::is_control), "{words:?}");
                    assert!(verdict(policy, &name, &placed[1..]).is_err());
                    assert!(verdict(policy, &name, &placed[..placed.len() - 1]).is_err());
                }
            }
        }
        let last = policies.last().unwrap();
        assert!(verdict(last, &name, &placed).is_err());
    }
});

//! Invariant: any bytes are a policy within its limits or an error of few words, and no spelling of
//! an image's name leads past what the policy says of another.
#![cfg_attr(fuzzing, no_main)]

use image_policy::{Conditions, Policy};
use oci_image::named::NamedReference;

const DIGEST: &str = "sha256:f7ff70f91006e54ed820c234f5392b780d2cbbde0ef52c7dba4fb49c79fcb71a";

/// Two spellings of each name.
const NAMES: [[&str; 2]; 4] = [
    ["registry.test/team/app", "REGISTRY.test:443/team/app"],
    ["registry.test/team/app:1.0", "Registry.test:0443/team/app:1.0"],
    ["registry.test:5000/team/deep/app:1.0", "registry.TEST:05000/team/deep/app:1.0"],
    ["tiny", "index.docker.io/library/tiny"],
];

/// The verdict about an image without signatures, where no key is there.
fn verdict(policy: &Policy, name: &str) -> Result<(), String> {
    let reference = NamedReference::parse(&format!("{name}@{DIGEST}")).unwrap();
    let contents = [reference.digest().unwrap().clone()];
    let key = |_: &str| Err("is not there".to_owned());
    let ruling = policy.ruling(&reference);
    let verdict = ruling.judge(&contents, &[], &key, &Conditions::default());
    verdict.map(drop).map_err(|refusal| refusal.to_string())
}

fn check(text: &str) {
    assert!(text.len() < 12_000, "{text}");
    assert!(!text.chars().any(char::is_control), "{text:?}");
}

fuzzing::target!(|bytes: &[u8]| {
    // A scope or a digest that stands beside a policy.
    if let Ok(text) = str::from_utf8(bytes) {
        let items = [text.to_owned()];
        for (_, words) in Conditions::parse(&items, &items).err().iter().flatten() {
            check(words);
        }
    }
    for policy in [Policy::parse(bytes), Policy::parse_of_cdh(bytes)] {
        let policy = match policy {
            Ok(policy) => policy,
            Err(error) => {
                check(&error.to_string());
                continue;
            }
        };
        for remark in policy.remarks() {
            check(&remark.to_string());
        }
        for [one, other] in NAMES {
            let (one, other) = (verdict(&policy, one), verdict(&policy, other));
            assert_eq!(one, other);
            if let Err(refusal) = one {
                check(&refusal);
            }
        }
    }
});

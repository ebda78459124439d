use super::*;
use crate::vector::{PRIVATE, PUBLIC};

fn key() -> LayerKey {
    let public = PublicOptions::parse(PUBLIC.as_bytes()).unwrap();
    LayerKey::parse(PRIVATE.as_bytes(), &public).unwrap()
}

fn digest(algorithm: &str, digit: &str, digits: usize) -> Digest {
    Digest::parse(&format!("{algorithm}:{}", digit.repeat(digits))).unwrap()
}

/// A name in the store: it must not change from one version to the next without a reason.
#[test]
fn a_name_depends_on_key_and_layer() {
    let zeros = digest("sha256", "0", 64);
    let named = key().tag(&zeros);
    assert_eq!(
        named.to_string(),
        "sha256:6007421ac7843aef075c471f717e3d18228d4bab38f62f6c3c5addf20474b598"
    );
    assert_eq!(key().tag(&zeros), named);
    let public = PublicOptions::parse(PUBLIC.as_bytes()).unwrap();
    let other = PRIVATE.replace("AAEC", "BAEC");
    let other = LayerKey::parse(other.as_bytes(), &public).unwrap();
    let names = [
        named,
        other.tag(&zeros),
        key().tag(&digest("sha256", "1", 64)),
        key().tag(&digest("sha512", "0", 128)),
    ];
    for (at, name) in names.iter().enumerate() {
        assert!(!names[..at].contains(name), "{name}");
    }
}

#[test]
fn debug_shows_nothing() {
    assert_eq!(format!("{:?}", key()), "LayerKey");
    assert_eq!(format!("{:?}", key().decryptor().unwrap()), "Decryptor");
}

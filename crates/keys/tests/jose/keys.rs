//! Keys as JWK, the work that a password may be, and bytes that are no key.

use std::path::Path;

use der::Encode;
use der::asn1::OctetStringRef;
use keys::KeyError;
use pkcs8::EncryptedPrivateKeyInfoRef;
use pkcs8::pkcs5::pbes2::{
    EncryptionScheme, Kdf, Parameters, Pbkdf2Params, Pbkdf2Prf, Salt, ScryptParams,
};
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::support::{Peer, decode, encode, read, refusal};

/// How much work a password is, is written in the key: none of this may be begun.
#[test]
fn work_without_bound_is_not_begun() {
    let salt = || Salt::new([1; 8]).unwrap();
    let scrypt = |cost_parameter, block_size, parallelization| {
        Kdf::from(ScryptParams {
            salt: salt(),
            cost_parameter,
            block_size,
            parallelization,
            key_length: None,
        })
    };
    let pbkdf2 = |iteration_count, key_length| {
        Kdf::from(Pbkdf2Params {
            salt: salt(),
            iteration_count,
            key_length,
            prf: Pbkdf2Prf::HmacWithSha256,
        })
    };
    let cost = |kdf| {
        let parameters =
            Parameters { kdf, encryption: EncryptionScheme::Aes256Cbc { iv: [0; 16] } };
        let key = EncryptedPrivateKeyInfoRef {
            encryption_algorithm: parameters.into(),
            encrypted_data: OctetStringRef::new(&[0; 32]).unwrap(),
        };
        read(&key.to_der().unwrap()).unwrap_err()
    };
    for kdf in [
        scrypt(1 << 63, 8, 1),
        scrypt(1 << 20, 8, 1),
        scrypt(1 << 17, 8, 1),
        scrypt(1 << 14, 8, 16),
        scrypt(2, u16::MAX, u16::MAX),
        scrypt(1 << 14, u16::MAX, 1),
        pbkdf2(2_000_001, None),
        pbkdf2(u32::MAX, None),
    ] {
        assert!(matches!(cost(kdf.clone()), KeyError::Cost(_)), "{kdf:?}");
    }
    for kdf in [
        scrypt(0, 8, 1),
        scrypt(1, 8, 1),
        scrypt(3, 8, 1),
        scrypt(u64::MAX, 8, 1),
        scrypt(1 << 14, 0, 1),
        scrypt(1 << 14, 8, 0),
        pbkdf2(0, None),
        pbkdf2(1, Some(16)),
        pbkdf2(1, Some(u16::MAX)),
    ] {
        assert_eq!(cost(kdf.clone()), KeyError::Encryption, "{kdf:?}");
    }
    for kdf in [pbkdf2(1, None), pbkdf2(2048, Some(32)), scrypt(2, 1, 1)] {
        assert_eq!(cost(kdf.clone()), KeyError::Password, "{kdf:?}");
    }
}

/// RFC 7517 appendix A.2, an EC key, with what may be changed about it.
fn jwk(change: impl FnOnce(&mut Value)) -> String {
    let mut jwk = json!({
        "kty": "EC",
        "crv": "P-256",
        "x": "MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4",
        "y": "4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM",
        "d": "870MB6gfuTJ4HtUnUvYMyJpr5eUZNP4Bk43bVdj3eAE",
        "use": "enc",
        "kid": "1",
    });
    change(&mut jwk);
    jwk.to_string()
}

#[test]
fn jwks_are_read_for_what_they_say() {
    let unchanged = |_: &mut Value| {};
    for text in [
        jwk(unchanged),
        format!(" \n{}\n", jwk(unchanged)),
        jwk(|jwk| jwk["alg"] = "ECDH-ES+A192KW".into()),
        jwk(|jwk| drop(jwk.as_object_mut().unwrap().remove("use"))),
        jwk(|jwk| jwk["key_ops"] = json!(["deriveKey"])),
    ] {
        let point = read(text.as_bytes()).unwrap().public_point().unwrap();
        let [x, y] = [
            "MKBCTNIcKUSDii11ySs3526iDZ8AiTo7Tu6KPAqv7D4",
            "4Etl6SRW2YiLUrN5vfvVHuhp7x8PxltmWWlbbM4IFyM",
        ];
        assert_eq!(point, [&[4], &*decode(x), &*decode(y)].concat());
    }
    let p256_order = "_____wAAAAD__________7zm-q2nF56E87nKwvxjJVE";
    for (text, want) in [
        (jwk(|jwk| jwk["use"] = "sig".into()), "not for encryption"),
        (jwk(|jwk| jwk["alg"] = "ES256".into()), "a JWK for ES256 only"),
        (jwk(|jwk| jwk["alg"] = "RSA-OAEP".into()), "a JWK for RSA-OAEP only"),
        (jwk(|jwk| jwk["alg"] = json!(1)), "an unknown algorithm only"),
        (jwk(|jwk| jwk["kty"] = "oct".into()), "a kind that is not supported"),
        (jwk(|jwk| jwk["kty"] = "OKP".into()), "a kind that is not supported"),
        (jwk(|jwk| jwk["crv"] = "secp256k1".into()), "a kind that is not supported"),
        (jwk(|jwk| jwk["crv"] = "P-384".into()), "of its curve's length"),
        (jwk(|jwk| drop(jwk.as_object_mut().unwrap().remove("d"))), "a public key"),
        (jwk(|jwk| drop(jwk.as_object_mut().unwrap().remove("kty"))), "what kind of key"),
        (jwk(|jwk| jwk["d"] = "AAAA".into()), "a wrong length"),
        (
            jwk(|jwk| jwk["d"] = "870MB6gfuTJ4HtUnUvYMyJpr5eUZNP4Bk43bVdj3eAE=".into()),
            "not base64url",
        ),
        (jwk(|jwk| jwk["d"] = encode([0; 32]).into()), "do not belong together"),
        (jwk(|jwk| jwk["d"] = p256_order.into()), "do not belong together"),
        (jwk(|jwk| jwk["d"] = encode([0xff; 32]).into()), "do not belong together"),
        (jwk(|jwk| jwk["d"] = encode([7; 32]).into()), "do not belong together"),
        (jwk(|jwk| *jwk = json!({"keys": [jwk]})), "a set of keys"),
        (jwk(unchanged).replacen('{', r#"{"d":"","#, 1), "JSON member twice"),
        ("{".to_owned(), "is not JSON"),
    ] {
        let error = refusal(text.as_bytes());
        assert!(error.contains(want), "{want}: {error}");
    }
}

/// RSA as JWK: its numbers are looked at together, and all of them are needed.
#[test]
fn rsa_numbers_that_do_not_belong_together_are_refused() {
    let Some(peer) = Peer::ask() else {
        return;
    };
    let text = peer.messages()[0]["keys"][0].as_str().unwrap();
    let jwk: Value = serde_json::from_str(text).unwrap();
    assert!(read(jwk.to_string().as_bytes()).is_ok());
    for name in ["n", "e", "d", "p", "q", "dp", "dq", "qi"] {
        let mut without = jwk.clone();
        without.as_object_mut().unwrap().remove(name);
        assert!(refusal(without.to_string().as_bytes()).contains("JWK that"));
        let mut number = decode(jwk[name].as_str().unwrap());
        *number.last_mut().unwrap() ^= 2;
        let mut changed = jwk.clone();
        changed[name] = encode(number).into();
        let error = refusal(changed.to_string().as_bytes());
        assert!(error.contains("belong together"), "{name}: {error}");
        let mut empty = jwk.clone();
        empty[name] = "".into();
        assert!(read(empty.to_string().as_bytes()).is_err());
    }
    let mut several = jwk.clone();
    several["oth"] = json!([]);
    assert_eq!(read(several.to_string().as_bytes()).unwrap_err(), KeyError::Kind);
}

#[test]
fn a_key_shows_its_kind_only() {
    let key = read(jwk(|jwk| jwk["alg"] = "ECDH-ES+A256KW".into()).as_bytes()).unwrap();
    assert_eq!(format!("{key:?}"), "PrivateKey(P-256 (ECDH-ES+A256KW only))");
    fn is_shared<T: Send + Sync>(_: &T) {}
    is_shared(&key);
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 128, failure_persistence: None, ..ProptestConfig::default()
    })]
    /// However a real key is damaged: a key or an error of few words.
    #[test]
    fn a_damaged_key_is_a_key_or_an_error_of_few_words(
        at in any::<prop::sample::Index>(),
        byte in any::<u8>(),
    ) {
        for seed in ["encrypted.der", "sec1.der", "pkcs8.der"] {
            let seeds = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds/private_key");
            let path = seeds.join(seed);
            let mut key = std::fs::read(path).unwrap();
            prop_assert!(read(&key).is_ok(), "{}", seed);
            let at = at.index(key.len());
            key[at] = byte;
            if let Err(error) = read(&key) {
                prop_assert!(error.to_string().len() < 300);
            }
        }
    }
}

use confidential_fixtures::encrypted::{Key, KeyKind};
use confidential_fixtures::signed::SimpleSignature;
use oci_image::named::NamedReference;
use vm_harness::Scratch;

use super::*;

const DIGEST: &str = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

/// A pull judges before it asks, for each mirror, and for the few that are enough; each time with
/// what came before. Signatures are verified once nevertheless.
#[test]
fn a_signature_is_verified_once_for_a_pull() {
    let key = include_bytes!("../../../../../image-policy/tests/data/signatures/keys/p384.pub");
    let text = br#"{"default":[{"type":"sigstoreSigned","keyPaths":["a","b"]}]}"#;
    let rules = Rules {
        policy: Policy::parse(text).unwrap(),
        conditions: Conditions::default(),
        files: Files::Measured(None),
        proofs: Arc::default(),
    };
    let name = NamedReference::parse(&format!("r.test/app@{DIGEST}")).unwrap();
    let name = Name::written(name);
    let digest = Digest::parse(DIGEST).unwrap();
    let signature = |number: u8| {
        let payload = vec![number];
        let signature = "AAAA".to_owned();
        (digest.clone(), Signature::Simple { payload, signature })
    };
    let keys = ["a", "b"].map(|path| (path.to_owned(), Ok(Text::new(key.to_vec().into()))));
    let keys = Keys::from(keys);
    let mut found = Vec::new();
    for mirror in 1..=3 {
        // Ten that every mirror has, and one of its own.
        found.extend((0..10).map(signature));
        found.push(signature(100 + mirror));
        let verdict = rules.judge(&name, std::slice::from_ref(&digest), &found, &keys);
        assert!(matches!(verdict, Verdict::Refused(_)), "{verdict:?}");
        assert_eq!(rules.proofs.tried(), 2 * (10 + u64::from(mirror)));
    }
}

/// What a mirror piles up is no reason to let go of what is enough for some of what is asked for.
#[test]
fn one_signature_for_each_requirement_is_held_back() {
    let scratch = Scratch::new().unwrap();
    let [team, tester] = ["team", "tester"].map(|name| {
        let key = Key::generate(&scratch, name, KeyKind::P256).unwrap();
        let bytes = std::fs::read(key.public()).unwrap();
        (key, Text::new(bytes.into()))
    });
    let digest = Digest::parse(DIGEST).unwrap();
    let replayed = format!("sha256:{}", "0".repeat(64));
    let name = Name::written(NamedReference::parse(&format!("r.test/app@{DIGEST}")).unwrap());
    let place = |SimpleSignature { payload, signature }| {
        (digest.clone(), Signature::Simple { payload, signature })
    };
    let sign = |key: &Key, digest: &str, name: &str| {
        place(SimpleSignature::new(key, digest, name).unwrap())
    };
    let nothing = SimpleSignature {
        payload: b"x".to_vec(),
        signature: SimpleSignature::new(&team.0, DIGEST, "r.test/app").unwrap().signature,
    };
    let of_team = sign(&team.0, DIGEST, "r.test/app:2");
    let of_tester = sign(&tester.0, DIGEST, "r.test/app");
    let found = [
        // Genuine, and for something else.
        sign(&team.0, &replayed, "r.test/app"),
        sign(&team.0, &replayed, "r.test/app"),
        sign(&team.0, DIGEST, "r.test/other"),
        place(nothing),
        of_team.clone(),
        // Made again.
        sign(&team.0, DIGEST, "r.test/app"),
        of_tester.clone(),
    ];
    let signed = |keys: &str| {
        format!(
            "{{\"type\":\"sigstoreSigned\",\"keyPaths\":[{keys}],\"signedIdentity\":\
            {{\"type\":\"matchRepository\"}}}}"
        )
    };
    let both = format!("[{},{}]", signed("\"team\""), signed("\"tester\""));
    let broken = format!("[{}]", signed("\"team\",\"broken\""));
    let text = format!(
        "{{\"default\":[{{\"type\":\"reject\"}}],\"transports\":{{\"docker\":{{\
        \"r.test/app:1\":{broken},\"r.test/app:2\":{both}}}}}}}"
    );
    let rules = Rules {
        policy: Policy::parse(text.as_bytes()).unwrap(),
        conditions: Conditions::default(),
        files: Files::Measured(None),
        proofs: Arc::default(),
    };
    let contents = std::slice::from_ref(&digest);
    let mut keys = Keys::default();
    let wanted = rules.helpful(&name, contents, &found, &keys).unwrap_err();
    assert!(wanted.contains("team") && wanted.contains("tester"), "{wanted:?}");
    // With a key that cannot be read, one scope holds for nothing; the other is as before.
    keys.insert("broken".to_owned(), Err("is not there".to_owned()));
    keys.insert("team".to_owned(), Ok(team.1));
    keys.insert("tester".to_owned(), Ok(tester.1));
    let helpful = rules.helpful(&name, contents, &found, &keys).unwrap();
    assert_eq!(helpful, [of_team, of_tester]);
}

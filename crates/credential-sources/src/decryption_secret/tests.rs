//! What secrets hold, and what becomes of it in a document. The keys in
//! `tests/data/decryption_keys` were made by OpenSSL.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use proptest::prelude::*;
use registry_config::{DecryptionKey, Document, MAX_DECRYPTION_KEYS};

use super::*;
use crate::merge::MergeError;

mod images;
mod passwords;

const PEM: &[u8] = include_bytes!("../../tests/data/decryption_keys/p256.pem");
const DER: &[u8] = include_bytes!("../../tests/data/decryption_keys/p384.der");
const JWK: &[u8] = include_bytes!("../../tests/data/decryption_keys/p256.jwk");
const ENCRYPTED: &[u8] = include_bytes!("../../tests/data/decryption_keys/p256-encrypted.pem");
const PUBLIC: &[u8] = include_bytes!("../../tests/data/decryption_keys/public.pem");
/// That of `ENCRYPTED`.
const PASSWORD: &[u8] = b"test";

fn base64(bytes: &[u8]) -> String {
    STANDARD.encode(bytes)
}

fn with_password(key: &[u8]) -> String {
    format!("{}:{}", base64(key), base64(PASSWORD))
}

fn file(text: &[u8]) -> Imported {
    checked(import(&[Source::File { name: "FILE", text }], &[]))
}

fn mounted(values: &[(&str, &[u8])]) -> Imported {
    let value = |(name, value): &(&str, &[u8])| ((*name).to_owned(), value.to_vec().into());
    let values: Values = values.iter().map(value).collect();
    let source = Source::Mounted { name: "DIR", values: &values };
    checked(import(&[source], &[]))
}

/// Nothing that is told shows a part of a key or password.
fn checked(imported: Imported) -> Imported {
    let shown = format!("{imported:?}");
    for secret in [PEM, DER, JWK, ENCRYPTED].map(base64) {
        for part in [&secret[..20], &secret[secret.len() - 24..secret.len() - 4]] {
            assert!(!shown.contains(part), "{shown}");
        }
    }
    for secret in ["MIGH", "hunter2", &base64(PASSWORD)] {
        assert!(!shown.contains(secret), "{shown}");
    }
    imported
}

fn items(imported: &Imported) -> Vec<&str> {
    imported.keys.iter().map(|key| key.item.expose()).collect()
}

/// What is told, with how much it matters.
fn told(imported: &Imported) -> Vec<String> {
    let findings = imported.findings.iter().chain(&imported.faults);
    findings.map(|finding| format!("{:?} {finding}", finding.loss)).collect()
}

fn manifest(kind: &str, data: &[(&str, &[u8])]) -> String {
    let data: String =
        data.iter().map(|(name, value)| format!("  {name}: {}\n", base64(value))).collect();
    format!(
        "apiVersion: v1\nkind: Secret\ntype: {kind}\nmetadata:\n  name: keys\n  namespace: \
        team\ndata:\n{data}"
    )
}

#[test]
fn file_is_a_key_or_a_list() {
    let list = format!("{},\n {} , kbs:///a/b/c\n", base64(PEM), with_password(ENCRYPTED));
    for (text, expected, what) in [
        (PEM, vec![base64(PEM)], vec!["Note FILE: a private key, P-256"]),
        (DER, vec![base64(DER)], vec!["Note FILE: a private key, P-384"]),
        (JWK, vec![base64(JWK)], vec!["Note FILE: a private key, P-256"]),
        (base64(DER).as_bytes(), vec![base64(DER)], vec!["Note FILE: a private key, P-384"]),
        (
            list.as_bytes(),
            vec![base64(PEM), with_password(ENCRYPTED), "kbs:///a/b/c".to_owned()],
            vec![
                "Note FILE: item 1: a private key, P-256",
                "Note FILE: item 2: a private key, P-256; its password is written in base64",
                "Note FILE: item 3: a reference, kbs:///a/b/c",
            ],
        ),
    ] {
        let imported = file(text);
        assert_eq!(items(&imported), expected);
        assert_eq!(told(&imported), what);
    }
}

#[test]
fn file_that_is_neither_is_told_so() {
    for (text, expected) in [
        (&b" \n"[..], "Lost FILE: it is empty, and adds no key"),
        (
            b"\xff\xfe",
            "Lost FILE: left out: it is neither PEM nor DER nor JWK; give a private key in one of \
            these forms",
        ),
        (
            b"hunter2 hunter2: [",
            "Lost FILE: it is no private key in PEM, DER or as JWK, no list of keys in base64, and \
            it is not a manifest: line ",
        ),
        (b"aHVudGVyMg==", "Lost FILE: left out: it is neither PEM nor DER nor JWK"),
        (b"aHVudGVyMg==:", "Lost FILE: left out: has no password behind its colon"),
        (PUBLIC, "Lost FILE: left out: it is "),
        (ENCRYPTED, "Lost FILE: left out: it is encrypted, and there is no password for it"),
        (
            b"kbs://a/b/c",
            "Lost FILE: left out: the repository stands where the broker's host would: three \
            slashes are meant, as in \"kbs:///a/b/c\"",
        ),
        (
            b"{\"kind\": \"List\", \"items\": [{\"kind\": \"Pod\"}]}",
            "Note FILE: Pod: an object of another kind, which is not looked at",
        ),
    ] {
        let imported = file(text);
        assert!(imported.keys.is_empty());
        let told = told(&imported);
        assert!(told.len() == 1 && told[0].starts_with(expected), "{told:?}");
    }
}

#[test]
fn secrets_have_key_files_with_passwords_and_lists() {
    let values: [(&str, &[u8]); 7] = [
        ("a.pem", PEM),
        ("b.pem", ENCRYPTED),
        ("b.pem.password", b"test\n"),
        ("c", b"kbs:///a/b/c"),
        ("d.password", b"hunter2"),
        ("keys", &[base64(DER), with_password(ENCRYPTED)].join(",").into_bytes()),
        ("tls.crt", PUBLIC),
    ];
    let expected = [base64(PEM), with_password(ENCRYPTED), "kbs:///a/b/c".to_owned(), base64(DER)];
    let what = |source: &str| {
        [
            format!("Note {source}: a.pem: a private key, P-256"),
            format!("Note {source}: b.pem: a private key, P-256"),
            format!("Note {source}: c: a reference, kbs:///a/b/c"),
            format!(
                "Lost {source}: d.password: left out: it is the password of a value \"d\", which \
                is not there"
            ),
            format!("Note {source}: keys, item 1: a private key, P-384"),
            format!(
                "Note {source}: keys, item 2: a private key, P-256, the same as that of {source}: \
                b.pem"
            ),
            format!("Note {source}: tls.crt: a certificate, which is not looked at"),
        ]
    };
    let imported = mounted(&values);
    assert_eq!(items(&imported), expected);
    assert_eq!(told(&imported), what("DIR"));
    for kind in ["Opaque", "kubernetes.io/tls", "key"] {
        let imported = file(manifest(kind, &values).as_bytes());
        assert_eq!(items(&imported), expected, "{kind}");
        assert_eq!(told(&imported), what("FILE: secret team/keys"), "{kind}");
    }
    let string_data = format!(
        "{{\"apiVersion\":\"v1\",\"kind\":\"Secret\",\"metadata\":{{\"name\":\"keys\"}},\
        \"stringData\":{{\"k\":{:?}}}}}",
        str::from_utf8(PEM).unwrap()
    );
    assert_eq!(items(&file(string_data.as_bytes())), [base64(PEM)]);
}

#[test]
fn what_a_secret_has_beside_keys_is_told() {
    for (text, expected) in [
        (
            manifest("kubernetes.io/dockerconfigjson", &[(".dockerconfigjson", b"{}")]),
            "Note FILE: secret team/keys: a secret of the type kubernetes.io/dockerconfigjson has \
            no decryption keys",
        ),
        (
            manifest("Opaque", &[("a", b"")]),
            "Lost FILE: secret team/keys: a: left out: it is empty",
        ),
        (
            manifest("Opaque", &[]) + "  a: '!'\n",
            "Lost FILE: secret team/keys: a: left out: it is not base64",
        ),
        (
            manifest("Opaque", &[("a", ENCRYPTED)]) + "  a.password: '!'\n",
            "Lost FILE: secret team/keys: a: left out: its password is not base64",
        ),
        (
            manifest("Opaque", &[("a", ENCRYPTED), ("a.password", b"hunter2")]),
            "Lost FILE: secret team/keys: a: left out: its password does not open it, or it is \
            damaged",
        ),
        (
            manifest(
                "Opaque",
                &[("a", with_password(ENCRYPTED).as_bytes()), ("a.password", PASSWORD)],
            ),
            "Lost FILE: secret team/keys: a: left out: it is a list, in which each key has its \
            password behind a colon",
        ),
        (
            manifest("Opaque", &[("a", &vec![b'a'; MAX_VALUE_BYTES + 1])]),
            "Lost FILE: secret team/keys: a: left out: it is too long for a key or a list of keys",
        ),
        (
            manifest("Opaque", &[("a", b"hunter2 hunter2")]),
            "Lost FILE: secret team/keys: a: left out: it is neither PEM nor DER nor JWK; give a \
            private key in one of these forms",
        ),
    ] {
        let imported = file(text.as_bytes());
        assert!(imported.keys.is_empty());
        assert_eq!(told(&imported), [expected]);
    }
}

#[test]
fn a_list_has_no_more_keys_than_a_document() {
    let list = |count: usize| {
        let items: Vec<_> = (0..count).map(|number| format!("kbs:///a/b/{number}")).collect();
        file(items.join(",").as_bytes())
    };
    assert_eq!(list(MAX_DECRYPTION_KEYS).keys.len(), MAX_DECRYPTION_KEYS);
    let refused = list(MAX_DECRYPTION_KEYS + 1);
    assert!(refused.keys.is_empty());
    assert_eq!(
        told(&refused),
        ["Lost FILE: left out: a list has at most 64 keys, as a document has"]
    );

    let half = |name: char| -> Vec<_> {
        let items = 0..=MAX_DECRYPTION_KEYS / 2;
        items.map(|number| format!("kbs:///a/{name}/{number}")).collect()
    };
    let [one, other] = ['x', 'y'].map(|name| half(name).join(","));
    let imported = mounted(&[("1", one.as_bytes()), ("2", other.as_bytes())]);
    assert_eq!(imported.keys.len(), MAX_DECRYPTION_KEYS);
    let full = "left out: a document has at most 64 decryption keys";
    assert!(told(&imported).last().unwrap().ends_with(full));
}

#[test]
fn items_of_all_values_count_also_those_that_are_no_keys() {
    let names: Vec<_> = (0..MAX_VALUES + 9).map(|number| format!("{number:04}")).collect();
    let more = "Lost DIR: 0256: left out with all that follow: there are more than 256 keys, \
    readable or not";
    for broken in [&b"hunter2 "[..], b" ", b"aHVudGVyMg=="] {
        let values: Vec<_> = names.iter().map(|name| (name.as_str(), broken)).collect();
        let told = told(&mounted(&values));
        assert_eq!((told.len(), told[MAX_VALUES].as_str()), (MAX_VALUES + 1, more));
    }
    // Five lists of 60 have 300 items, and the limit is in the fifth. A key that comes later is not
    // looked at.
    let list = ["aHVudGVyMg=="; 60].join(",");
    let list = list.as_bytes();
    let values = ["a", "b", "c", "d", "e"].map(|name| (name, list));
    let imported = mounted(&[&values[..], &[("f", PEM)]].concat());
    assert!(imported.keys.is_empty());
    let told = told(&imported);
    assert_eq!(told.len(), MAX_VALUES + 1);
    assert_eq!(told[MAX_VALUES], more.replace("0256", "e, item 17"),);
}

#[test]
fn no_more_keys_with_passwords_are_tried_than_the_guest_tries() {
    let wrong = |number: usize| format!("{}:{}", base64(ENCRYPTED), base64(&[b'0', number as u8]));
    let failing = |count: usize| (0..count).map(wrong).collect::<Vec<_>>();
    let last = |count: usize| {
        let more = [with_password(ENCRYPTED), base64(PEM)];
        file([failing(count), more.to_vec()].concat().join(",").as_bytes())
    };
    let imported = last(MAX_PASSWORDS - 1);
    assert_eq!(items(&imported), [with_password(ENCRYPTED), base64(PEM)]);
    // Failed ones count; keys without a password are read all the same.
    let imported = last(MAX_PASSWORDS);
    assert_eq!(items(&imported), [base64(PEM)]);
    assert_eq!(
        told(&imported)[MAX_PASSWORDS],
        "Lost FILE: item 17: left out: it has a password, and of such keys 16 are tried, here and \
        in the guest; store it without one"
    );
    // One that is there already is not tried again.
    let same = vec![with_password(ENCRYPTED); MAX_PASSWORDS + 1];
    let told = told(&file(same.join(",").as_bytes()));
    let expected = "Note FILE: item 17: a private key, P-256, the same as that of FILE: item 1";
    assert_eq!(told[MAX_PASSWORDS], expected);
}

#[test]
fn what_only_the_measured_document_may_name_is_left_out() {
    let imported = file(b"kbs+p:///a,kbs:///a/b/c");
    assert_eq!(items(&imported), ["kbs:///a/b/c"]);
    let told = told(&imported);
    assert!(
        told[0].starts_with("Lost FILE: item 1: left out: names a plugin of the key broker, "),
        "{told:?}"
    );
}

#[test]
fn keys_are_added_and_everything_else_is_as_before() {
    let keys = file(format!("kbs:///a/b/c,{}", base64(PEM)).as_bytes()).keys;
    let pem = base64(PEM);
    let new = format!("  \"kbs:///a/b/c\",\n  \"{pem}\",\n");
    let list = |own: &str| format!("[decryption-keys]\nkeys = [\n{new}{own}]\n");
    let both = list("  \"a2V5\",\n  \"kbs:///x/y/z\",\n");
    for (document, expected) in [
        ("", list("")),
        ("[registries.r]\n# gone", format!("[registries.r]\n\n{}", list(""))),
        ("[decryption-keys] # gone\n[registries.r]\n", format!("[registries.r]\n\n{}", list(""))),
        ("decryption-keys = {}\n", list("")),
        ("[decryption-keys]\nkeys = []\n", list("")),
        ("[decryption-keys]\nkeys = [\n\"a2V5\" # gone\n]\n", list("  \"a2V5\",\n")),
        ("decryption-keys.keys = 'a2V5 ,kbs:///x/y/z'\n", both.clone()),
        ("\"decryption\\u002dkeys\".keys = \"a2V5\\u002ckbs:///x/y/z\"", both),
    ] {
        let own = Document::parse(document.as_bytes()).unwrap().document;
        let complete = put_below(document.as_bytes(), &keys)
            .unwrap_or_else(|error| panic!("{document}: {error}"));
        let text = str::from_utf8(&complete.text).unwrap();
        assert_eq!(text, expected);
        assert!(complete.findings.is_empty());
        let count = complete.document.decryption_keys.all.len();
        assert_eq!(count, own.decryption_keys.all.len() + 2);
        assert!(!format!("{complete:?}").contains(&pem[..20]));

        let again = put_below(text.as_bytes(), &keys).unwrap();
        assert_eq!(*again.text, text.as_bytes());
        assert_eq!(
            again.findings.iter().map(ToString::to_string).collect::<Vec<_>>(),
            [
                "FILE: item 1: the document has it already",
                "FILE: item 2: the document has it already"
            ]
        );
    }
    assert_eq!(*put_below(b"# kept", &[]).unwrap().text, b"# kept");
}

#[test]
fn a_document_that_is_full_or_broken_gets_no_keys() {
    let keys = file(b"kbs:///a/b/c,kbs:///a/b/d").keys;
    let own: String =
        (1..MAX_DECRYPTION_KEYS).map(|number| format!("\"kbs:///own/b/{number}\",")).collect();
    let complete = put_below(format!("decryption-keys.keys = [{own}]").as_bytes(), &keys).unwrap();
    assert_eq!(complete.document.decryption_keys.all.len(), MAX_DECRYPTION_KEYS);
    assert_eq!(
        complete.findings[0].to_string(),
        "FILE: item 2: left out: a document has at most 64 decryption keys"
    );
    let error = put_below(b"decryption-keys.keys = ['hunter2']", &keys).unwrap_err();
    assert!(error.to_string().contains("line 1: decryption-keys.keys, item 1: neither"), "{error}");
    let error = put_below(b"node-error = 'no such file'", &keys).unwrap_err();
    assert!(matches!(error, MergeError::NodeError), "{error}");
    let entry = format!("registrytoken = '{}'\n", "a".repeat(16_096));
    let long: String = (0..65).map(|number| format!("[registries.r{number}]\n{entry}")).collect();
    assert!(Document::parse(long.as_bytes()).is_ok());
    let error = put_below(long.as_bytes(), &keys).unwrap_err();
    assert!(error.to_string().contains("a document has at most 1048576 bytes"), "{error}");
}

/// With a blank between them, and `_` for one in them.
const PARTS: &str = "YQ== : , kbs:///a/b/c kbs+p:///a sealed.YQ.YQ.YQ { \"kty\" \n -----BEGIN_ \
apiVersion:_v1\n kind:_Secret\n data:\n __a:_ \u{ff}";

proptest! {
    #[test]
    fn whatever_is_read_can_be_added(
        pieces in proptest::collection::vec(
            proptest::sample::select(PARTS.split(' ').collect::<Vec<_>>()),
            0..12,
        ),
    ) {
        let text = pieces.concat().replace('_', " ");
        let imported = import(&[Source::File { name: "FILE", text: text.as_bytes() }], &[]);
        let complete = put_below(b"", &imported.keys).unwrap();
        prop_assert_eq!(complete.document.decryption_keys.all.len(), imported.keys.len());
        for key in &complete.document.decryption_keys.all {
            prop_assert!(matches!(key, DecryptionKey::Reference(_)));
        }
    }
}

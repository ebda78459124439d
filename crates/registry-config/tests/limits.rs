//! The limits on a document, each with a text that just fits and one that does not.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use registry_config::{
    Document, MAX_ALSO, MAX_CERTIFICATES, MAX_CREDENTIAL_BYTES, MAX_DECRYPTION_KEY_BYTES,
    MAX_DECRYPTION_KEYS, MAX_DOCUMENT_BYTES, MAX_KEY_PASSWORD_BYTES, MAX_NO_PROXY_BYTES,
    MAX_PROBLEMS, MAX_REGISTRIES, MAX_VARIABLES,
};

use crate::ROOT;

/// What is wrong with a document, of the owner's if it has keys of the owner's; nothing is "".
fn problems(text: &str) -> String {
    let of_owner = ["[resources]", "[pins]", "[image-policy]"];
    let read = match of_owner.iter().any(|key| text.starts_with(key)) {
        true => Document::parse_measured,
        false => Document::parse,
    };
    read(text.as_bytes()).map_or_else(|problems| problems.to_string(), |_| String::new())
}

#[test]
fn size_is_bounded_before_anything_is_read() {
    let mut text = vec![b'\n'; MAX_DOCUMENT_BYTES];
    assert!(Document::parse(&text).is_ok());
    text.push(0xff);
    let problems = Document::parse(&text).unwrap_err().to_string();
    assert_eq!(problems, "a document has at most 1048576 bytes");
}

#[test]
fn nesting_is_bounded() {
    let half = MAX_DOCUMENT_BYTES / 2;
    let quarter = half / 2;
    for text in [
        format!("a = {}", "[".repeat(half)),
        format!("a = {}{}", "[".repeat(quarter), "]".repeat(quarter)),
        format!("a = {}", "{a=".repeat(quarter)),
        format!("a{} = 1", ".a".repeat(quarter)),
        format!("[a{}]", ".a".repeat(quarter)),
        format!("[[a{}]]", ".a".repeat(quarter)),
        format!("[a{0}]\na{0} = {1}1{2}", ".a".repeat(79), "[".repeat(79), "]".repeat(79)),
    ] {
        assert_ne!(problems(&text), "", "{}", &text[..40]);
    }
    assert_eq!(problems(&format!("[a{}]", ".a".repeat(100))), "not TOML: recursion limit");
}

/// The most, a document with so many, and what is wrong with one more.
type Row<'a> = (usize, &'a dyn Fn(usize) -> String, String);

#[test]
fn numbers_and_lengths_are_bounded() {
    let each = |count: usize, item: fn(usize) -> String| (0..count).map(item).collect::<String>();
    let entry = |keys: &str| format!("[registries.r]\n{keys}\n");
    let at = |key: &str, rule: &str| format!("line 2: {key}: {rule}");
    let mirror = |prefix: &str| format!("{{url = 'https://m'{prefix}}},");
    let below = mirror(", prefix = 'a/b'");
    // Those of a repository are also those of what it is below.
    let mixed = [mirror(""), below.clone(), mirror(", prefix = 'a/bc'"), below].concat();
    let encoded = |length| STANDARD.encode(vec![0; length]);
    let too_many = "an entry has at most 256 mirrors";
    let rows: &[Row<'_>] = &[
        (
            MAX_REGISTRIES,
            &|count| each(count, |at| format!("[registries.r{at}]\n")),
            "line 1: registries: a document has at most 1024 registries".to_owned(),
        ),
        (
            MAX_VARIABLES,
            &|count| "[extra-env]\n".to_owned() + &each(count, |at| format!("V{at} = \"\"\n")),
            "line 1: extra-env: \"extra-env\" has at most 256 variables".to_owned(),
        ),
        (
            MAX_NO_PROXY_BYTES,
            &|length| format!("[extra-env]\nNO_PROXY = \"{}\"", "a".repeat(length)),
            at("extra-env.NO_PROXY", "has at most 16384 bytes"),
        ),
        (
            MAX_CREDENTIAL_BYTES,
            &|length| entry(&format!("registrytoken = \"{}\"", "a".repeat(length))),
            at("registries.r.registrytoken", "has at most 16384 bytes"),
        ),
        (
            MAX_CERTIFICATES,
            &|count| entry(&format!("ca-certs = '''\n{}'''", ROOT.repeat(count))),
            at("registries.r.ca-certs", "an entry has at most 512 certificates"),
        ),
        (
            8,
            &|count| entry(&format!("mirrors = [{}]", mirror("").repeat(count))),
            at("registries.r.mirrors, item 1", too_many) + ", and 8 for one repository",
        ),
        (
            256,
            &|count| {
                let item = |at| format!("{{url = 'https://m', prefix = 'n{at}'}},");
                entry(&format!("mirrors = [{}]", each(count, item)))
            },
            at("registries.r.mirrors", too_many) + ", and 8 for one repository",
        ),
        (
            8,
            &|count| entry(&format!("addresses = [{}]", "'::1',".repeat(count))),
            at("registries.r.addresses", "is a list of 1 to 8 addresses"),
        ),
        (
            MAX_ALSO,
            &|count| {
                let also = "[[registries.r.also]]\nregistrytoken = 'a'\n".repeat(count);
                entry("registrytoken = 'a'") + &also
            },
            "line 3: registries.r.also: an entry has at most 8 further accounts".to_owned(),
        ),
        (
            MAX_DECRYPTION_KEYS,
            &|count| format!("[decryption-keys]\nkeys = [{}]", "'a2V5',".repeat(count)),
            at("decryption-keys.keys", "there are at most 64 decryption keys"),
        ),
        (
            MAX_DECRYPTION_KEY_BYTES,
            &|length| format!("[decryption-keys]\nkeys = ['{}']", encoded(length)),
            at("decryption-keys.keys, item 1", "a decryption key has at most 65536 bytes"),
        ),
        (
            MAX_KEY_PASSWORD_BYTES,
            &|length| format!("[decryption-keys]\nkeys = ['a2V5:{}']", encoded(length)),
            at("decryption-keys.keys, item 1", "the password of a key has at most 4096 bytes"),
        ),
        (
            256,
            &|count| each(count, |at| format!("[decryption-keys.r{at}]\nkeys = ['YQ']\n")),
            "line 1: decryption-keys.r0: there are at most 256 tables".to_owned(),
        ),
        (
            64,
            &|count| format!("[pins]\na = [{}]", "'b',".repeat(count)),
            at("pins.a", "a list has 1 to 64 digests"),
        ),
        (
            4096,
            &|count| "[pins]\n".to_owned() + &each(count, |at| format!("a{at} = 'b'\n")),
            "line 1: pins: there are at most 4096 pins".to_owned(),
        ),
        (
            256,
            &|count| format!("[image-policy]\nallow-tags = [{}]\nfile = 'a'", "'b',".repeat(count)),
            at("image-policy.allow-tags", "there are at most 256 scopes"),
        ),
        (
            4096,
            &|count| format!("[image-policy]\nrefuse = [{}]\nfile = 'a'", "'b',".repeat(count)),
            at("image-policy.refuse", "there are at most 4096 digests"),
        ),
        (
            1024,
            &|length| {
                format!("\nnode-error = \"{}\"", "é".repeat(length / 2) + &"x".repeat(length % 2))
            },
            at("node-error", "has at most 1024 bytes"),
        ),
    ];
    for (most, text, expected) in rows {
        assert_eq!(problems(&text(*most)), "", "{expected}");
        let found = problems(&text(most + 1));
        assert!(found.starts_with(expected), "{expected}\n{found}");
    }
    let list = |count: usize| mixed.split_inclusive("},").cycle().take(count).collect::<String>();
    assert_eq!(problems(&entry(&format!("mirrors = [{}]", list(11)))), "");
    let found = problems(&entry(&format!("mirrors = [{}]", list(12))));
    assert!(found.starts_with(&at("registries.r.mirrors, item 2", too_many)), "{found}");

    let unknown = (0..MAX_PROBLEMS + 2).map(|index| format!("k{index} = 1\n")).collect::<String>();
    let problems = Document::parse(unknown.as_bytes()).unwrap_err();
    assert_eq!((problems.iter().count(), problems.unlisted()), (MAX_PROBLEMS, 2));
    assert!(problems.to_string().ends_with("line 1000: k999: unknown key\nand 2 more"));
}

//! `[decryption-keys]`: a list or a text, with keys or references.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use puller_config::{
    DecryptionKey, Document, MAX_DECRYPTION_KEY_BYTES, MAX_DECRYPTION_KEYS, MAX_KEY_PASSWORD_BYTES,
    SecretReference,
};

use crate::references::{HOST, SEALED, checked, exposed, problems};

#[test]
fn decryption_keys_are_read_from_a_list_or_a_text() {
    let expected = ["key a2V5", "key a2V5 a2V5", "key /w== /w==", "reference a/b/c", SEALED];
    let items = [
        "a2V5",
        "a2V5:a2V5",
        // Padding may be left out.
        "/w:/w",
        "kbs:///a/b/c",
        SEALED,
    ];
    for keys in [
        format!("[\"{}\"]", items.join("\", \"")),
        format!("\"{}\"", items.join(",")),
        format!("\"\"\"\n{}\n\"\"\"", items.join(" ,\n")),
        // An escape makes the parser copy the text.
        format!("\"{}\"", items.join("\\u002c")),
    ] {
        let (document, warnings) = checked(HOST, &format!("[decryption-keys]\nkeys = {keys}"));
        let found: Vec<_> = document.decryption_keys.all.iter().map(described).collect();
        assert_eq!(found, expected, "{keys}");
        assert_eq!(warnings, Vec::<String>::new());
    }
    for text in ["", "[decryption-keys]"] {
        assert!(checked(HOST, text).0.decryption_keys.is_empty());
    }
    // As if nobody had written it, but not unsaid.
    for keys in ["[]", "\"\"", "\" \""] {
        let (document, warnings) = checked(HOST, &format!("[decryption-keys]\nkeys = {keys}"));
        assert!(document.decryption_keys.is_empty());
        let said = "has no key, so that it opens no image; leave it out, or give it one";
        assert_eq!(warnings, [format!("line 2: decryption-keys.keys: {said}")], "{keys}");
    }
}

/// A key with its secrets, for comparison.
fn described(key: &DecryptionKey) -> String {
    match key {
        DecryptionKey::Given { key, password } => {
            let password = password.as_ref().map(|password| STANDARD.encode(password));
            let password = password.map(|password| format!(" {password}"));
            format!("key {}{}", STANDARD.encode(key), password.unwrap_or_default())
        }
        DecryptionKey::Reference(SecretReference::Resource(uri)) => {
            format!("reference {}", uri.path())
        }
        DecryptionKey::Reference(sealed) => exposed(sealed).to_owned(),
    }
}

#[test]
fn decryption_keys_are_checked_by_item() {
    let encoded = |length| STANDARD.encode(vec![0; length]);
    let longest =
        format!("[\"{}:{}\"]", encoded(MAX_DECRYPTION_KEY_BYTES), encoded(MAX_KEY_PASSWORD_BYTES));
    checked(HOST, &format!("[decryption-keys]\nkeys = {longest}"));
    let list = |count| format!("[{}]", "\"a2V5\",".repeat(count));
    checked(HOST, &format!("[decryption-keys]\nkeys = {}", list(MAX_DECRYPTION_KEYS)));
    let not_base64 = ", item 1: neither base64 of a key, with a colon and base64 of its password \
    if it has one, nor \"kbs:///repository/type/tag\", nor a sealed secret; a list has one key in \
    each string";
    let empty = "has no key: it is \"base64(key)\" or \"base64(key):base64(password)\"";
    for (keys, expected) in [
        ("1".to_owned(), ": expected array, found integer".to_owned()),
        ("[[\"a2V5\"]]".to_owned(), ", item 1: expected string, found array".to_owned()),
        ("[\"a2V5\", 2]".to_owned(), ", item 2: expected string, found integer".to_owned()),
        (list(MAX_DECRYPTION_KEYS + 1), ": there are at most 64 decryption keys".to_owned()),
        ("[\"\"]".to_owned(), format!(", item 1: {empty}")),
        ("[\":a2V5\"]".to_owned(), format!(", item 1: {empty}")),
        ("\"a2V5,\"".to_owned(), format!(", item 2: {empty}")),
        ("[\"hunter2!\"]".to_owned(), not_base64.to_owned()),
        ("[\"a2V5:hunter2!\"]".to_owned(), not_base64.to_owned()),
        ("[\"a2V5:a2V5:a2V5\"]".to_owned(), not_base64.to_owned()),
        ("[\"a2V5,a2V5\"]".to_owned(), not_base64.to_owned()),
        ("[\"a2V5\\n\"]".to_owned(), not_base64.to_owned()),
        (
            "[\"a2V5:\"]".to_owned(),
            ", item 1: has no password behind its colon; leave the colon out for a key without \
            one"
            .to_owned(),
        ),
        (
            format!("[\"{}\"]", encoded(MAX_DECRYPTION_KEY_BYTES + 1)),
            ", item 1: a decryption key has at most 65536 bytes".to_owned(),
        ),
        (
            format!("[\"a2V5:{}\"]", encoded(MAX_KEY_PASSWORD_BYTES + 1)),
            ", item 1: the password of a key has at most 4096 bytes".to_owned(),
        ),
        (
            "[\"kbs:///a/b\"]".to_owned(),
            ", item 1: a resource has three segments, as in \"kbs:///repository/type/tag\", and \
            this URI has 2"
                .to_owned(),
        ),
        (
            "[\"file:///etc/key.pem\"]".to_owned(),
            ", item 1: a resource URI begins with \"kbs:///\", or with \"kbs+PLUGIN:///\", in \
            lower case"
                .to_owned(),
        ),
    ] {
        let shown = problems(HOST, &format!("[decryption-keys]\nkeys = {keys}"));
        assert_eq!(shown, format!("line 2: decryption-keys.keys{expected}"), "{keys}");
    }
    for (text, expected) in [
        (
            "[decryption-keys]\nKey = 1",
            "line 2: decryption-keys.Key: unknown key; did you mean \"keys\"?",
        ),
        ("[decryption-keys.keys]", "line 1: decryption-keys.keys: expected array, found table"),
        ("decryption-keys = []", "line 1: decryption-keys: expected table, found array"),
        (
            "[decryption_keys]",
            "line 1: decryption_keys: unknown key; did you mean \"decryption-keys\"?",
        ),
    ] {
        assert_eq!(problems(HOST, text), expected);
    }
}

#[test]
fn keys_for_some_images_stand_in_tables_of_their_own() {
    let table = |name: &str, keys: &str| format!("[decryption-keys.\"{name}\"]\n{keys}\n");
    let key = "keys = [\"YQ\"]";
    let text = format!(
        "[decryption-keys]\n{key}\n{}{}",
        table("R.corp./team", key),
        table("r.corp", "keys = [\"YQ\", \"kbs:///a/b/c\"]")
    );
    let keys = checked(HOST, &text).0.decryption_keys;
    let host = puller_config::RegistryHost::parse("r.corp").unwrap();
    let count = |repository: &str| {
        let lists = keys.lists(&host, repository);
        lists.map(|(_, keys)| keys.len()).collect::<Vec<_>>()
    };
    assert_eq!(count("team/app"), [1, 2, 1]);
    assert_eq!(count("teams"), [2, 1]);
    for (text, expected) in [
        (table(".corp", key), "line 1: decryption-keys.\".corp\": names no single host"),
        (table("r/a/", key), "line 1: decryption-keys.\"r/a/\": behind the host follow"),
        (
            table("r/a", key) + &table("R/a", key),
            "line 3: decryption-keys.\"R/a\": names the same hosts as decryption-keys.\"r/a\"",
        ),
        (table("r", "key = \"YQ\""), "line 2: decryption-keys.r.key: unknown key"),
        (table("r", "keys = [\"\"]"), "line 2: decryption-keys.r.keys, item 1: has no key"),
        (
            (0..257).map(|at| table(&format!("r{at}"), key)).collect(),
            "line 1: decryption-keys.r0: there are at most 256 tables",
        ),
        ("[decryption-keys]\nkey = 1\n".to_owned(), "line 2: decryption-keys.key: unknown key"),
    ] {
        let problems = Document::parse(text.as_bytes()).unwrap_err().to_string();
        assert!(problems.starts_with(expected), "{expected}\n{problems}");
    }
}

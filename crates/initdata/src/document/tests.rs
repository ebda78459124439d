//! Tests of the document parser.

use proptest::prelude::*;

use super::*;

const HEAD: &str = "version = \"0.1.0\"\nalgorithm = \"sha256\"\n";

fn data(lines: &str) -> Result<Document, Refusal> {
    Document::parse(format!("{HEAD}[data]\n{lines}").as_bytes())
}

#[test]
fn a_real_document() {
    let document = data(
        "\"aa.toml\" = '''\n[token_configs]\n'''\n\"policy.rego\" = \"package \
        agent_policy\\n\"\nplain = \"\"",
    )
    .unwrap();
    assert_eq!(document.algorithm, Algorithm::Sha256);
    assert_eq!(document.unknown_keys, [""; 0]);
    let entries: Vec<_> =
        document.data.iter().map(|(name, content)| (name.as_str(), content.as_str())).collect();
    assert_eq!(
        entries,
        [
            ("aa.toml", "[token_configs]\n"),
            ("plain", ""),
            ("policy.rego", "package agent_policy\n"),
        ]
    );
}

#[test]
fn unknown_top_level_keys_are_tolerated_and_named() {
    let document =
        Document::parse(format!("{HEAD}\"na\\u0007me\" = 1\n[more]\n[data]\n").as_bytes()).unwrap();
    assert_eq!(document.unknown_keys, ["\"na\\u{7}me\"", "more"]);
    assert!(document.data.is_empty());
}

/// Bytes that are no initdata, and the whole list of what is wrong with each; the first is the
/// guest's reason.
#[test]
fn what_is_not_initdata() {
    let cases: &[(&[u8], &[&str])] = &[
        (
            b"",
            &[
                "version: the key is missing",
                "algorithm: the key is missing",
                "data: the key is missing",
            ],
        ),
        // Kata's own sample.
        (b"some content", &["line 1: not TOML: "]),
        (b"version = \"\xff\"", &["line 1: not TOML: it is not UTF-8"]),
        (b"\0\0\0\0", &["line 1: not TOML: "]),
        (b"algorithm = \"sha256\"\n[data]", &["version: the key is missing"]),
        (b"version = \"0.1.0\"\n[data]", &["algorithm: the key is missing"]),
        (HEAD.as_bytes(), &["data: the key is missing"]),
        (
            b"version = \"0.2.0\"\nalgorithm = \"sha256\"\n[data]",
            &["line 1: version: expected \"0.1.0\", found \"0.2.0\""],
        ),
        (
            b"version = 0.1\nalgorithm = \"sha256\"\n[data]",
            &["line 1: version: expected string, found float"],
        ),
        (
            b"\nversion = \"0.1.0 \"\nalgorithm = \"sha256\"\n[data]",
            &["line 2: version: expected \"0.1.0\", found \"0.1.0 \""],
        ),
        (
            b"version = \"0.1.0\"\nalgorithm = \"sha1\"\n[data]",
            &["line 2: algorithm: expected sha256, sha384 or sha512, found \"sha1\""],
        ),
        (
            b"version = \"0.1.0\"\nalgorithm = \"SHA256\"\n[data]",
            &["line 2: algorithm: expected sha256, sha384 or sha512, found \"SHA256\""],
        ),
        (
            b"version = \"0.1.0\"\nalgorithm = [\"sha256\"]\n[data]",
            &["line 2: algorithm: expected string, found array"],
        ),
        (
            b"version = \"0.1.0\"\nalgorithm = \"sha256\"\ndata = \"x\"",
            &["line 3: data: expected table, found string"],
        ),
        (
            b"version = \"0.1.0\"\nalgorithm = \"sha256\"\n[[data]]",
            &["line 3: data: expected table, found array"],
        ),
        (b"version = \"0.1.0\"\nversion = \"0.1.0\"", &["line 2: not TOML: duplicate key"]),
        (
            b"algorithm = \"md5\"\nversion = \"9.9\"\n[data]\n\"../../etc/x\" = \"\"\nok = \"\"\n\
            \"..\" = 7\n",
            &[
                "line 2: version: expected \"0.1.0\", found \"9.9\"",
                "line 1: algorithm: expected sha256, sha384 or sha512, found \"md5\"",
                "line 4: data.\"../../etc/x\": not a plain file name: it has a slash",
                "line 6: data.\"..\": not a plain file name: it is a directory",
                "line 6: data.\"..\": expected string, found integer",
            ],
        ),
    ];
    for (bytes, expected) in cases {
        let name = String::from_utf8_lossy(bytes);
        let refusal = Document::parse(bytes).unwrap_err();
        let found: Vec<_> = Reading::of(bytes).faults.iter().map(Refusal::to_string).collect();
        assert_eq!(found.len(), expected.len(), "{name}: {found:?}");
        for (found, expected) in found.iter().zip(*expected) {
            assert!(found.starts_with(expected), "{name}: {found}");
            assert!(!found.contains('\n'), "{name}: {found}");
        }
        assert_eq!(refusal.to_string(), found[0]);
    }
}

#[test]
fn what_was_read_of_a_bad_document() {
    let reading = Reading::of(
        b"version = \"9.9\"\nalgorithm = \"md5\"\n[data]\n\"../x\" = \"12345\"\nok = \"\"\nn = 1\n",
    );
    assert!(reading.document.is_none());
    assert_eq!(reading.version.as_deref(), Some("9.9"));
    assert_eq!(reading.algorithm.as_deref(), Some("md5"));
    let lengths = [("../x".to_owned(), 5), ("ok".to_owned(), 0)];
    assert_eq!(reading.lengths, lengths.into());
}

#[test]
fn entries_that_cannot_be_files() {
    let long = format!("\"{}\" = \"x\"", "n".repeat(MAX_NAME_BYTES + 1));
    let letters = format!("\"{}\" = \"x\"", "\u{e9}".repeat(MAX_NAME_BYTES / 2 + 1));
    let many = (0..=MAX_ENTRIES).fold(String::new(), |text, n| text + &format!("n{n} = \"\"\n"));
    for (lines, expected) in [
        ("\"\" = \"x\"", "it is empty"),
        ("\".\" = \"x\"", "it is a directory"),
        ("\"..\" = \"x\"", "it is a directory"),
        ("\"/\" = \"x\"", "it has a slash"),
        ("\"a/b\" = \"x\"", "it has a slash"),
        ("\"/etc/passwd\" = \"x\"", "it has a slash"),
        ("\"../policy.rego\" = \"x\"", "it has a slash"),
        ("\"a\\u0000b\" = \"x\"", "it has a control character"),
        ("\"\\u001b[2J\" = \"x\"", "it has a control character"),
        ("\"a\\nb\" = \"x\"", "it has a control character"),
        ("\"a\\u0085b\" = \"x\"", "it has a control character"),
        (long.as_str(), "more than 255 bytes"),
        (letters.as_str(), "more than 255 bytes"),
        ("a = \"1\"\n\"\\u0061\" = \"2\"", "duplicate key"),
        ("\"caf\\u00e9\" = \"1\"\n\"cafe\\u0301\" = \"2\"", "two Unicode spellings"),
        (many.as_str(), "data: 1025 entries, at most 1024 "),
        ("n = 1", "line 4: data.n: expected string, found integer"),
        ("n = [\"x\"]", "found array"),
        ("n = true", "found boolean"),
        ("n = {x = \"y\"}", "found table"),
        ("policy.rego = \"x\"", "a name with a dot needs quotes"),
        ("n = \"1\"\nn = \"2\"", "line 5: "),
        ("n = \"1\"\n\"n\" = \"2\"", "line 5: "),
    ] {
        let error = data(lines).unwrap_err().to_string();
        assert!(error.contains(expected), "{lines:.80}: {error}");
        let is_safe = foreign_text::one_line(&error).to_string() == error;
        assert!(is_safe && error.len() < 200, "{error}");
    }
    let longest = format!("\"{}\" = \"x\"", "n".repeat(MAX_NAME_BYTES));
    assert_eq!(data(&longest).unwrap().data.len(), 1);
    // Hidden files, blanks and other alphabets are names like any other.
    for name in ["...", ".hidden", " ", "\u{e9}", "-rf", "a\\\\b"] {
        data(&format!("\"{name}\" = \"x\"")).unwrap_or_else(|error| panic!("{name}: {error}"));
    }
}

#[test]
fn no_entries_and_too_many_bad_ones() {
    assert!(data("").is_ok());
    let bad = |count| (0..count).fold(String::new(), |text, n| text + &format!("\"/{n}\" = 1\n"));
    for (count, faults) in [(MAX_ENTRIES, 2 * MAX_ENTRIES), (MAX_ENTRIES + 1, 1)] {
        let document = format!("{HEAD}[data]\n{}", bad(count));
        assert_eq!(Reading::of(document.as_bytes()).faults.len(), faults);
    }
}

#[test]
fn parser_messages_quote_no_content() {
    for text in [
        "SECRET",
        "SECRET = ",
        "a = SECRET",
        "a = \"SECRET",
        "a = \"x\" SECRET",
        "[SECRET",
        "SECRET = 1\nSECRET = 2",
        "[SECRET]\n[SECRET]",
        "SECRET = 1\nSECRET.x = 2",
        "a = 0xSECRET",
        "a = \"\\SECRET\"",
        "a = 1979-SECRET",
    ] {
        let error = Document::parse(text.as_bytes()).unwrap_err().to_string();
        assert!(!error.contains("SECRET"), "{text}: {error}");
    }
}

#[test]
fn deep_and_wide_documents_end_in_bounded_time() {
    // A debug build takes these in moments; quadratic or recursive parsing would not end or would
    // overflow the stack.
    let size = config_image::MAX_DOCUMENT_BYTES / 8;
    for (name, text) in [
        ("deep arrays", "a = ".to_owned() + &"[".repeat(size)),
        ("deep tables", "a = ".to_owned() + &"{a=".repeat(size / 3)),
        ("dotted key", "a.".repeat(size / 2) + "a = 1"),
        ("dotted header", "[".to_owned() + &"a.".repeat(size / 2) + "a]"),
        ("long key", "a".repeat(size)),
        ("open string", "a = \"".to_owned() + &"x".repeat(size)),
        ("blank lines", "\n".repeat(size)),
        ("comments", "#\n".repeat(size / 2)),
        ("errors on each line", "=\n".repeat(size / 2)),
        ("quotes", "\"".repeat(size)),
        ("closing brackets", "]".repeat(size)),
    ] {
        assert!(Document::parse(text.as_bytes()).is_err(), "{name}");
    }
}

/// A valid document of half a megabyte once took 1.5 GB to parse: the number of entries was looked
/// at only afterwards.
#[test]
fn the_number_of_tokens_is_bounded_before_parsing() {
    for (name, lines) in [
        ("dotted keys", "k.a.a.a.a.a.a = 1\n".repeat(200_000)),
        ("an array", format!("a = [{}]", "1,".repeat(1 << 20))),
        ("line breaks", "\n".repeat(1 << 20)),
        ("comments", "#\n".repeat(1 << 20)),
    ] {
        let refusal = data(&lines).unwrap_err();
        let rule = "expected at most 32768 names, values, brackets and lines";
        assert_eq!((refusal.rule.as_str(), refusal.key.as_str()), (rule, ""), "{name}");
        assert!(refusal.line > Some(3), "{name}: {refusal}");
    }
    // What a real policy is made of is one token.
    let policy = format!("\"policy.rego\" = '''\n{}'''", "a.b[c] = {1, 2}\n".repeat(100_000));
    assert_eq!(data(&policy).unwrap().data.len(), 1);
}

fn quoted_key() -> impl Strategy<Value = String> {
    prop_oneof!["[a-z./\\\\\u{0}\u{7f}\u{202e} -]{0,6}", Just("..".to_owned()), any::<String>(),]
}

proptest! {
    /// Whatever is accepted is one path component, with the content that was written.
    #[test]
    fn accepted_names_stay_in_their_directory(key in quoted_key(), content in any::<String>()) {
        // JSON's escapes are TOML's, except for DEL, which TOML wants escaped.
        let quote = |text: &str| serde_json::to_string(text).unwrap().replace('\u{7f}', "\\u007f");
        let line = format!("{} = {}", quote(&key), quote(&content));
        if let Ok(document) = data(&line) {
            let (name, found) = document.data.first_key_value().unwrap();
            prop_assert_eq!(name.as_str(), &key);
            prop_assert_eq!(found, &content);
            let joined = std::path::Path::new("/run/measured-cfg").join(name.as_str());
            prop_assert_eq!(joined.parent().unwrap(), std::path::Path::new("/run/measured-cfg"));
            prop_assert_eq!(joined.file_name().unwrap().to_str().unwrap(), &key);
        }
    }
}

#![allow(clippy::unwrap_used, reason = "test code")]

use proptest::prelude::*;

use super::*;

const ROOT: &str = include_str!("../../../registry-config/tests/data/root.pem");

fn parse(text: &str) -> Document {
    Document::parse(text.as_bytes()).unwrap_or_else(|error| panic!("{error}\n{text}")).document
}

fn combined(base: &str, imported: &str) -> (String, Vec<String>) {
    let (document, findings) = completed(&parse(base), &parse(imported), &|_| "file".to_owned());
    let text = document.to_toml().unwrap().to_string();
    (text, findings.iter().map(ToString::to_string).collect())
}

/// An entry of one line for each key: `name: key key`.
fn document(entries: &[&str]) -> String {
    let entry = |line: &&str| {
        let (name, keys) = line.split_once(": ").unwrap_or((line, ""));
        let key = |key: &str| match key.split_once('=') {
            Some(("user", user)) => format!("username = \"{user}\"\npassword = \"hunter2\"\n"),
            Some(("blocked", below)) => {
                format!("mirrors = [{{ prefix = \"{below}\", fallback = false }}]\n")
            }
            Some((key, "true")) => format!("{key} = true\n"),
            Some((key, value)) => format!("{key} = \"{}\"\n", value.replace('*', " ")),
            None => format!("ca-certs = \"\"\"\n{ROOT}\"\"\"\n"),
        };
        let keys: String = keys.split_whitespace().map(key).collect();
        format!("[registries.\"{name}\"]\n{keys}")
    };
    entries.iter().map(entry).collect()
}

/// A pull secret, then `certs.d`: the certificates were left out, and pulls failed.
#[test]
fn an_entry_is_completed_by_groups() {
    let keeper = "m.lab";
    for (base, imported, expected, told) in [
        (&["a.corp.: user=u"][..], &["a.corp: ca"][..], &["a.corp.: user=u ca"][..], ""),
        (
            &["a.corp.: user=u"],
            &["a.corp: mirror=https://m.lab mirror-fallback=true", keeper],
            &["a.corp.: user=u mirror=https://m.lab mirror-fallback=true", keeper],
            "",
        ),
        (
            &["a.corp: mirror=https://m.lab", keeper],
            &["a.corp: user=u", "m.lab: user=m"],
            &["a.corp: user=u mirror=https://m.lab", "m.lab: user=m"],
            "",
        ),
        (&["a.corp: ca"], &["a.corp: ca", "b.corp: ca"], &["a.corp: ca", "b.corp: ca"], ""),
        (&["a.corp:443: user=u"], &["a.corp: ca"], &["a.corp:443: user=u ca"], ""),
        (&[".: user=u"], &[".: ca"], &[".: user=u ca"], ""),
        (
            &["a.corp: ca"],
            &["a.corp: insecure-skip-verify=true"],
            &["a.corp: ca"],
            "its certificates and transport are left out: the document's own entry \"a.corp\" has \
            others",
        ),
        (&["a.corp: user=u"], &["a.corp: user=v"], &["a.corp: user=u"], "its credentials are"),
        (
            &["a.corp: mirror=https://m.lab", keeper],
            &["a.corp: mirror=https://n.lab", "n.lab: ca"],
            &["a.corp: mirror=https://m.lab", keeper, "n.lab: ca"],
            "its mirrors are left out: the document's own entry \"a.corp\" has others",
        ),
        // What would hide what is there.
        (&[".corp"], &["a.corp: ca"], &[".corp"], "left out: the document's own entry \".corp\""),
        (&["a.corp"], &["a.corp:5000: ca"], &["a.corp"], "\"a.corp\" holds for it"),
        (
            &["a.corp: mirror=https://b.corp ca"],
            &["b.corp: user=u"],
            &["a.corp: mirror=https://b.corp ca"],
            "\"a.corp\" holds for it",
        ),
        (
            &["a.corp: mirror=https://b.corp"],
            &["a.corp: user=u"],
            &["a.corp: mirror=https://b.corp"],
            "its credentials are left out: the document's own entry \"a.corp\" would \
            lend what it has to a mirror",
        ),
        // A mirror whose own entry is not taken.
        (
            &[".lab", "a.corp: user=u"],
            &["a.corp: mirror=https://m.lab", keeper],
            &[".lab", "a.corp: user=u"],
            "its mirrors are left out: the document's own entry \"a.corp\" would lend",
        ),
        (
            &[".lab"],
            &["a.corp: user=u mirror=https://m.lab", keeper],
            &[".lab", "a.corp: ca-certs=forbidden*by*the*imported*file"],
            "is forbidden: its mirrors are left out: the document's own entry \"a.corp\" would lend",
        ),
        (
            &[".lab"],
            &["a.corp: mirror=https://m.lab", keeper],
            &[".lab", "a.corp: mirror=https://m.lab"],
            "",
        ),
        // The mirror's own entry is not taken, and this one allows no plain HTTP; it once ended all.
        (
            &["m.lab: user=m"],
            &["a.corp: mirror=http://m.lab:5000", "m.lab:5000: plain-http=true", "b.corp: ca"],
            &["m.lab: user=m", "a.corp: ca-certs=forbidden*by*the*imported*file", "b.corp: ca"],
            "is forbidden: its mirrors are left out: the document's own entry \"a.corp\" has a mirror",
        ),
        // What one forbids, the other does not open.
        (
            &[".", "m.lab: user=m"],
            &["a.corp: ca-certs=none"],
            &[".", "m.lab: user=m", "a.corp: ca-certs=forbidden*by*the*imported*file"],
            "a.corp: is forbidden: the document's own entry \".\" holds for it",
        ),
        (
            &[".corp: mirror=https://m.lab"],
            &["a.corp: blocked=secret"],
            &[".corp: mirror=https://m.lab", "a.corp: ca-certs=forbidden*by*the*imported*file"],
            "a.corp: is forbidden: the document's own entry \".corp\" holds for it",
        ),
        (
            &["a.corp: ca-certs=none"],
            &["a.corp: mirror=https://m.lab", keeper],
            &["a.corp: ca-certs=none", keeper],
            "would have mirrors of a registry that is forbidden",
        ),
        (
            &["a.corp: mirror=https://m.lab", keeper],
            &["a.corp: ca-certs=none"],
            &["a.corp: mirror=https://m.lab", keeper],
            "would have mirrors of a registry that is forbidden",
        ),
        (&["a.corp: user=u"], &["a.corp: ca-certs=none"], &["a.corp: user=u ca-certs=none"], ""),
    ] {
        let (text, findings) = combined(&document(base), &document(imported));
        assert_eq!(text, *parse(&document(expected)).to_toml().unwrap(), "{base:?} {imported:?}");
        let findings = findings.join("\n");
        assert!(findings.contains(told) && findings.is_empty() == told.is_empty(), "{findings}");
        assert!(!findings.contains("hunter2"), "{findings}");
    }
}

#[test]
fn a_section_is_taken_where_there_is_none() {
    let proxy = |host: &str| format!("[extra-env]\nHTTPS_PROXY = \"http://{host}:1\"\n");
    let keys = "[decryption-keys]\nkeys = [\n  \"kbs:///a/b/c\",\n]\n";
    for (base, imported, expected, told) in [
        ("", &proxy("p"), &proxy("p"), 0),
        (&proxy("p"), &proxy("p"), &proxy("p"), 0),
        (&proxy("p"), &proxy("q"), &proxy("p"), 1),
        (keys, &proxy("q"), &format!("{}\n{keys}", proxy("q")), 0),
        ("", &keys.to_owned(), &keys.to_owned(), 0),
    ] {
        let (text, findings) = combined(base, imported);
        assert_eq!((&text, findings.len()), (expected, told), "{base}+{imported}");
    }
}

#[test]
fn no_key_of_an_entry_is_forgotten() {
    for text in [
        include_str!("../../../registry-config/fuzz/seeds/document/every-key.toml"),
        include_str!("../../../registry-config/fuzz/seeds/document/routes.toml"),
    ] {
        for (name, entry) in parse(text).registries.iter() {
            let mut copied = Registry::default();
            for Group { copy, .. } in [CREDENTIALS, TRUST, ADDRESSES, MIRRORS] {
                copy(&mut copied, entry);
            }
            let [copied, entry] = [&copied, entry].map(|entry| {
                let mut alone = Document::default();
                alone.registries.set(name.clone(), entry.clone());
                alone.to_toml().unwrap()
            });
            assert_eq!(*copied, *entry);
        }
    }
}

proptest! {
    /// Parts of one document, imported one after the other.
    #[test]
    fn the_order_of_files_does_not_matter(
        parts in prop::collection::vec((0..3_usize, 0..3_usize, any::<bool>()), 0..12),
    ) {
        const NAMES: [&str; 3] = ["a.corp", "b.corp:5000", "docker.io"];
        const KEYS: [&str; 3] = ["user=u", "ca", "mirror=https://m.lab:1 mirror-fallback=true"];
        let side = |side: bool| {
            let keys_of = |name: usize| -> Vec<&str> {
                let here = parts.iter().filter(|part| (part.0, part.2) == (name, side));
                let keys: std::collections::BTreeSet<usize> = here.map(|part| part.1).collect();
                keys.into_iter().map(|key| KEYS[key]).collect()
            };
            let entries = (0..NAMES.len()).filter_map(|name| {
                let keys = keys_of(name);
                (!keys.is_empty()).then(|| format!("{}: {}", NAMES[name], keys.join(" ")))
            });
            let mut entries: Vec<String> = entries.collect();
            if entries.iter().any(|entry| entry.contains("mirror")) {
                entries.push("m.lab:1".to_owned());
            }
            document(&entries.iter().map(String::as_str).collect::<Vec<_>>())
        };
        let (one, other) = (side(false), side(true));
        let (first, told) = combined(&one, &other);
        prop_assert_eq!(told, Vec::<String>::new());
        prop_assert_eq!(&first, &combined(&other, &one).0);
        prop_assert_eq!(&combined(&first, &one).0, &first);
        parse(&first);
    }
}

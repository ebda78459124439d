//! Which key came with which version: what a guest of an older one refuses, told beforehand.
//!
//! A guest refuses a document with a key that it does not know ([`Rule::UnknownKey`]
//! (crate::Rule::UnknownKey)). The table below has a row for every key of both documents; `*` in
//! the name of a table stands for any key, and `[]` for the items of a list.

use std::fmt;

use toml::de::{DeTable, DeValue};

use crate::document::first_element_over_limit;
use crate::limits::{MAX_DOCUMENT_BYTES, MAX_PROBLEMS};
use crate::section::{Lines, Tree, join};

/// The shortest beginning of a commit that names it.
const MIN_COMMIT_DIGITS: usize = 7;

/// A version whose keys are known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct GuestVersion(usize);

/// Their names, the oldest first. `0.1.0` is the first release; before it there is one commit of
/// the sources, that of `hack/packaging/former`. Each later release that brings a key has a name
/// here.
const NAMES: [&str; 2] = ["8cb484676c1f9e503bffed0fc64ab89e1ace836a", "0.1.0"];

const FORMER: GuestVersion = GuestVersion(0);
const FIRST: GuestVersion = GuestVersion(1);

/// A table of a document, the version that its keys came with, and the keys.
type Row = (&'static str, GuestVersion, &'static [&'static str]);

/// The keys of both documents, by their tables.
const KEYS: &[Row] = &[
    (
        "",
        FORMER,
        &[
            "clock-not-before",
            "extra-env",
            "registries",
            "decryption-keys",
            "resources",
            "event-log",
            "limits",
            "node-error",
        ],
    ),
    ("", FIRST, &["pins", "only-pins", "image-policy"]),
    (
        "registries.*",
        FORMER,
        &[
            "username",
            "password",
            "auth",
            "identitytoken",
            "registrytoken",
            "credentials-uri",
            "credentials-optional",
            "anonymous",
            "also",
            "ca-certs",
            "ca-certs-uri",
            "web-roots",
            "ca-dates",
            "insecure-skip-verify",
            "plain-http",
            "client-cert",
            "client-key",
            "mirror",
            "mirrors",
            "rewrite",
            "mirror-fallback",
        ],
    ),
    (
        "registries.*.also[]",
        FORMER,
        &["username", "password", "auth", "identitytoken", "registrytoken"],
    ),
    ("registries.*.mirrors[]", FORMER, &["url", "prefix", "rewrite"]),
    ("registries.*.mirrors[].rewrite[]", FORMER, &["from", "to"]),
    ("registries.*.rewrite[]", FORMER, &["from", "to"]),
    ("decryption-keys", FORMER, &["keys"]),
    ("decryption-keys.*", FORMER, &["keys"]),
    (
        "resources",
        FORMER,
        &[
            "sources",
            "kbs-ca-certs",
            "kbs-token-file",
            "kbs-attester",
            "unwrap",
            "unwrap-always",
            "from",
        ],
    ),
    ("resources", FIRST, &["source"]),
    ("limits", FORMER, &["attempts", "layers-at-once", "stall-timeout"]),
    ("image-policy", FIRST, &["text", "file", "uri", "allow-tags", "signed-not-before", "refuse"]),
];

/// A key that a guest refuses.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NewerKey {
    /// The line, from 1.
    pub line: usize,
    /// The dotted key.
    pub key: String,
    /// The version that it came with.
    pub since: GuestVersion,
}

impl GuestVersion {
    /// The version of this name: that of a release, or the beginning of a commit.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        let is_it = |known: &&str| {
            **known == *name || (name.len() >= MIN_COMMIT_DIGITS && known.starts_with(name))
        };
        NAMES.iter().position(is_it).map(Self)
    }

    /// All of them, the oldest first.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..NAMES.len()).map(Self)
    }

    /// The keys of `text`, in its order, that a guest of this version refuses; at most
    /// [`MAX_PROBLEMS`]. A text that is no document has none.
    #[must_use]
    pub fn refuses(self, text: &[u8]) -> Vec<NewerKey> {
        let is_bounded = |text: &&str| {
            text.len() <= MAX_DOCUMENT_BYTES && first_element_over_limit(text).is_none()
        };
        let utf8 = str::from_utf8(text).ok().filter(is_bounded);
        let Some(root) = utf8.and_then(|text| DeTable::parse(text).ok()) else {
            return Vec::new();
        };
        // Zeroes the strings that the parser copied.
        let tree = Tree { root: root.into_inner() };
        let mut found = Vec::new();
        self.look(&tree.root, "", "", &Lines::of(text), &mut found);
        found.sort_by_key(|key| key.line);
        found.truncate(MAX_PROBLEMS);
        found
    }

    fn look(
        self,
        table: &DeTable<'_>,
        name: &str,
        place: &str,
        lines: &Lines,
        found: &mut Vec<NewerKey>,
    ) {
        for (key, value) in table {
            let (text, line) = (key.get_ref().as_ref(), lines.at(key.span().start));
            let place = join(place, text);
            match since(name, text) {
                // All that is in it goes with it.
                Some(since) if since > self => {
                    let key = place;
                    found.push(NewerKey { line, key, since });
                    continue;
                }
                _ => {}
            }
            let inner = inner(name, text);
            match value.get_ref() {
                DeValue::Table(table) => self.look(table, &inner, &place, lines, found),
                DeValue::Array(items) => {
                    for (index, item) in items.iter().enumerate() {
                        if let DeValue::Table(table) = item.get_ref() {
                            let place = format!("{place}, item {}", index + 1);
                            self.look(table, &format!("{inner}[]"), &place, lines, found);
                        }
                    }
                }
                _ => {}
            }
        }
    }
}

impl fmt::Display for GuestVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = NAMES[self.0];
        let is_release = name.contains('.');
        f.write_str(if is_release { name } else { &name[..MIN_COMMIT_DIGITS] })
    }
}

/// The version that brought a key of a table.
fn since(table: &str, key: &str) -> Option<GuestVersion> {
    let mut rows = KEYS.iter().filter(|(name, ..)| *name == table);
    rows.find_map(|(_, since, keys)| keys.contains(&key).then_some(*since))
}

/// The table below `key` of the table `name`: its own, or that of any key.
fn inner(name: &str, key: &str) -> String {
    let below = |key: &str| match name {
        "" => key.to_owned(),
        name => format!("{name}.{key}"),
    };
    let any = below("*");
    let is_any = KEYS.iter().any(|(name, ..)| *name == any);
    match is_any && since(name, key).is_none() {
        true => any,
        false => below(key),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Document, Rule, resources};
    use crate::{access, decryption_keys, document, entry, image_policy, mirror_keys, pull_limits};

    /// The rows of a table together.
    fn keys_of(table: &str) -> Vec<&'static str> {
        let rows = KEYS.iter().filter(|(name, ..)| *name == table);
        let mut keys: Vec<_> = rows.flat_map(|(_, _, keys)| *keys).copied().collect();
        keys.sort_unstable();
        keys
    }

    #[test]
    fn every_key_of_the_grammar_has_a_row() {
        let tables: [(&str, &[&str]); 11] = [
            ("", &document::KEYS),
            ("registries.*", &entry::KEYS),
            ("registries.*.also[]", &access::ACCOUNT_KEYS),
            ("registries.*.mirrors[]", &mirror_keys::MIRROR_KEYS),
            ("registries.*.mirrors[].rewrite[]", &mirror_keys::REWRITE_KEYS),
            ("registries.*.rewrite[]", &mirror_keys::REWRITE_KEYS),
            ("decryption-keys", &[decryption_keys::KEYS]),
            ("decryption-keys.*", &[decryption_keys::KEYS]),
            ("resources", &resources::KEYS),
            ("limits", &pull_limits::KEYS),
            ("image-policy", &image_policy::KEYS),
        ];
        for (table, keys) in tables {
            let mut keys = keys.to_vec();
            keys.sort_unstable();
            assert_eq!(keys_of(table), keys, "[{table}]");
        }
        let known = tables.map(|(table, _)| table);
        for (table, ..) in KEYS {
            assert!(known.contains(table), "[{table}] is no table of the grammar");
        }
        assert_eq!(FIRST.to_string(), env!("CARGO_PKG_VERSION"), "a release has a name");
    }

    /// A row is no key for ever by itself: the grammar has it.
    #[test]
    fn every_row_is_a_key_of_the_grammar() {
        for (table, _, keys) in KEYS {
            for key in *keys {
                let header = match *table {
                    "" => String::new(),
                    table => {
                        let table = table.replace('*', "\"a.corp\"");
                        match table.strip_suffix("[]") {
                            Some(list) => format!("[[{}]]\n", list.replace("[]", "")),
                            None => format!("[{table}]\n"),
                        }
                    }
                };
                let text = format!("{header}{key} = 1\n");
                let problems = Document::parse_measured(text.as_bytes()).err();
                let problems = problems.iter().flat_map(|problems| problems.iter());
                let mut of_key = problems.filter(|problem| problem.key.ends_with(key));
                let is_unknown = |rule: &Rule| matches!(rule, Rule::UnknownKey { .. });
                assert!(!of_key.any(|problem| is_unknown(&problem.rule)), "{text}");
            }
        }
    }

    #[test]
    fn a_guest_refuses_what_came_later() {
        let text = "only-pins = true\n[registries.\"pins\"]\nusername = \"a\"\n\n\
            [image-policy]\ntext = \"x\"\n[pins]\n\"a.corp/b\" = \"sha256:c\"\n\
            [extra-env]\npins = \"x\"\n";
        let found = FORMER.refuses(text.as_bytes());
        let found: Vec<_> =
            found.iter().map(|key| (key.line, key.key.as_str(), key.since)).collect();
        let expected = [(1, "only-pins", FIRST), (5, "image-policy", FIRST), (7, "pins", FIRST)];
        assert_eq!(found, expected);
        assert_eq!(FIRST.refuses(text.as_bytes()), []);
        assert_eq!(FORMER.refuses(b"pins = ["), []);
        assert_eq!(FORMER.refuses(b"\xff"), []);
    }

    #[test]
    fn versions_have_names() {
        assert_eq!(GuestVersion::parse("0.1.0"), Some(FIRST));
        assert_eq!(GuestVersion::parse("8cb4846"), Some(FORMER));
        assert_eq!(GuestVersion::parse(NAMES[0]), Some(FORMER));
        for name in ["", "0.1", "0.1.0 ", "8cb484", "8cb4847", "1"] {
            assert_eq!(GuestVersion::parse(name), None, "{name}");
        }
        let shown: Vec<String> = GuestVersion::all().map(|it| it.to_string()).collect();
        assert_eq!(shown, ["8cb4846", "0.1.0"]);
    }
}

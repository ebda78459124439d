//! What the guest's event log keeps of a document: a hash on which no secret has any influence. Its
//! form is part of the format, "The record of the document" in `docs/document.md`.

use sha2::{Digest as _, Sha256};

use crate::Document;
use crate::slots::{self, Purpose};

impl Document {
    /// The document as a verifier recomputes it: JSON without white space, the keys of each object
    /// sorted, what is not set left out, names in their normal form, certificates as fingerprints.
    /// Each secret is the same text whatever its value; user names are not there at all, because
    /// that of an empty password is a secret, and `auth` hides one.
    #[expect(
        clippy::expect_used,
        reason = "strings, booleans, arrays and string-keyed objects are always JSON"
    )]
    pub fn recorded_form(&self) -> String {
        let shown = slots::of(self, Purpose::Record);
        // A JSON value sorts its keys; the text of the structure itself does not.
        let value = serde_json::to_value(shown);
        value.expect("a redacted document consists of what JSON can say").to_string()
    }

    /// `sha256:` and the digest of [`Document::recorded_form`].
    pub fn record(&self) -> String {
        fingerprint(self.recorded_form().as_bytes())
    }
}

/// `sha256:` and the digest of some bytes.
pub(crate) fn fingerprint(bytes: &[u8]) -> String {
    format!("sha256:{}", foreign_text::hex::encode(&Sha256::digest(bytes)))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::extra_env;
    use crate::section::tests::{of_document, of_entry};

    /// What a key of the host's document does to the record.
    #[derive(Clone, Copy, Debug, PartialEq)]
    enum Does {
        /// Another value makes another record.
        Show,
        /// No value has an influence.
        Hide,
        /// The host may not have the key.
        Fail,
    }
    use Does::{Fail, Hide, Show};

    const CERTIFICATE: &str =
        "ca-certs='''-----BEGIN CERTIFICATE-----\nMAcwADAAAwEA\n-----END CERTIFICATE-----'''";

    /// A key, two values of it, and what stands beside it in its table.
    type Row = (&'static str, [&'static str; 2], &'static str, Does);

    const URIS: [&str; 2] = ["'kbs:///a/b/c'", "'kbs:///a/b/d'"];
    const TRUTH: [&str; 2] = ["false", "true"];
    /// The secret ones differ in length too.
    const TEXTS: [&str; 2] = ["'a'", "'hunter2'"];

    const TOP: &[Row] = &[
        ("extra-env", ["{}", "{HTTP_PROXY='a'}"], "", Show),
        ("registries", ["{}", "{a={}}"], "", Show),
        ("decryption-keys", ["{}", "{keys='YQ'}"], "", Show),
        ("resources", ["{}", "{}"], "", Fail),
        ("pins", ["{}", "{a='sha256:a'}"], "", Fail),
        ("only-pins", TRUTH, "", Fail),
        ("image-policy", ["{}", "{file='a'}"], "", Fail),
        ("node-error", TEXTS, "", Show),
    ];
    const ENTRY: &[Row] = &[
        ("username", TEXTS, "password='a'", Hide),
        ("username", TEXTS, "identitytoken='a'", Hide),
        ("password", TEXTS, "username='a'", Hide),
        // The second one has an empty password, the third in the next row an empty user name.
        ("auth", ["'cm9ib3Q6aHVudGVyMg=='", "'cm9ib3Q6'"], "", Hide),
        ("auth", ["'cm9ib3Q6aHVudGVyMg=='", "'OmE='"], "identitytoken='a'", Hide),
        ("identitytoken", TEXTS, "", Hide),
        ("registrytoken", TEXTS, "", Hide),
        ("credentials-uri", URIS, "", Show),
        ("anonymous", TRUTH, "", Fail),
        (
            "ca-certs",
            ["'''-----BEGIN CERTIFICATE-----\nMAcwADAAAwEA\n-----END CERTIFICATE-----'''", "''"],
            "",
            Show,
        ),
        ("ca-certs-uri", URIS, "", Show),
        ("web-roots", TRUTH, CERTIFICATE, Show),
        ("credentials-optional", TRUTH, "credentials-uri='kbs:///a/b/c'", Show),
        (
            "client-cert",
            [
                "'''-----BEGIN CERTIFICATE-----\nMAcwADAAAwEA\n-----END CERTIFICATE-----'''",
                "'''-----BEGIN CERTIFICATE-----\nMAgwADAAAwIAAA==\n-----END CERTIFICATE-----'''",
            ],
            "client-key='''-----BEGIN PRIVATE KEY-----\nYQ==\n-----END PRIVATE KEY-----'''",
            Show,
        ),
        (
            "client-key",
            [
                "'''-----BEGIN PRIVATE KEY-----\nYQ==\n-----END PRIVATE KEY-----'''",
                "'''-----BEGIN EC PRIVATE KEY-----\naHVudGVyMg==\n-----END EC PRIVATE KEY-----'''",
            ],
            "client-cert='''-----BEGIN CERTIFICATE-----\nMAcwADAAAwEA\n-----END CERTIFICATE-----'''",
            Hide,
        ),
        ("insecure-skip-verify", TRUTH, "", Show),
        ("plain-http", TRUTH, "", Show),
        ("addresses", ["['10.0.0.1']", "['10.0.0.1','::1']"], "", Show),
        ("mirror", ["'https://a'", "'https://b'"], "", Show),
        ("mirror-fallback", TRUTH, "mirror='https://a'", Show),
        ("mirrors", ["['https://a']", "['https://a','https://b']"], "", Show),
        ("mirrors", ["[{url='https://a'}]", "[{url='https://a',prefix='b'}]"], "", Show),
        ("mirrors", ["[{url='https://a'}]", "[{url='https://a',name='b'}]"], "", Show),
        ("mirrors", ["[{url='https://a'}]", "[{url='https://a',fallback=false}]"], "", Show),
        ("mirrors", ["['https://a']", "['https://a',{prefix='b',fallback=false}]"], "", Show),
        (
            "also",
            ["[{registrytoken='a'}]", "[{registrytoken='hunter2'}]"],
            "registrytoken='a'",
            Hide,
        ),
        (
            "also",
            ["[{auth='cm9ib3Q6aHVudGVyMg=='}]", "[{auth='cm9ib3Q6'}]"],
            "registrytoken='a'",
            Hide,
        ),
        // How many there are is no secret.
        ("also", ["[]", "[{registrytoken='hunter2'}]"], "registrytoken='a'", Show),
    ];
    const KEYS: &[Row] = &[
        ("keys", ["['YQ']", "['aHVudGVyMg==:YQ==']"], "", Hide),
        ("keys", ["['YQ']", "['YQ','YQ']"], "", Show),
        ("keys", ["['kbs:///a/b/c']", "['kbs:///a/b/d']"], "", Show),
    ];
    const ENVIRONMENT: &[Row] = &[
        ("HTTP_PROXY", ["'http://a@p'", "'http://robot:hunter2@p'"], "", Hide),
        ("http_proxy", ["'a:b@p:80'", "'robot:hunter2@p:80'"], "", Hide),
        ("HTTPS_PROXY", ["'socks5://a@p'", "'socks5://robot:hunter2@p'"], "", Hide),
        ("https_proxy", ["'https://p'", "'https://q'"], "", Show),
        ("NO_PROXY", TEXTS, "", Show),
        ("no_proxy", TEXTS, "", Show),
        ("TOKEN", TEXTS, "", Hide),
    ];

    /// A key that is new in the grammar has no row and fails this test; so does a secret one whose
    /// value, or the length of it, can be told from the record, and one that is not written.
    #[test]
    fn no_secret_of_any_key_has_an_influence() {
        let mut variables = extra_env::VARIABLES.concat();
        variables.push("TOKEN");
        for (table, grammar, rows) in [
            ("", &of_document()[..], TOP),
            ("[registries.r]\n", &of_entry()[..], ENTRY),
            ("[decryption-keys]\n", &["keys"][..], KEYS),
            ("[decryption-keys.\"r/a\"]\n", &["keys"][..], KEYS),
            ("[extra-env]\n", &variables[..], ENVIRONMENT),
        ] {
            let keys: BTreeSet<_> = rows.iter().map(|(key, ..)| *key).collect();
            assert_eq!(keys, grammar.iter().copied().collect(), "{table}");
            for (key, values, beside, does) in rows {
                let mut written = Vec::new();
                let record = |value| {
                    let text = format!("{table}{key} = {value}\n{beside}\n");
                    let document = Document::parse(text.as_bytes()).ok()?.document;
                    written.push(document.to_toml().unwrap());
                    assert!(!document.recorded_form().contains("hunter2") || *does == Show);
                    Some(document.record())
                };
                let [one, other] = values.map(record);
                let found = match one.is_some() && other.is_some() {
                    true if one == other => Hide,
                    true => Show,
                    false => Fail,
                };
                assert_eq!(found, *does, "{table}{key} = {values:?}");
                // Each value is written as what it is; of this variable nothing is kept.
                let is_kept = written.first() != written.last() || *key == "TOKEN";
                assert!(is_kept || *does == Fail, "{table}{key}");
            }
        }
    }

    /// The example of the page is what verifiers build upon; a changed one breaks them.
    #[test]
    fn the_form_is_the_documented_one() {
        let page = include_str!("../../../docs/document.md");
        let (_, page) = page.split_once("## The record of the document").unwrap();
        let block = |kind: &str| {
            let (_, rest) = page.split_once(&format!("```{kind}\n")).unwrap();
            rest.split_once("```").unwrap().0
        };
        let document = Document::parse(block("toml").as_bytes()).unwrap().document;
        assert_eq!(document.recorded_form(), block("json").replace('\n', ""));
        let event = format!("{{\"document\":\"{}\"}}", document.record());
        assert!(block("text").contains(&event), "{event}");
    }
}

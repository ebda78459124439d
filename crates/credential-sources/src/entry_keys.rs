//! What an offer becomes in a document: keys of an entry, and values as TOML writes them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use registry_config::Document;
use registry_config::credential_rule::looks_sealed;
use zeroize::Zeroizing;

use crate::Offered;

/// Keys of an entry with their values.
pub(crate) type Keys = Vec<(&'static str, Zeroizing<String>)>;

/// The most bytes that a character of a string becomes: `\u0000`.
pub(crate) const MAX_ESCAPE_BYTES: usize = 6;

impl Offered {
    /// The keys that say what is offered; none if that is nothing.
    pub(crate) fn keys(&self) -> Keys {
        let copy = |text: &str| Zeroizing::new(text.to_owned());
        match self {
            Self::Password { username, password } => {
                let password = password.expose();
                if username.is_empty() && password.is_empty() {
                    Vec::new()
                } else if needs_auth(username, password) {
                    vec![("auth", pair(username, password))]
                } else {
                    vec![("username", copy(username)), ("password", copy(password))]
                }
            }
            Self::IdentityToken(token) | Self::RegistryToken(token)
                if token.expose().is_empty() =>
            {
                Vec::new()
            }
            Self::IdentityToken(token) => vec![("identitytoken", copy(token.expose()))],
            Self::RegistryToken(token) => vec![("registrytoken", copy(token.expose()))],
        }
    }
}

/// Whether a pair is written as `auth`: the document refuses an empty `username` or `password`, and
/// a `password` that begins with `sealed.`.
///
/// A colon in a user name would end it there. Under its own key the document refuses it.
fn needs_auth(username: &str, password: &str) -> bool {
    let is_half = username.is_empty() || password.is_empty();
    (is_half || looks_sealed(password)) && !username.contains(':')
}

/// The `auth` of docker's files. The buffers never move: no copy of a secret is left behind.
fn pair(username: &str, password: &str) -> Zeroizing<String> {
    let mut plain = Zeroizing::new(String::with_capacity(username.len() + password.len() + 1));
    plain.push_str(username);
    plain.push(':');
    plain.push_str(password);
    Zeroizing::new(STANDARD.encode(plain.as_bytes()))
}

/// Writes a TOML basic string, of at most [`MAX_ESCAPE_BYTES`] for each byte and two quotes.
pub(crate) fn push_literal(text: &str, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            control if control.is_control() => {
                let code = control as u32;
                out.push_str("\\u00");
                for digit in [code >> 4, code & 15] {
                    out.push(char::from_digit(digit, 16).unwrap_or('0'));
                }
            }
            other => out.push(other),
        }
    }
    out.push('"');
}

/// Writes a line with a key and a string.
pub(crate) fn push_key(key: &str, value: &str, out: &mut String) {
    out.push_str(key);
    out.push_str(" = ");
    push_literal(value, out);
    out.push('\n');
}

/// Why the document would refuse these keys: its own rule, which shows no value.
///
/// # Errors
///
/// The first rule.
pub(crate) fn check(keys: &Keys) -> Result<(), String> {
    const AROUND_KEY: usize = " = \"\"\n".len();
    const HEADER: &str = "[registries.probe]\n";
    let length: usize = keys
        .iter()
        .map(|(key, value)| key.len() + value.len() * MAX_ESCAPE_BYTES + AROUND_KEY)
        .sum();
    let mut text = Zeroizing::new(String::with_capacity(HEADER.len() + length));
    text.push_str(HEADER);
    for (key, value) in keys {
        push_key(key, value, &mut text);
    }
    match Document::parse(text.as_bytes()) {
        Ok(_) => Ok(()),
        Err(problems) => {
            Err(problems.iter().next().map_or_else(String::new, |problem| problem.rule.to_string()))
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

    use registry_config::{Credentials, Match, RegistryHost, Secret};

    use super::*;

    fn password(username: &str, password: &str) -> Offered {
        Offered::Password { username: username.into(), password: Secret::from(password.to_owned()) }
    }

    /// The fuzzer found that a password which begins with `sealed.` was left out of the document.
    #[test]
    fn every_password_is_written_so_that_the_document_reads_it_back() {
        for (username, secret, expected) in [
            ("u", "p", &["username", "password"][..]),
            ("u", "Sealed.p", &["username", "password"]),
            ("u", "", &["auth"]),
            ("", "p", &["auth"]),
            ("u", "p:sealed.", &["username", "password"]),
            ("u", "sealed.", &["auth"]),
            ("u", "sealed.p--", &["auth"]),
            ("sealed.u", "sealed.p:q", &["auth"]),
            ("", "sealed.p", &["auth"]),
            // Well-formed, and still somebody's password.
            ("u", "sealed.YQ.YQ.YQ", &["auth"]),
            // A file.
            ("u", "{\r\n\t\"a\": 'b'\r\n}\r\n", &["username", "password"]),
            ("u", "sealed.\n}\n", &["auth"]),
        ] {
            let keys = password(username, secret).keys();
            let names: Vec<_> = keys.iter().map(|(key, _)| *key).collect();
            assert_eq!(names, expected, "{secret}");
            let mut text = "[registries.r]\n".to_owned();
            for (key, value) in &keys {
                push_key(key, value, &mut text);
            }
            let document = Document::parse(text.as_bytes()).unwrap().document;
            let host = RegistryHost::parse("r").unwrap();
            let Match::Entry { entry, .. } = document.registries.entry_for(&host) else {
                panic!("{secret}")
            };
            let Credentials::Basic { username: name, password } = &entry.credentials else {
                panic!("{secret}")
            };
            assert_eq!((name.as_str(), password.expose()), (username, secret));
            assert!(entry.credentials_uri.is_none());
        }
        assert!(password("", "").keys().is_empty());
    }

    #[test]
    fn tokens_have_keys_of_their_own() {
        let token = |text: &str| Secret::from(text.to_owned());
        assert!(Offered::IdentityToken(token("")).keys().is_empty());
        for (offered, key) in [
            (Offered::IdentityToken(token("t")), "identitytoken"),
            (Offered::RegistryToken(token("t")), "registrytoken"),
        ] {
            assert_eq!(offered.keys(), [(key, Zeroizing::new("t".to_owned()))]);
        }
    }

    #[test]
    fn any_text_survives_the_spelling() {
        for text in ["", "plain", "\"\\\u{0}\u{7f}\t\r\n", "\u{80}\u{2028}é#'''\"\"\""] {
            let mut document = String::new();
            push_key("a", text, &mut document);
            let table: toml::Table = document.parse().unwrap();
            assert_eq!(table["a"].as_str().unwrap(), text);
        }
    }

    #[test]
    fn what_the_document_refuses_is_refused_without_its_value() {
        let token = |text: &str| Secret::from(text.to_owned());
        for (offered, word) in [
            (password("a:b", "hunter2"), "colon"),
            // As `auth`, the user name would end at its own colon.
            (password("a:b", ""), "colon"),
            (password("a:b", "sealed.hunter2"), "colon"),
            (password("a", "hunter2\n"), "line end"),
            (password("a\n", "hunter2"), "control"),
            (password("a", "sealed.hunter2\n"), "control"),
            (password("a", &"hunter2".repeat(4000)), "bytes"),
            (Offered::RegistryToken(token("hunter 2")), "visible"),
            // A token cannot be written in another way.
            (Offered::IdentityToken(token("sealed.hunter2")), "sealed"),
            (Offered::RegistryToken(token("sealed.hunter2")), "sealed"),
        ] {
            let reason = check(&offered.keys()).unwrap_err();
            assert!(reason.contains(word), "{reason}");
            assert!(!reason.contains("hunter"), "{reason}");
        }
        assert_eq!(check(&password("a", "").keys()), Ok(()));
    }
}

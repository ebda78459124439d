//! What an offer puts into an entry: keys, and values as TOML writes them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use puller_config::{Document, Secret};
use zeroize::Zeroizing;

use crate::Offered;

/// Keys of an entry with their values in TOML's spelling.
pub(crate) type Keys = Vec<(&'static str, Zeroizing<String>)>;

/// The keys that say what is offered; `None` if that is nothing.
///
/// A pair of which one half is empty is written as `auth`, because the document refuses an empty
/// `username` or `password`.
pub(crate) fn keys(offered: &Offered) -> Option<Keys> {
    Some(match offered {
        Offered::Password { username, password } => match (username.as_str(), password.expose()) {
            ("", "") => return None,
            ("", password) => vec![("auth", literal(&pair("", password)))],
            (username, "") => vec![("auth", literal(&pair(username, "")))],
            (username, password) => vec![
                ("username", literal(username)),
                ("password", literal(password)),
            ],
        },
        Offered::IdentityToken(token) => vec![("identitytoken", token_literal(token)?)],
        Offered::RegistryToken(token) => vec![("registrytoken", token_literal(token)?)],
    })
}

fn token_literal(token: &Secret) -> Option<Zeroizing<String>> {
    let token = token.expose();
    (!token.is_empty()).then(|| literal(token))
}

/// The `auth` of docker's files.
fn pair(username: &str, password: &str) -> Zeroizing<String> {
    let mut plain = Zeroizing::new(String::with_capacity(username.len() + password.len() + 1));
    plain.push_str(username);
    plain.push(':');
    plain.push_str(password);
    Zeroizing::new(STANDARD.encode(plain.as_bytes()))
}

/// A TOML basic string. The buffer never moves, so that no copy of a secret is left behind.
pub(crate) fn literal(text: &str) -> Zeroizing<String> {
    const LONGEST_ESCAPE_BYTES: usize = "\\u0000".len();
    let mut literal = Zeroizing::new(String::with_capacity(text.len() * LONGEST_ESCAPE_BYTES + 2));
    literal.push('"');
    for character in text.chars() {
        match character {
            '"' => literal.push_str("\\\""),
            '\\' => literal.push_str("\\\\"),
            control if control.is_ascii_control() => {
                let code = control as u32;
                literal.push_str("\\u00");
                for digit in [code >> 4, code & 15] {
                    literal.push(char::from_digit(digit, 16).unwrap_or('0'));
                }
            }
            other => literal.push(other),
        }
    }
    literal.push('"');
    literal
}

/// Why the document would refuse these keys: its own rule, which shows no value.
///
/// # Errors
///
/// The first rule.
pub(crate) fn check(keys: &Keys) -> Result<(), String> {
    let length: usize = keys
        .iter()
        .map(|(key, value)| key.len() + value.len() + 4)
        .sum();
    let mut text = Zeroizing::new(String::with_capacity(length + 32));
    text.push_str("[registries.probe]\n");
    for (key, value) in keys {
        text.push_str(key);
        text.push_str(" = ");
        text.push_str(value);
        text.push('\n');
    }
    match Document::parse(text.as_bytes()) {
        Ok(_) => Ok(()),
        Err(problems) => Err(problems
            .iter()
            .next()
            .map_or_else(String::new, |problem| problem.rule.to_string())),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

    use super::*;

    fn password(username: &str, password: &str) -> Offered {
        Offered::Password {
            username: username.into(),
            password: Secret::from(password.to_owned()),
        }
    }

    #[test]
    fn halves_become_auth() {
        let names = |offered: &Offered| {
            keys(offered).map(|keys| keys.iter().map(|(key, _)| *key).collect::<Vec<_>>())
        };
        assert_eq!(names(&password("", "")), None);
        assert_eq!(names(&password("u", "")), Some(vec!["auth"]));
        assert_eq!(names(&password("", "p")), Some(vec!["auth"]));
        assert_eq!(
            names(&password("u", "p")),
            Some(vec!["username", "password"])
        );
        let token = |text: &str| Secret::from(text.to_owned());
        assert_eq!(names(&Offered::IdentityToken(token(""))), None);
        assert_eq!(
            names(&Offered::RegistryToken(token("t"))),
            Some(vec!["registrytoken"])
        );
    }

    #[test]
    fn any_text_survives_the_spelling() {
        for text in [
            "",
            "plain",
            "\"\\\u{0}\u{7f}\t\r\n",
            "\u{80}\u{2028}é#'''\"\"\"",
        ] {
            let document = format!("a = {}\n", literal(text).as_str());
            let table: toml::Table = document.parse().unwrap();
            assert_eq!(table["a"].as_str().unwrap(), text);
        }
    }

    #[test]
    fn what_the_document_refuses_is_refused_without_its_value() {
        for (offered, word) in [
            (password("a:b", "hunter2"), "colon"),
            (password("a", "hunter2\n"), "control"),
            (password("a", &"hunter2".repeat(4000)), "bytes"),
            (
                Offered::RegistryToken(Secret::from("hunter 2".to_owned())),
                "visible",
            ),
        ] {
            let reason = check(&keys(&offered).unwrap()).unwrap_err();
            assert!(reason.contains(word), "{reason}");
            assert!(!reason.contains("hunter"), "{reason}");
        }
        assert_eq!(check(&keys(&password("a", "")).unwrap()), Ok(()));
    }
}

//! A token that another program got from the broker, and the key that belongs to it.
//!
//! The file is what the attestation agent answers when it is asked for a token of kind `kbs`:
//! `{"token": "...", "tee_keypair": "-----BEGIN ..."}`. A token alone is of no use, because the
//! broker encrypts its answers for the key that the token names.

use std::path::Path;

use foreign_text::json::{Duplicates, Limits, read_object};
use jose::PrivateKey;
use reqwest::header::{AUTHORIZATION, HeaderValue};
use zeroize::Zeroizing;

use crate::error::Fault;
use crate::files;

use super::Proof;

/// The largest file: a token with a broker's whole view of a guest, and a key.
const MAX_FILE_BYTES: usize = 256 << 10;

/// Reads the file, each time anew: tokens expire, and the program that wrote this one writes the
/// next.
pub(super) async fn read(path: &Path) -> Result<Proof, Fault> {
    let of_file = |fault| Fault::TokenFile(Box::new(fault));
    let text = files::read(path.to_owned(), MAX_FILE_BYTES).await.map_err(of_file)?;
    parse(&text).map_err(of_file)
}

pub(super) fn parse(text: &[u8]) -> Result<Proof, Fault> {
    let content = |rule| Fault::Content { rule };
    let members = read_object(text, Limits::of_bytes(text.len()), Duplicates::Refused).ok();
    let member = |name| members.as_ref().and_then(|members| members.last(name)?.text());
    let (Some(token), Some(pair)) = (member("token"), member("tee_keypair")) else {
        return Err(content(
            "it is no JSON object with \"token\" and \"tee_keypair\", as the attestation agent's \
            GetToken answers for kind \"kbs\"",
        ));
    };
    let is_safe = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/=".contains(&byte);
    if token.is_empty() || !token.bytes().all(is_safe) {
        return Err(content("\"token\" holds no token (RFC 6750)"));
    }
    let bearer = Zeroizing::new(format!("Bearer {token}"));
    let mut bearer = HeaderValue::from_str(&bearer)
        .map_err(|_| content("\"token\" holds no token (RFC 6750)"))?;
    bearer.set_sensitive(true);
    let key = PrivateKey::read(pair.as_bytes(), None)?;
    Ok(Proof { name: AUTHORIZATION, value: bearer, key })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A key on P-256 (`openssl genpkey`), made for this test.
    const PEM: &str = concat!(
        "-----BEGIN PRIVATE KEY-----\\n",
        "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgQjLz8MMajCAfmt5Q\\n",
        "BKa4xyyMNOWFctY6M44cHnSGVbOhRANCAAQyQvLSD/syQPKAsHGY6BD11okxy5WS\\n",
        "ZhzRGJ6vAFJuVW7pGaJATilqXYp1hxTBhHslMt9MhLeh47Wj+YBZHNSL\\n",
        "-----END PRIVATE KEY-----\\n",
    );

    #[test]
    fn token_comes_with_its_key() {
        let text = format!(r#"{{"token": "a.b-_.c", "tee_keypair": "{PEM}", "more": 1}}"#);
        let token = parse(text.as_bytes()).unwrap();
        assert_eq!(token.value.to_str().unwrap(), "Bearer a.b-_.c");
        assert_eq!(format!("{:?}", token.value), "Sensitive");
    }

    #[test]
    fn what_is_no_token_file_is_refused_without_being_quoted() {
        for (text, expected) in [
            ("hunter2".to_owned(), "no JSON object"),
            ("\"hunter2\"".to_owned(), "no JSON object"),
            (r#"{"token": "hunter2"}"#.to_owned(), "no JSON object"),
            (r#"{"tee_keypair": "hunter2"}"#.to_owned(), "no JSON object"),
            (r#"{"token": 1, "tee_keypair": ""}"#.to_owned(), "no JSON object"),
            (
                format!(r#"{{"token": "a", "token": "b", "tee_keypair": "{PEM}"}}"#),
                "no JSON object",
            ),
            (format!(r#"{{"token": "", "tee_keypair": "{PEM}"}}"#), "no token"),
            (format!(r#"{{"token": "hunter2\r\nHost: x", "tee_keypair": "{PEM}"}}"#), "no token"),
            (format!(r#"{{"token": "hunter2 x", "tee_keypair": "{PEM}"}}"#), "no token"),
            (r#"{"token": "a", "tee_keypair": "hunter2"}"#.to_owned(), "key"),
        ] {
            let Err(fault) = parse(text.as_bytes()) else {
                panic!("{text}");
            };
            let fault = fault.to_string();
            assert!(fault.contains(expected) && !fault.contains("hunter2"), "{text}: {fault}");
        }
    }
}

//! What is signed in a sealed secret.
//!
//! - `vault`: `name` is the URI of the secret.
//! - `envelope`: the secret is in it, encrypted; the `envelope` module has the layout.
//!
//! `provider` is `kbs` in both. `provider_settings`, and `annotations` of a vault, mean nothing for
//! it.

use foreign_text::json::{Duplicates, Limits, Object, Value, read_object};
use puller_config::ResourceUri;

use super::envelope::Envelope;
use crate::error::SealedError;

/// The version of the format.
const VERSION: &str = "0.1.0";

/// What the owner signed.
#[derive(Debug)]
pub enum Payload {
    /// The secret is a resource.
    Vault(ResourceUri),
    /// The secret is here, and its key's key a resource.
    Envelope(Box<Envelope>),
}

impl Payload {
    /// Reads what the signature covers. Members that are not known are ignored; one that is there
    /// twice is an error.
    ///
    /// # Errors
    ///
    /// Which rule it breaks.
    pub fn parse(text: &[u8]) -> Result<Self, SealedError> {
        const FORM: SealedError =
            SealedError::Payload("is no JSON object with \"version\", \"type\" and \"provider\"");
        let members = read_object(text, Limits::of_bytes(text.len()), Duplicates::Refused);
        let members = members.map_err(|_| FORM)?;
        let required = |name| members.last(name).and_then(Value::text).ok_or(FORM);
        let (version, kind) = (required("version")?, required("type")?);
        let provider = required("provider")?;
        if version != VERSION {
            return Err(SealedError::Payload("has another version than 0.1.0"));
        }
        if provider != "kbs" {
            return Err(SealedError::Payload(
                "is for another provider than \"kbs\", the only one that this program asks",
            ));
        }
        match kind {
            "vault" => Ok(Self::Vault(uri("name", &members)?)),
            "envelope" => Ok(Self::Envelope(Box::new(Envelope::read(&members)?))),
            _ => Err(SealedError::Payload("is neither of type \"vault\" nor \"envelope\"")),
        }
    }
}

/// The URI in a member.
///
/// # Errors
///
/// If there is none.
pub fn uri(member: &'static str, members: &Object<'_>) -> Result<ResourceUri, SealedError> {
    let value = members.last(member).and_then(Value::text);
    let value = value.ok_or(SealedError::Payload(match member {
        "name" => "lacks \"name\", the URI of the secret",
        _ => "lacks \"key_id\", the URI of the key",
    }))?;
    ResourceUri::parse(value).map_err(|reason| SealedError::Uri { member, reason })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn vault() -> Value {
        json!({
            "version": "0.1.0",
            "type": "vault",
            "provider": "kbs",
            "name": "kbs:///a/b/c",
            "provider_settings": {"hunter2": 1},
            "annotations": {"hunter2": {}},
        })
    }

    fn envelope() -> Value {
        json!({
            "version": "0.1.0",
            "type": "envelope",
            "provider": "kbs",
            "key_id": "kbs:///a/key/c",
            "wrap_type": "A256GCM",
            "encrypted_key": "AAAA",
            "annotations": {"iv": "AgICAgICAgICAgIC"},
            "encrypted_data": "AAAA",
            "iv": "BAQEBAQEBAQEBAQE",
            "provider_settings": {},
        })
    }

    fn parse(payload: &Value) -> Result<Payload, String> {
        let read = Payload::parse(payload.to_string().as_bytes());
        read.map_err(|error| {
            let text = error.to_string();
            assert!(!text.contains("hunter2"), "{text}");
            text
        })
    }

    #[test]
    fn vaults_name_a_resource() {
        assert!(
            matches!(parse(&vault()), Ok(Payload::Vault(uri)) if uri.to_string() == "kbs:///a/b/c")
        );
        let mut bare = vault();
        bare.as_object_mut().unwrap().remove("provider_settings");
        bare.as_object_mut().unwrap().remove("annotations");
        assert!(parse(&bare).is_ok());
    }

    #[test]
    fn broken_payloads_are_refused_by_the_rule_they_break() {
        for (base, member, value, expected) in [
            (vault(), "version", json!("0.2.0"), "another version"),
            (vault(), "version", json!(1), "no JSON object"),
            (vault(), "provider", json!("aliyun"), "another provider"),
            (vault(), "provider", Value::Null, "no JSON object"),
            (vault(), "type", json!("hunter2"), "neither of type"),
            (vault(), "name", Value::Null, "lacks \"name\""),
            (vault(), "name", json!("hunter2"), "\"name\" of its payload is not the URI"),
            (vault(), "name", json!("kbs://a/b/c"), "three slashes"),
            (envelope(), "key_id", Value::Null, "lacks \"key_id\""),
            (envelope(), "key_id", json!("hunter2"), "\"key_id\" of its payload is not the URI"),
            (envelope(), "wrap_type", json!("A256CTR"), "another \"wrap_type\""),
            (envelope(), "wrap_type", Value::Null, "another \"wrap_type\""),
            (envelope(), "encrypted_key", json!("hunter2!"), "lacks \"encrypted_key\""),
            (envelope(), "encrypted_data", Value::Null, "lacks \"encrypted_data\""),
            (envelope(), "iv", json!("BAQEBAQEBAQEBAQEBAQEBA=="), "lacks \"iv\""),
            (envelope(), "annotations", json!({}), "lacks \"annotations.iv\""),
            (envelope(), "annotations", Value::Null, "lacks \"annotations.iv\""),
            (envelope(), "annotations", json!({"iv": 12}), "lacks \"annotations.iv\""),
        ] {
            let mut payload = base;
            payload[member] = value;
            let error = parse(&payload).unwrap_err();
            assert!(error.contains(expected), "{member}: {error}");
        }
        for text in [
            "hunter2",
            "[]",
            concat!(
                r#"{"version": "0.1.0", "version": "0.1.0", "type": "vault", "provider": "kbs","#,
                r#" "name": "kbs:///a/b/c"}"#,
            ),
            concat!(
                r#"{"version": "0.1.0", "type": "vault", "provider": "kbs","#,
                r#" "name": "kbs:///a/b/c","#,
                r#" "name": "kbs:///a/b/d"}"#,
            ),
        ] {
            assert!(Payload::parse(text.as_bytes()).is_err(), "{text}");
        }
    }
}

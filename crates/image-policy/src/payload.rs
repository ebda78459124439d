//! The payload of simple signing, as cosign and skopeo sign it with a key.
//!
//! containers-signature(5) describes it. It is read as strictly as containers/image reads it: every
//! member must be there, none may be unknown or there twice, in any case of letters.

use foreign_text::json::{self, Duplicates, Kind, Limits, MAX_DEPTH, Object, Value};
use oci_image::digest::Digest;

/// The longest payload, in bytes; containers/image has the same limit.
pub const MAX_PAYLOAD_BYTES: usize = 4 << 20;

/// The most values of its JSON; a plain one has eight.
const MAX_PAYLOAD_VALUES: usize = 1 << 16;

/// What `critical.type` must be.
const TYPE: &str = "cosign container image signature";

/// What somebody signed; only what a trusted key signed is worth reading.
#[derive(Clone, Debug)]
pub struct Payload {
    /// The name of the image, as it was signed.
    pub reference: String,
    /// The manifest or index.
    pub digest: Digest,
}

impl Payload {
    /// Reads a payload; `None` if it is none.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let limits =
            Limits { bytes: MAX_PAYLOAD_BYTES, values: MAX_PAYLOAD_VALUES, depth: MAX_DEPTH };
        let root = json::read_object(bytes, limits, Duplicates::Refused).ok()?;
        let [critical, optional] = exactly(&root, ["critical", "optional"])?;
        let [kind, image, identity] = exactly(critical.object()?, ["type", "image", "identity"])?;
        if kind.text()? != TYPE {
            return None;
        }
        let [digest] = exactly(image.object()?, ["docker-manifest-digest"])?;
        let [reference] = exactly(identity.object()?, ["docker-reference"])?;
        let digest = Digest::parse(digest.text()?).ok()?;
        let reference = reference.text()?.to_owned();
        is_optional(optional)?.then_some(Self { reference, digest })
    }
}

/// These members and no other.
fn exactly<'v, 't, const N: usize>(
    object: &'v Object<'t>,
    names: [&str; N],
) -> Option<[&'v Value<'t>; N]> {
    if object.members().count() != N {
        return None;
    }
    let values: Vec<_> = names.iter().map_while(|name| object.last(name)).collect();
    values.try_into().ok()
}

/// Whether `optional` is valid, which may be `null` and have any members: of `creator` and
/// `timestamp` only the type counts.
fn is_optional(optional: &Value<'_>) -> Option<bool> {
    if optional.is_null() {
        return Some(true);
    }
    let optional = optional.object()?;
    let kind = |name| optional.last(name).map(|value| &value.kind);
    Some(match (kind("creator"), kind("timestamp")) {
        (Some(kind), _) if !matches!(kind, Kind::Null | Kind::Text(_)) => false,
        (_, Some(Kind::Number(number))) => is_integer(number),
        (_, kind) => matches!(kind, None | Some(Kind::Null)),
    })
}

/// Whether a number has no fraction; Go reads it as a float, so that `1e9` is one.
fn is_integer(number: &str) -> bool {
    /// Up to here every integer is a float.
    const MAX: f64 = 9_007_199_254_740_992.0;
    let is_whole = |number: f64| number.fract() == 0.0 && number.abs() <= MAX;
    number.parse::<i64>().is_ok() || number.parse().is_ok_and(is_whole)
}

#[cfg(test)]
mod tests {
    use super::*;

    const DIGEST: &str = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    fn payload(optional: &str) -> String {
        format!(
            r#"{{"critical":{{"identity":{{"docker-reference":"r.test/app"}},"image":
            {{"docker-manifest-digest":"{DIGEST}"}},"type":"{TYPE}"}},"optional":{optional}}}"#
        )
    }

    #[test]
    fn what_cosign_and_skopeo_write_is_read() {
        for optional in [
            "null",
            "{}",
            r#"{"env":["prod",{"a":1}]}"#,
            r#"{"creator":"x","timestamp":1795345268}"#,
            r#"{"timestamp":1e9}"#,
            r#"{"creator":null,"timestamp":null}"#,
        ] {
            let payload = Payload::parse(payload(optional).as_bytes()).unwrap();
            assert_eq!(payload.reference, "r.test/app");
            assert_eq!(payload.digest.to_string(), DIGEST);
        }
    }

    #[test]
    fn nothing_else_is() {
        for optional in [
            "[]",
            "\"\"",
            r#"{"timestamp":1.5}"#,
            r#"{"timestamp":"1"}"#,
            r#"{"timestamp":1e300}"#,
            r#"{"creator":1}"#,
            r#"{"a":1,"a":1}"#,
        ] {
            assert!(Payload::parse(payload(optional).as_bytes()).is_none(), "{optional}");
        }
        let good = payload("null");
        for (from, to) in [
            ("\"critical\"", "\"Critical\""),
            ("\"optional\":null", "\"optional\":null,\"more\":1"),
            (",\"optional\":null", ""),
            ("\"type\":", "\"type\":\"\",\"type\":"),
            (TYPE, "atomic container signature"),
            ("sha256:", ""),
            ("\"r.test/app\"", "null"),
            ("null}", "null}{}"),
        ] {
            let odd = good.replacen(from, to, 1);
            assert_ne!(odd, good);
            assert!(Payload::parse(odd.as_bytes()).is_none(), "{odd}");
        }
    }
}

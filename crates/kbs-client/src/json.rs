//! Objects that brokers and their files consist of.

use foreign_text::json::{self, Duplicates, Kind, Limits, Object, Value};

/// Reads one object; `None` for everything else. The caller bounds the text.
pub fn object(text: &[u8], duplicates: Duplicates) -> Option<Object<'_>> {
    let limits = Limits {
        bytes: text.len(),
        values: text.len(),
        depth: json::MAX_DEPTH,
    };
    match json::read(text, limits, duplicates) {
        Ok(Value {
            kind: Kind::Object(object),
            ..
        }) => Some(object),
        _ => None,
    }
}

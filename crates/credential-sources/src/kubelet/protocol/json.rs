//! Messages as JSON.

use foreign_text::json::{self, Duplicates, Limits, MAX_DEPTH};
use serde::{Deserialize, Serialize};
use zeroize::Zeroizing;

use super::{MAX_MESSAGE_BYTES, MessageError};

/// Before serde sees a text, which takes the last of two keys in a map.
const LIMITS: Limits =
    Limits { bytes: MAX_MESSAGE_BYTES, values: MAX_MESSAGE_BYTES, depth: MAX_DEPTH };

pub(super) fn parse<'a, T: Deserialize<'a>>(
    text: &'a [u8],
    kind: &'static str,
) -> Result<T, MessageError> {
    if text.len() > MAX_MESSAGE_BYTES {
        return Err(MessageError::TooLong);
    }
    let form = |line, column| MessageError::Form { kind, line, column };
    json::read(text, LIMITS, Duplicates::Refused)
        .map_err(|error| form(error.line, error.column))?;
    serde_json::from_slice(text).map_err(|error| form(error.line(), error.column()))
}

/// `value` as one line of JSON.
pub(in crate::kubelet) fn line(value: &impl Serialize) -> Zeroizing<Vec<u8>> {
    // A vector that grows would leave its old copy in freed memory.
    let mut text = Zeroizing::new(Vec::with_capacity(MAX_MESSAGE_BYTES));
    // Texts by texts into memory: nothing that could fail.
    if serde_json::to_writer(&mut *text, value).is_err() {
        text.clear();
    }
    text.push(b'\n');
    text
}

//! JSON as Go's encoder writes it, which a byte-identical secret depends on.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use zeroize::Zeroizing;

use crate::docker_config::Entry;

/// `{"auths":{KEY:{"username":...,"password":...,"auth":...}}}`, keys sorted by their bytes.
pub(super) fn auths(entries: &BTreeMap<String, Entry>) -> Zeroizing<Vec<u8>> {
    const LONGEST_ESCAPE_BYTES: usize = "\\u0000".len();
    const AROUND: usize =
        "{\"auths\":{\"\":{\"username\":\"\",\"password\":\"\",\"auth\":\"\"},}}".len();
    // Long enough for any content, so that no copy of a secret is left behind.
    let capacity = entries.iter().fold(AROUND, |bytes, (key, entry)| {
        let text = key.len() + entry.username.len() + entry.password.len() + entry.auth.len();
        bytes + AROUND + text * LONGEST_ESCAPE_BYTES
    });
    let mut json = Zeroizing::new(String::with_capacity(capacity));
    json.push_str("{\"auths\":{");
    for (index, (key, entry)) in entries.iter().enumerate() {
        if index > 0 {
            json.push(',');
        }
        string(&mut json, key);
        for (before, value) in [
            (":{\"username\":", &entry.username),
            (",\"password\":", &entry.password),
            (",\"auth\":", &entry.auth),
        ] {
            json.push_str(before);
            string(&mut json, value);
        }
        json.push('}');
    }
    json.push_str("}}");
    Zeroizing::new(std::mem::take(&mut *json).into_bytes())
}

/// A string as Go since 1.22 writes it: what could end a script in HTML is escaped, and so are line
/// separators.
fn string(json: &mut String, text: &str) {
    json.push('"');
    for letter in text.chars() {
        let short = match letter {
            '"' | '\\' => Some(letter),
            '\n' => Some('n'),
            '\r' => Some('r'),
            '\t' => Some('t'),
            '\u{8}' => Some('b'),
            '\u{c}' => Some('f'),
            _ => None,
        };
        match (short, letter) {
            (Some(short), _) => json.extend(['\\', short]),
            (None, '\0'..='\u{1f}' | '<' | '>' | '&' | '\u{2028}' | '\u{2029}') => {
                // Writing to a string cannot fail.
                let _ = write!(json, "\\u{:04x}", u32::from(letter));
            }
            _ => json.push(letter),
        }
    }
    json.push('"');
}

//! The path of a key as findings show it.

use std::fmt::Write as _;

use crate::secret::REDACTED;

/// How much of a key a finding shows; longer than any legal key.
const MAX_SHOWN_KEY_CHARS: usize = 300;

/// Appends a key to a dotted path, as TOML writes it: bare where it can be, quoted and escaped
/// where not.
pub(crate) fn join(path: &str, key: &str) -> String {
    let mut joined = path.to_owned();
    if !joined.is_empty() {
        joined.push('.');
    }
    let is_bare = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if !key.is_empty() && key.len() <= MAX_SHOWN_KEY_CHARS && key.bytes().all(is_bare) {
        joined.push_str(key);
    } else {
        joined.push_str(&quoted(key));
    }
    joined
}

/// A key in quotes: without control characters, no longer than a key should be, and without the
/// password of `user:password@host`, which people paste.
fn quoted(key: &str) -> String {
    let (secret, rest) = key.rfind('@').map_or(("", key), |at| (REDACTED, &key[at..]));
    let mut shown = format!("\"{secret}");
    for character in rest.chars().take(MAX_SHOWN_KEY_CHARS) {
        match character {
            '"' | '\\' => shown.extend(['\\', character]),
            ' '..='~' => shown.push(character),
            // Controls must not reach a terminal or a log, nor the marks that turn the direction of
            // text.
            _ => push_escaped(character, &mut shown),
        }
    }
    if rest.chars().nth(MAX_SHOWN_KEY_CHARS).is_some() {
        shown.push_str("...");
    }
    shown.push('"');
    shown
}

/// Writes a character as TOML's escape sequence.
fn push_escaped(character: char, shown: &mut String) {
    let code = u32::from(character);
    let (kind, digits) = if code > 0xffff { ('U', 8) } else { ('u', 4) };
    // Writing to a string does not fail.
    let _ = write!(shown, "\\{kind}{code:0digits$X}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_is_shown_as_toml_writes_it() {
        let long = "a".repeat(MAX_SHOWN_KEY_CHARS + 1);
        let cut = format!("x.\"{}...\"", "a".repeat(MAX_SHOWN_KEY_CHARS));
        for (path, key, shown) in [
            ("", "plain-http_1", "plain-http_1"),
            ("registries", "registry.corp", "registries.\"registry.corp\""),
            ("x", "", "x.\"\""),
            ("x", "a\"b\\c", "x.\"a\\\"b\\\\c\""),
            ("x", "a\u{1b}[31m\n", "x.\"a\\u001B[31m\\u000A\""),
            ("x", "robot:hunter2@registry.corp", "x.\"[redacted]@registry.corp\""),
            ("x", "\u{202e}\u{1f600}", "x.\"\\u202E\\U0001F600\""),
            ("x", &long, &cut),
        ] {
            assert_eq!(join(path, key), shown);
        }
    }
}

//! Keys of other people's files as messages show them.

/// How much of a key is shown; longer than any registry's name.
const MAX_SHOWN_CHARS: usize = 300;

/// A key without what may be a password before an `@`, without control characters, and not
/// endlessly long.
pub fn printable(key: &str) -> String {
    let shown = key.rsplit_once('@').map_or(key, |(_, host)| host);
    let mut text = String::new();
    if shown.len() < key.len() {
        text.push_str("[redacted]@");
    }
    for character in shown.chars().take(MAX_SHOWN_CHARS) {
        // Directional marks would turn a terminal's line around.
        let is_safe = !character.is_control()
            && !matches!(character, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if is_safe {
            text.push(character);
        } else {
            text.extend(character.escape_default());
        }
    }
    if shown.chars().nth(MAX_SHOWN_CHARS).is_some() {
        text.push_str("...");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neither_passwords_nor_terminals_are_harmed() {
        for (key, shown) in [
            ("https://ghcr.io/v1/", "https://ghcr.io/v1/"),
            ("https://u:hunter2@ghcr.io", "[redacted]@ghcr.io"),
            ("u:hunter@2/x@ghcr.io", "[redacted]@ghcr.io"),
            ("a\nb\u{1b}[2J\u{202e}", "a\\nb\\u{1b}[2J\\u{202e}"),
        ] {
            assert_eq!(printable(key), shown);
        }
        assert_eq!(printable(&"x".repeat(301)).len(), 303);
    }
}

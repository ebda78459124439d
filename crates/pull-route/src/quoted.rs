//! A peer's own words in an error.

use foreign_text::shown;

/// How much of a peer's own words an error repeats: it ends up in a pod's events, which hold about
/// a kilobyte.
const MAX_QUOTED_CHARS: usize = 200;

/// What a peer may have chosen, on one line and not longer than anyone reads.
pub fn quoted(text: &str) -> String {
    shown(text).up_to(MAX_QUOTED_CHARS).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peers_words_are_cut() {
        let fits = "é".repeat(MAX_QUOTED_CHARS);
        assert_eq!(quoted(&fits), fits);
        assert_eq!(quoted(&format!("{fits}é")), format!("{fits}…"));
        assert_eq!(quoted("a\n\u{202e}b"), "a\\n\\u{202e}b");
    }
}

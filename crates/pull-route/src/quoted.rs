//! A peer's own words in an error.

/// How much of a peer's own words an error repeats: it ends up in a pod's events, which hold about
/// a kilobyte.
const MAX_QUOTED_CHARS: usize = 200;

/// What a peer may have chosen, on one line and not longer than anyone reads.
pub fn quoted(text: &str) -> String {
    let visible = |char: char| if char.is_control() { '?' } else { char };
    let mut quoted: String = text.chars().take(MAX_QUOTED_CHARS).map(visible).collect();
    if text.chars().nth(MAX_QUOTED_CHARS).is_some() {
        quoted.push('…');
    }
    quoted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peers_words_are_cut() {
        let fits = "é".repeat(MAX_QUOTED_CHARS);
        assert_eq!(quoted(&fits), fits);
        assert_eq!(quoted(&format!("{fits}é")), format!("{fits}…"));
        assert_eq!(quoted("a\nb"), "a?b");
    }
}

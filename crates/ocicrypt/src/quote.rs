//! Foreign names in messages.

/// How much of a foreign name a message shows.
const MAX_SHOWN_CHARS: usize = 80;

/// A foreign name for a message: quoted, without control characters, not long.
pub(crate) fn quote(name: &str) -> String {
    let mut quoted: String = name.chars().take(MAX_SHOWN_CHARS).collect();
    if quoted.len() < name.len() {
        quoted.push('…');
    }
    format!("{quoted:?}")
}

//! The lines of a unit: sections, comments, continued lines.

use zeroize::Zeroizing;

/// What systemd takes for white space in lines and words.
pub(super) const WHITESPACE: [char; 4] = [' ', '\t', '\n', '\r'];

/// Calls `take` with key and value of each assignment in a section, in order. What is none is
/// skipped, as systemd does.
pub(super) fn assignments(text: &str, section: &str, take: &mut dyn FnMut(&str, &str)) {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let mut is_inside = false;
    let mut line = |line: &str| {
        let line = line.trim_matches(WHITESPACE);
        if let Some(rest) = line.strip_prefix('[') {
            is_inside = rest.strip_suffix(']') == Some(section);
        } else if let (true, Some((key, value))) = (is_inside, line.split_once('=')) {
            take(key.trim_matches(WHITESPACE), value.trim_matches(WHITESPACE));
        }
    };
    // Large enough from the start: a string that grows leaves copies of its secrets behind.
    let mut continued = Zeroizing::new(String::with_capacity(text.len()));
    for part in text.split(['\n', '\r', '\0']) {
        if part.trim_start_matches(WHITESPACE).starts_with(['#', ';']) {
            continue;
        }
        continued.push_str(part);
        if ends_escaped(&continued) {
            continued.pop();
            continued.push(' ');
        } else {
            line(&continued);
            continued.clear();
        }
    }
    line(&continued);
}

/// Whether the last character is a backslash that no other one escapes.
fn ends_escaped(text: &str) -> bool {
    let backslashes = text.bytes().rev().take_while(|byte| *byte == b'\\');
    backslashes.count() % 2 == 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_systemd_reads_them() {
        let text = "\u{feff}Outside = 1\n[Service]\n# A=1\n ; B=1\n C = 1 = 2 \nD=a\\\n# no\n  b\\\\\n\
            no assignment\n[Other]\nE=1\n[Service]\n=x\nF=end\\";
        let mut found = Vec::new();
        assignments(text, "Service", &mut |key, value| {
            found.push(format!("{key}|{value}"));
        });
        assert_eq!(found, ["C|1 = 2", "D|a   b\\\\", "|x", "F|end"]);
    }
}

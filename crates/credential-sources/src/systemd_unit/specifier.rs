//! Specifiers: what a percent sign and a letter stand for.

use zeroize::Zeroizing;

use super::UnitName;

/// The text with its specifiers resolved; `None` where only systemd can, or where there is no such
/// one, and systemd ignores the whole text.
pub(super) fn resolved(text: &str, unit: &UnitName) -> Option<Zeroizing<String>> {
    let longest = unit.full().len();
    let percents = text.bytes().filter(|byte| *byte == b'%').count();
    // Large enough from the start: a string that grows leaves copies of its secrets behind.
    let capacity = text.len() + percents * longest;
    let mut resolved = Zeroizing::new(String::with_capacity(capacity));
    let mut rest = text.chars();
    while let Some(next) = rest.next() {
        if next != '%' {
            resolved.push(next);
            continue;
        }
        match rest.next() {
            Some('%') | None => resolved.push('%'),
            Some('n') => resolved.push_str(unit.full()),
            Some('N') => resolved.push_str(unit.stem()),
            Some('p' | 'P') => resolved.push_str(unit.stem()),
            Some(letter) if letter.is_ascii_alphanumeric() => return None,
            Some(other) => resolved.extend(['%', other]),
        }
    }
    Some(resolved)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percent_sign_is_written_twice() {
        let unit = UnitName::parse("k3s.service").unwrap();
        for (text, expected) in [
            ("p%%40ss", Some("p%40ss")),
            ("/etc/%N.env", Some("/etc/k3s.env")),
            ("%n %p", Some("k3s.service k3s")),
            ("%- %", Some("%- %")),
            ("%H", None),
            // A password whose percent sign is written once.
            ("p%40ss", None),
        ] {
            let found = resolved(text, &unit);
            assert_eq!(found.as_ref().map(|text| text.as_str()), expected, "{text}");
        }
    }
}

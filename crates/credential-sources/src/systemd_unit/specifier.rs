//! Specifiers: what a percent sign and a letter stand for.

use zeroize::Zeroizing;

use super::UnitName;

/// Letters that stand for something that only the running manager knows, and those of instances.
const MANAGERS: &str = "aAbBcCdDEfgGhHIiJjlLmMoqrRsStTuUvVwWyY";

/// The text with its specifiers resolved; `None` where only systemd can. An unknown letter stays as
/// it is, as in systemd.
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
            Some(letter) if MANAGERS.contains(letter) => return None,
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
            ("%4 %", Some("%4 %")),
            ("%H", None),
        ] {
            let found = resolved(text, &unit);
            assert_eq!(found.as_ref().map(|text| text.as_str()), expected, "{text}");
        }
    }
}

//! A document whose values are replaced by numbers while it is edited, so that the editor never
//! holds a secret.
//!
//! The editor keeps several copies of every text and zeroes none.

use std::collections::BTreeSet;
use std::ops::Range;

use foreign_text::toml::wipe;
use toml::de::{DeArray, DeTable, DeValue};
use zeroize::Zeroizing;

/// How every stand-in begins, before the number that makes it unique in its text.
const WORD: &str = "masked-";

/// The values that stand-ins stand for. No `Debug`, since they hold secrets.
pub(crate) struct Mask {
    /// `masked-K-`, which is nowhere in the text or the names.
    marker: String,
    /// Each value in TOML's spelling, by the number that follows the marker.
    values: Vec<Zeroizing<String>>,
}

impl Mask {
    /// Masks every string of a valid document except `ca-certs`, which are no secret and may be
    /// long. `names` are texts that will be added unmasked. `None` if the text is no TOML.
    pub(crate) fn of<'n>(
        text: &'n str,
        names: impl Iterator<Item = &'n str>,
    ) -> Option<(Self, String)> {
        let mut root = DeTable::parse(text).ok()?.into_inner();
        let mut spans = Vec::new();
        take_spans(&root, &mut spans);
        wipe(&mut root);
        spans.sort_by_key(|span| span.start);
        let mut mask =
            Self { marker: marker(names.chain([text])), values: Vec::with_capacity(spans.len()) };
        let mut masked = String::with_capacity(text.len());
        let mut end = 0;
        for span in spans {
            masked.push_str(text.get(end..span.start)?);
            masked.push_str(&mask.hide(Zeroizing::new(text.get(span.clone())?.to_owned())));
            end = span.end;
        }
        masked.push_str(text.get(end..)?);
        Some((mask, masked))
    }

    /// Keeps a value in TOML's spelling and returns its stand-in, in TOML's spelling too.
    pub(crate) fn hide(&mut self, value: Zeroizing<String>) -> String {
        self.values.push(value);
        format!("\"{}{}\"", self.marker, self.values.len() - 1)
    }

    /// The text with every stand-in replaced by its value.
    pub(crate) fn reveal(&self, masked: &str) -> Zeroizing<String> {
        let mut text = Zeroizing::new(String::with_capacity(self.revealed_bytes(masked)));
        for (before, value) in self.parts(masked) {
            text.push_str(before);
            text.push_str(value);
        }
        text
    }

    /// How long the text is with its values.
    pub(crate) fn revealed_bytes(&self, masked: &str) -> usize {
        self.parts(masked).map(|(before, value)| before.len() + value.len()).sum()
    }

    /// The text as pairs of what needs no replacement and the value that follows it, the last of
    /// them empty.
    fn parts<'t>(&'t self, masked: &'t str) -> impl Iterator<Item = (&'t str, &'t str)> {
        let opening = format!("\"{}", self.marker);
        let mut rest = Some(masked);
        std::iter::from_fn(move || {
            let text = rest.take()?;
            let found = text.find(&opening).and_then(|start| {
                let after = text.get(start + opening.len()..)?;
                let (number, after) = after.split_once('"')?;
                let value = self.values.get(number.parse::<usize>().ok()?)?;
                Some((text.get(..start)?, value.as_str(), after))
            });
            match found {
                Some((before, value, after)) => {
                    rest = Some(after);
                    Some((before, value))
                }
                None => Some((text, "")),
            }
        })
    }
}

/// A marker that none of the texts contains, found in one pass: each of its occurrences rules out
/// one number.
fn marker<'t>(texts: impl Iterator<Item = &'t str>) -> String {
    let mut taken = BTreeSet::new();
    for text in texts {
        for (start, _) in text.match_indices(WORD) {
            let digits = text[start + WORD.len()..].bytes().take_while(u8::is_ascii_digit);
            // Numbers longer than these are never reached.
            let number = digits
                .take(9)
                .fold(0_usize, |number, digit| number * 10 + usize::from(digit - b'0'));
            taken.insert(number);
        }
    }
    let free = (0..).zip(&taken).find(|(free, taken)| free != *taken);
    let number = free.map_or(taken.len(), |(free, _)| free);
    format!("{WORD}{number}-")
}

/// Collects where the strings are. The parser bounds the nesting, and so this recursion.
fn take_spans(table: &DeTable<'_>, spans: &mut Vec<Range<usize>>) {
    for (key, value) in table {
        match value.get_ref() {
            DeValue::String(_) if key.get_ref() == "ca-certs" => {}
            DeValue::String(_) => spans.push(value.span()),
            DeValue::Table(table) => take_spans(table, spans),
            DeValue::Array(items) => take_item_spans(items, spans),
            _ => {}
        }
    }
}

fn take_item_spans(items: &DeArray<'_>, spans: &mut Vec<Range<usize>>) {
    for item in items {
        match item.get_ref() {
            DeValue::String(_) => spans.push(item.span()),
            DeValue::Table(table) => take_spans(table, spans),
            DeValue::Array(items) => take_item_spans(items, spans),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

    use super::*;

    const TEXT: &str = "# \"masked-0-0\"\r\n[extra-env]\nHTTP_PROXY = 'http://u:hunter2@p' # c\n\
        [registries.'masked-1-']\npassword = \"\"\"\nhunter\\u0032\"\"\"\n\
        [registries.x]\nca-certs = '''public'''\nplain-http = true\nauth=\"hunter2\"\n\
        [decryption-keys]\nkeys = ['hunter2', # c\n \"hunter\\u0032\" ,]\n\
        [[registries.x.also]]\nauth = 'hunter2'\n[registries.y]\nalso = [{auth = 'hunter2'}]";

    #[test]
    fn no_secret_is_left_and_all_come_back() {
        let (mask, masked) = Mask::of(TEXT, ["masked-2-x"].into_iter()).unwrap();
        assert_eq!(mask.marker, "masked-3-");
        assert!(!masked.contains("hunter"), "{masked}");
        assert!(masked.contains("'''public'''"));
        assert_eq!(mask.values.len(), 7);
        assert_eq!(mask.reveal(&masked).as_str(), TEXT);
        assert_eq!(mask.revealed_bytes(&masked), TEXT.len());
    }

    #[test]
    fn a_value_that_looks_like_a_stand_in_is_left_alone() {
        let (mut mask, _) = Mask::of("a = \"masked-0-0\"", [].into_iter()).unwrap();
        let first = mask.hide(Zeroizing::new("\"masked-1-0\"".to_owned()));
        assert_eq!(first, "\"masked-1-1\"");
        assert_eq!(
            mask.reveal(&format!("{first} {first}x \"masked-1-9\"")).as_str(),
            "\"masked-1-0\" \"masked-1-0\"x \"masked-1-9\""
        );
    }
}

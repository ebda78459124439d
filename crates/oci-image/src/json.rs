//! JSON read so that every reader reads the same: what two parsers could take differently is
//! refused before it means anything.
//!
//! Other programs decide about the same bytes: scanners, signers, policy tools, most of them in Go,
//! whose parser takes the last of two equal names and ignores their case.

use foreign_text::json::{self, Duplicates, Limits, Object, Value, is_same_but_for_case};
use foreign_text::shown;
use serde::Deserialize;

/// How many values a document may have. The largest real ones have some thousand; what is read has
/// to fit memory many times over.
const MAX_VALUES: usize = 100_000;

/// The names that mean something in a kind of document.
#[derive(Debug)]
pub(crate) struct Names {
    /// Every name that is looked at; one that differs from it in case only is refused.
    pub known: &'static [&'static str],
    /// The names whose values have names of this kind again. Elsewhere (annotations, labels) any
    /// name is free.
    pub nested: &'static [&'static str],
}

/// Reads a document. The caller bounds the text.
///
/// # Errors
///
/// Words that fit after "cannot be read: ". They leave the guest, so they have neither a place,
/// which may be the end of what came, nor a value of it.
pub(crate) fn read<'a, T: Deserialize<'a>>(text: &'a [u8], names: &Names) -> Result<T, String> {
    let limits = Limits { bytes: text.len(), values: MAX_VALUES, depth: json::MAX_DEPTH };
    let document = json::read(text, limits, Duplicates::Refused);
    check(&document.map_err(|error| error.rule.to_string())?, names)?;
    serde_json::from_slice(text).map_err(|error| {
        let error = error.to_string();
        let words = error.rsplit_once(" at line ").map_or(&*error, |(words, _)| words);
        match words.rsplit_once(", expected ") {
            Some((_, wanted)) => shown(&format!("expected {wanted}")).to_string(),
            None => shown(words).to_string(),
        }
    })
}

fn check(value: &Value<'_>, names: &Names) -> Result<(), String> {
    let mut items = value.array().unwrap_or_default().iter();
    items.try_for_each(|item| check(item, names))?;
    let mut members = value.object().into_iter().flat_map(Object::members);
    members.try_for_each(|(name, value)| {
        check_name(name, names)?;
        if names.nested.contains(&name) {
            check(value, names)?;
        }
        Ok(())
    })
}

fn check_name(name: &str, names: &Names) -> Result<(), String> {
    let mut known = names.known.iter();
    match known.find(|known| is_same_but_for_case(known, name)) {
        Some(known) if *known != name => Err(format!(
            "{} differs from {known:?} in case only, and others would read it as that",
            shown(name).quoted()
        )),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde::de::IgnoredAny;

    const NAMES: Names =
        Names { known: &["layers", "size", "mediaType", "kind"], nested: &["layers"] };

    fn error(text: &str) -> Option<String> {
        read::<IgnoredAny>(text.as_bytes(), &NAMES).err()
    }

    #[test]
    fn what_every_parser_reads_alike_is_read() {
        for text in [
            r#"{"layers":[{"size":1},{"size":2,"annotations":{"Size":"a","size":"b"}}]}"#,
            r#"{"labels":{"LAYERS":1,"Layers":2,"layers":3},"other":{"Kind":1}}"#,
            r#" [1,{"a":1},{"a":1},null,true,-1,1.5,1e3] "#,
            r#"{"layers":{"x":{"Size":1}}}"#,
        ] {
            assert_eq!(error(text), None, "{text}");
        }
    }

    #[test]
    fn what_parsers_read_differently_is_refused() {
        for (text, why) in [
            (r#"{"x":{"y":[{"z":1,"z":2}]}}"#, "\"z\" is there twice"),
            (r#"{"layers":1,"layers":2}"#, "\"layers\" is there twice"),
            (r#"{"Layers":1}"#, "in case only"),
            (r#"{"layer\u017f":1}"#, "in case only"),
            (r#"{"\u212aind":1}"#, "in case only"),
            (r#"{"mediatype":1}"#, "in case only"),
            (r#"{"layers":[{"SIZE":1}]}"#, "in case only"),
            (r#"[{"SIZE":1}]"#, "in case only"),
            (r#"{"x":1}{"x":1}"#, "behind the value"),
            ("", "it ends where a value is expected"),
        ] {
            let error = error(text).unwrap();
            assert!(error.contains(why), "{text}: {error}");
            assert!(!error.contains("column"), "{error}");
        }
    }

    #[test]
    fn the_number_of_values_is_bounded() {
        let list = |count: usize| format!("[{}0]", "0,".repeat(count - 1));
        assert_eq!(error(&list(MAX_VALUES - 1)), None);
        let error = error(&list(MAX_VALUES)).unwrap();
        assert!(error.contains("more than 100000 values"), "{error}");
    }

    #[test]
    fn messages_are_short_and_tell_nothing_of_what_came() {
        #[derive(Debug, serde::Deserialize)]
        struct Sized {
            #[serde(rename = "size")]
            _size: u64,
        }
        let text = format!(r#"{{"size":"{}"}}"#, "x".repeat(1 << 20));
        let error = read::<Sized>(text.as_bytes(), &NAMES).unwrap_err();
        assert_eq!(error, "expected u64");
    }
}

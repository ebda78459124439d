//! JSON read so that every reader reads the same: what two parsers could take differently is
//! refused before it means anything.
//!
//! Other programs decide about the same bytes: scanners, signers, policy tools, most of them in Go,
//! whose parser takes the last of two equal names and does not mind their case. serde_json is as
//! strict as RFC 8259 about the rest: no bytes after the value, no invalid UTF-8, at most 128
//! levels.

use std::collections::HashSet;
use std::fmt;

use serde::Deserialize;
use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};

/// How many values a document may have. The largest real ones have some thousand; what is read has
/// to fit memory many times over.
const MAX_VALUES: usize = 100_000;

/// How much of a foreign text a message shows.
const MAX_SHOWN_CHARS: usize = 100;

/// The names that mean something in a kind of document.
#[derive(Debug)]
pub(crate) struct Names {
    /// Every name that is looked at; one that differs from it in case only is refused.
    pub known: &'static [&'static str],
    /// The names whose values have names of this kind again. Elsewhere (annotations, labels) any
    /// name is free.
    pub nested: &'static [&'static str],
}

/// Reads a document.
///
/// # Errors
///
/// Words that fit after "cannot be read: ".
pub(crate) fn read<'a, T: Deserialize<'a>>(text: &'a [u8], names: &Names) -> Result<T, String> {
    let shown = |error: serde_json::Error| shorten(&error.to_string());
    let mut deserializer = serde_json::Deserializer::from_slice(text);
    let mut values = 0;
    let check = Check {
        names: Some(names),
        values: &mut values,
    };
    check.deserialize(&mut deserializer).map_err(shown)?;
    deserializer.end().map_err(shown)?;
    serde_json::from_slice(text).map_err(shown)
}

/// A foreign text for a message: quoted, without control characters, not long.
pub(crate) fn quote(text: &str) -> String {
    let mut quoted: String = text.chars().take(MAX_SHOWN_CHARS).collect();
    if quoted.len() < text.len() {
        quoted.push('…');
    }
    format!("{quoted:?}")
}

fn shorten(text: &str) -> String {
    let mut short: String = text.chars().take(2 * MAX_SHOWN_CHARS).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}

/// Goes through a value and keeps nothing of it.
struct Check<'a> {
    names: Option<&'a Names>,
    values: &'a mut usize,
}

impl Check<'_> {
    fn check_name<E: de::Error>(&self, name: &str) -> Result<(), E> {
        let Some(names) = self.names else {
            return Ok(());
        };
        if names.known.contains(&name) {
            return Ok(());
        }
        let folded = fold(name);
        match names.known.iter().find(|known| fold(known) == folded) {
            Some(known) => Err(E::custom(format_args!(
                "{} differs from {known:?} in case only, and others would read it as that",
                quote(name)
            ))),
            None => Ok(()),
        }
    }

    fn below(&mut self, name: &str) -> Check<'_> {
        Check {
            names: self.names.filter(|names| names.nested.contains(&name)),
            values: self.values,
        }
    }
}

/// The letters that Go takes for the same: ASCII in either case, and the two others whose lower or
/// upper case is an ASCII letter.
fn fold(name: &str) -> String {
    let fold = |letter: char| match letter {
        '\u{17f}' => 's',
        '\u{212a}' => 'k',
        letter => letter.to_ascii_lowercase(),
    };
    name.chars().map(fold).collect()
}

impl<'de> DeserializeSeed<'de> for Check<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        *self.values += 1;
        if *self.values > MAX_VALUES {
            return Err(de::Error::custom(format_args!(
                "it has more than {MAX_VALUES} values"
            )));
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Check<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        let mut seen = HashSet::new();
        while let Some(name) = map.next_key::<String>()? {
            self.check_name(&name)?;
            map.next_value_seed(self.below(&name))?;
            if let Some(name) = seen.replace(name) {
                return Err(de::Error::custom(format_args!(
                    "duplicate field {}",
                    quote(&name)
                )));
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<(), A::Error> {
        loop {
            let element = Check {
                names: self.names,
                values: &mut *self.values,
            };
            if sequence.next_element_seed(element)?.is_none() {
                return Ok(());
            }
        }
    }

    fn visit_str<E>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NAMES: Names = Names {
        known: &["layers", "size", "mediaType", "kind"],
        nested: &["layers"],
    };

    fn check(text: &str) -> Result<(), String> {
        read::<de::IgnoredAny>(text.as_bytes(), &NAMES).map(|_| ())
    }

    #[test]
    fn what_every_parser_reads_alike_is_read() {
        for text in [
            r#"{"layers":[{"size":1},{"size":2,"annotations":{"Size":"a","size":"b"}}],"x":[null,true,-1,1.5,1e3]}"#,
            r#"{"labels":{"LAYERS":1,"Layers":2,"layers":3},"other":{"Kind":1}}"#,
            r#" [1,{"a":1},{"a":1}] "#,
            r#"{"layers":{"x":{"Size":1}}}"#,
        ] {
            assert_eq!(check(text), Ok(()), "{text}");
        }
    }

    #[test]
    fn what_parsers_read_differently_is_refused() {
        let deep = format!("{}{}", "[".repeat(200), "]".repeat(200));
        for (text, why) in [
            (r#"{"layers":1,"layers":2}"#, "duplicate field \"layers\""),
            (r#"{"x":1,"x":1}"#, "duplicate field \"x\""),
            (r#"{"x":1,"\u0078":1}"#, "duplicate field \"x\""),
            (r#"{"x":{"y":[{"z":1,"z":2}]}}"#, "duplicate field \"z\""),
            (r#"{"Layers":1}"#, "in case only"),
            (r#"{"layer\u017f":1}"#, "in case only"),
            (r#"{"\u212aind":1}"#, "in case only"),
            (r#"{"mediatype":1}"#, "in case only"),
            (r#"{"layers":[{"SIZE":1}]}"#, "in case only"),
            (r#"[{"SIZE":1}]"#, "in case only"),
            (r#"{"x":1}{"x":1}"#, "trailing"),
            (r#"{"x":1} x"#, "trailing"),
            (r#"{"x":1,}"#, "trailing comma"),
            (r#"{"x":"\ud800"}"#, "hex escape"),
            (r#"{"x":01}"#, "invalid number"),
            (r#"{"x":NaN}"#, "expected value"),
            ("\u{feff}{}", "expected value"),
            ("", "EOF"),
            (deep.as_str(), "recursion limit"),
        ] {
            let error = check(text).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
        assert!(read::<de::IgnoredAny>(b"{\"x\":\"\xff\"}", &NAMES).is_err());
        assert!(read::<de::IgnoredAny>(b"{\"\xff\":1}", &NAMES).is_err());
    }

    #[test]
    fn the_number_of_values_is_bounded() {
        let list = |count: usize| format!("[{}0]", "0,".repeat(count - 1));
        assert_eq!(check(&list(MAX_VALUES - 1)), Ok(()));
        let error = check(&list(MAX_VALUES)).unwrap_err();
        assert!(error.contains("more than 100000 values"), "{error}");
    }

    #[test]
    fn messages_show_little_and_nothing_that_moves_a_cursor() {
        let name = format!("\u{1b}[31m{}", "é".repeat(4096));
        let error = check(&format!("{{{:?}:1,{:?}:2}}", "a", "a")).unwrap_err();
        assert!(error.contains("duplicate"));
        assert!(quote(&name).len() < 300 && !quote(&name).contains('\u{1b}'));
        let text = format!(r#"{{"size":"{}"}}"#, "x".repeat(1 << 20));
        #[derive(Debug, serde::Deserialize)]
        struct Sized {
            #[serde(rename = "size")]
            _size: u64,
        }
        let error = read::<Sized>(text.as_bytes(), &NAMES).unwrap_err();
        assert!(error.len() < 1000, "{} bytes", error.len());
    }
}

//! JSON, as the commands print it.

use std::fmt::Write as _;
use std::io::{self, Write};

use foreign_text::shown;
use serde::Serialize;

use super::CommandError;

/// Prints `value` as indented JSON and a line end.
pub(super) fn print(out: &mut impl Write, value: &impl Serialize) -> Result<(), CommandError> {
    let text = serde_json::to_string_pretty(value).map_err(io::Error::from)?;
    Ok(writeln!(out, "{}", visible(&text))?)
}

/// Prints `value` as JSON on one line.
pub(super) fn print_line(out: &mut impl Write, value: &impl Serialize) -> Result<(), CommandError> {
    let text = serde_json::to_string(value).map_err(io::Error::from)?;
    Ok(writeln!(out, "{}", visible(&text))?)
}

/// The same JSON in which what is not visible, or changes what stands beside it, is `\uXXXX`: a
/// terminal may show it, and the JSON of foreign words has controls that JSON itself allows.
fn visible(json: &str) -> String {
    let mut text = String::with_capacity(json.len());
    for character in json.chars() {
        let mut buffer = [0; 4];
        let one: &str = character.encode_utf8(&mut buffer);
        // Outside of strings JSON has visible ASCII and white space only.
        if character.is_ascii() && character != '\u{7f}' || shown(one).to_string() == one {
            text.push(character);
            continue;
        }
        for unit in character.encode_utf16(&mut [0; 2]) {
            let _ = write!(text, "\\u{unit:04x}");
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_control_is_written_as_an_escape_and_means_the_same() {
        let value = serde_json::json!({"a\u{202e}": "\u{9b}31m \u{7f} ü 語 \u{e0001} \u{1b} \"\\"});
        let mut printed = Vec::new();
        print_line(&mut printed, &value).unwrap();
        let printed = String::from_utf8(printed).unwrap();
        assert_eq!(
            printed,
            "{\"a\\u202e\":\"\\u009b31m \\u007f ü 語 \\udb40\\udc01 \\u001b \\\"\\\\\"}\n"
        );
        assert_eq!(serde_json::from_str::<serde_json::Value>(&printed).unwrap(), value);
    }
}

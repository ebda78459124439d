//! What a client of QEMU's monitor asks, as far as refusing it needs.

use foreign_text::json::{Duplicates, Kind, Limits, read_object};
use serde_json::Value;

/// The most bytes that a client may send in all; the commands of Kata's runtimes have some forty.
pub const MAX_ASKED_BYTES: usize = 4096;

const LIMITS: Limits = Limits { bytes: MAX_ASKED_BYTES, values: 64, depth: 8 };

/// A command of QEMU's monitor protocol.
#[derive(Debug)]
pub struct Command {
    /// The command's `id` as JSON, if it is a text or a number. QEMU's answer repeats it.
    id: Option<String>,
    /// It is the one that every client begins with.
    pub is_first: bool,
}

impl Command {
    /// Reads a line of the protocol; `None` for what QEMU would not understand either.
    #[must_use]
    pub fn parse(line: &[u8]) -> Option<Self> {
        let command = read_object(line, LIMITS, Duplicates::Refused).ok()?;
        let is_first = command.last("execute")?.text()? == "qmp_capabilities";
        let id = match &command.last("id").map(|id| &id.kind) {
            Some(Kind::Number(number)) => Some(number.to_string()),
            Some(Kind::Text(text)) => Some(Value::from(&**text).to_string()),
            _ => None,
        };
        Some(Self { id, is_first })
    }

    /// The line that refuses the command with `text`.
    #[must_use]
    pub fn refused(&self, text: &str) -> String {
        let text = Value::from(text);
        let id = self.id.as_ref().map(|id| format!("\"id\":{id},"));
        format!(
            "{{{}\"error\":{{\"class\":\"GenericError\",\"desc\":{text}}}}}\r\n",
            id.unwrap_or_default()
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_refused_with_their_id() {
        let cases = [
            (r#"{"execute":"qmp_capabilities"}"#, true, ""),
            ("{\"execute\": \"qmp_capabilities\",\"id\":7}\r\n", true, r#""id":7,"#),
            (r#"{"id":"a\"b","execute":"stop"}"#, false, r#""id":"a\"b","#),
            (r#"{"execute":"qmp_capabilities","id":[1]}"#, true, ""),
        ];
        for (line, is_first, id) in cases {
            let command = Command::parse(line.as_bytes()).unwrap();
            assert_eq!(command.is_first, is_first, "{line}");
            let error = r#""error":{"class":"GenericError","desc":"a \"\\u{202e}\" b"}"#;
            let expected = format!("{{{id}{error}}}\r\n");
            assert_eq!(command.refused(r#"a "\u{202e}" b"#), expected, "{line}");
        }
        let long = format!(r#"{{"execute":"{}"}}"#, "x".repeat(MAX_ASKED_BYTES));
        for line in ["", "{}", "hello", "[1]", r#"{"execute":1}"#, "\u{feff}", &long] {
            assert!(Command::parse(line.as_bytes()).is_none(), "{line}");
        }
    }
}

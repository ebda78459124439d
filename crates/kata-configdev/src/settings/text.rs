//! The text of one settings file.

use std::collections::BTreeMap;
use std::ops::Range;

use foreign_text::position::line_of;
use foreign_text::{corrected, one_line};
use serde::Deserialize;
use serde::de::IntoDeserializer;
use toml::de::{DeTable, DeValue, Deserializer};
use toml::{Table, Value};

use super::Settings;
use super::value::BEHIND_KEY;

/// The values of one file by their keys, such as `qemu.q35`, with the line of each.
pub type Layer = BTreeMap<String, (usize, Value)>;

/// A value that is no table, with its key and its place in the text.
pub type Entry = (String, Range<usize>, Value);

/// Parses the text of a settings file. The error is a line and the rule that is broken there.
pub fn parse(text: &[u8]) -> Result<Layer, (usize, String)> {
    let utf8 = str::from_utf8(text)
        .map_err(|error| (line_of(text, error.valid_up_to()), "not UTF-8".into()))?;
    let broken = |error: &toml::de::Error, entries: &[Entry]| {
        let span = error.span().unwrap_or_default();
        (line_of(text, span.start), said(error.message(), span, utf8, entries))
    };
    let table = DeTable::parse(utf8).map_err(|error| broken(&error, &[]))?;
    let entries = entries(table.get_ref());
    Settings::deserialize(Deserializer::from(table)).map_err(|error| broken(&error, &entries))?;
    let at_line = |(key, span, value): Entry| (key, (line_of(text, span.start), value));
    Ok(entries.into_iter().map(at_line).collect())
}

/// The values of a table. What no setting could be is left out.
pub fn entries(table: &DeTable<'_>) -> Vec<Entry> {
    let mut found = Vec::new();
    for (key, value) in table {
        let key = key.get_ref();
        if let DeValue::Table(table) = value.get_ref() {
            let below = entries(table).into_iter();
            found.extend(below.map(|(name, span, value)| (format!("{key}.{name}"), span, value)));
        } else if let Ok(parsed) = Value::deserialize(value.clone().into_deserializer()) {
            found.push((key.to_string(), value.span(), parsed));
        }
    }
    found
}

/// The settings with these values by their keys.
pub fn settings<'a>(
    values: impl IntoIterator<Item = (&'a String, &'a Value)>,
) -> Result<Settings, toml::de::Error> {
    let mut settings = Table::new();
    for (key, value) in values {
        let (table, name) = match key.split_once('.') {
            Some((table, name)) => {
                let table = settings.entry(table).or_insert_with(|| Table::new().into());
                (table.as_table_mut(), name)
            }
            None => (Some(&mut settings), key.as_str()),
        };
        table.map(|table| table.insert(name.into(), value.clone()));
    }
    settings.try_into()
}

/// The parser's words, with the key that was probably meant, that is there twice or whose rule is
/// broken.
fn said(message: &str, span: Range<usize>, text: &str, entries: &[Entry]) -> String {
    if message.starts_with(BEHIND_KEY) {
        let mut keys = entries.iter().filter(|(_, value, _)| value.contains(&span.start));
        return format!("{}{message}", keys.next().map_or("", |(key, ..)| key));
    }
    let said = corrected(message);
    match text.get(span) {
        Some("registries" | "extra-env" | "decryption-keys") => {
            "this is a registry config, which the settings name by `document`".to_owned()
        }
        Some("host" | "prefix" | "wrapper" | "sets") => {
            "this is a configuration of the installer, not the settings".to_owned()
        }
        Some(key) if said == "duplicate key" => format!("{said} {}", one_line(key)),
        _ => said.into_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The installer looks for settings that got into Kata's configuration by mistake.
    #[test]
    fn the_installer_knows_every_setting() {
        let (_, rule) = parse(b"x = 1\n").unwrap_err();
        let keys: Vec<&str> = rule.split('`').skip(3).step_by(2).collect();
        assert!(keys.contains(&"document"), "{rule}");
        for key in keys {
            assert!(node_installer::kata::is_wrapper_setting(key), "{key}");
        }
    }

    #[test]
    fn mistakes_are_refused_with_their_line() {
        let long = format!("\nmissing-document = {:?}\n", "x".repeat(1025));
        let cases: [(&[u8], usize, &str); 41] = [
            (b"\ndocumnet = \"/x\"\n", 2, "unknown field `documnet`; did you mean `document`?"),
            (b"[registries.\"r.corp\"]\n", 1, "this is a registry config, which"),
            (b"host = \"/\"\n", 1, "this is a configuration of the installer"),
            (b"annotation_allow = []\n", 1, "; did you mean `annotation-allow`?"),
            (b"# x\nqemu = 7\n", 2, "expected a path or a table of paths"),
            (b"qemu = [\"/a\"]\n", 1, "expected a path or a table of paths"),
            (b"qemu = \"/a\"\nqemu = \"/b\"\n", 2, "duplicate key qemu"),
            (b"qemu = \"/a\"\n[qemu]\nq35 = \"/b\"\n", 2, "duplicate key qemu"),
            (b"\nqemu = \"qemu-kvm\"\n", 2, "qemu: not an absolute path"),
            (b"[qemu]\n\nq35 = \"qemu\"\n", 3, "qemu.q35: not an absolute path"),
            (b"[qemu]\nq53 = \"/q\"\n", 2, "qemu: \"q53\" is none of default, q35, pc, virt"),
            (b"[qemu]\n\"pc-q35-7.2\" = \"/q\"\n", 2, "is none of default"),
            (b"[qemu]\nq35 = 7\n", 2, "invalid type: integer `7`"),
            (b"document = \"\"\n", 1, "document: not an absolute path"),
            (b"\n\ndocument = \"/x/**/y\"\n", 3, "document: "),
            (b"document = \"/x/[a\"\n", 1, "document: "),
            (
                b"document = \"/{namespace}/x.toml\"\n",
                1,
                "document: not a pattern: {namespace} can stand in its last part only",
            ),
            (
                b"document = \"/x/{namespace}-{namespace}\"\n",
                1,
                "{namespace} can stand there once only",
            ),
            (b"document = \"/x/../{namespace}\"\n", 1, "it must be absolute and without"),
            (b"document = \"/x?/{namespace}\"\n", 1, "it can have no"),
            (
                b"annotation-allow = [\n\"/{namespace}/x\"]\n",
                2,
                "annotation-allow: {namespace} can stand in its last part only",
            ),
            (b"engine = \"docker\"\n", 1, "unknown variant `docker`"),
            (b"\nnamespace-fallback = \"any\"\n", 2, "namespace-fallback: neither"),
            (b"namespace-fallback = \"/x/{namespace}\"\n", 1, "not the path of one document"),
            (b"namespace-fallback = \"/x/*.toml\"\n", 1, "not the path of one document"),
            (b"namespace-base = \"/x/*.toml\"\n", 1, "not the path of one document"),
            (b"namespace-fallback = \"/x/../y\"\n", 1, "namespace-fallback: a directory has"),
            (b"missing-document = ''\n", 1, "missing-document: empty"),
            (long.as_bytes(), 2, "longer than 1024 bytes"),
            (
                b"annotation-allow = [\n\"/a\",\n\"/a/../b\"]\n",
                3,
                "annotation-allow: a directory has",
            ),
            (b"without-spec = \"\"\n", 1, "unknown variant ``"),
            (b"transport = \"usb\"\n", 1, "unknown variant `usb`"),
            (b"transport = \"Memory\"\n", 1, "unknown variant"),
            (b"\nrefuse = \"loud\"\n", 2, "unknown variant `loud`"),
            (b"guest-pull = \"yes\"\n", 1, "expected a boolean"),
            (b"\ncapacity = \"64k\"\n", 2, "a capacity is a multiple of 512"),
            (b"capacity = 1000\n", 1, "a capacity is a multiple of 512"),
            (b"capacity = -512\n", 1, "a capacity is a multiple of 512"),
            (b"capacity = true\n", 1, "expected a number of bytes or a text"),
            (b"run-root = \"/run/../etc\"\n", 1, "run-root: a directory has"),
            (b"qemu = \"/a\"\n\xff\n", 2, "not UTF-8"),
        ];
        for (text, line, rule) in cases {
            let (found_line, found_rule) = parse(text).unwrap_err();
            let text = text.escape_ascii();
            assert_eq!(found_line, line, "{text}: {found_rule}");
            assert!(found_rule.contains(rule), "{text}: {found_rule}");
        }
    }
}

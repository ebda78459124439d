//! A registry config as text: whole, or as it may be shown to anyone.

use std::fmt::{self, Write as _};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rustls_pki_types::CertificateDer;
use serde::{Serialize, Serializer};
use zeroize::Zeroizing;

use crate::limits::MAX_DOCUMENT_BYTES;
use crate::slots::{self, Purpose, Table, Value};
use crate::{Document, Roots, Rule};

impl Document {
    /// Writes the config, secrets included, as [`Document::parse`] or [`Document::parse_measured`]
    /// reads it back. Names stand as they were written; comments, and keys without an effect, do
    /// not.
    ///
    /// # Errors
    ///
    /// [`Rule::DocumentTooLong`] where it has more than [`MAX_DOCUMENT_BYTES`].
    pub fn to_toml(&self) -> Result<Zeroizing<String>, Rule> {
        match self.written_bytes() {
            0..=MAX_DOCUMENT_BYTES => Ok(self.written()),
            _ => Err(Rule::DocumentTooLong),
        }
    }

    /// The text, however long.
    pub(crate) fn written(&self) -> Zeroizing<String> {
        let text = Zeroizing::new(String::with_capacity(self.written_bytes()));
        let mut out = Out { text: Some(text), length: 0 };
        // There is room for all of it.
        let _ = write_table("", &slots::of(self, Purpose::Write), &mut out);
        out.text.unwrap_or_default()
    }

    /// The length of [`Document::to_toml`] in bytes, without a limit.
    #[must_use]
    pub fn written_bytes(&self) -> usize {
        let mut out = Out::default();
        // Counting does not fail.
        let _ = write_table("", &slots::of(self, Purpose::Write), &mut out);
        out.length
    }

    /// The document as TOML text with every secret replaced by `[redacted]` and every certificate
    /// by its SHA-256 fingerprint. Meant for people: it is not a document that could be used.
    #[expect(
        clippy::expect_used,
        reason = "strings, booleans, arrays and string-keyed tables are always TOML"
    )]
    pub fn redacted(&self) -> String {
        toml::to_string(self).expect("a redacted document consists of what TOML can say")
    }
}

/// Serialises the redacted document, never the secrets.
impl Serialize for Document {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        slots::of(self, Purpose::Show).serialize(serializer)
    }
}

/// A text in a buffer that never grows, so that no copy of a secret is left behind; or its length.
#[derive(Default)]
struct Out {
    text: Option<Zeroizing<String>>,
    length: usize,
}

impl fmt::Write for Out {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        self.length += more.len();
        match &mut self.text {
            Some(text) if self.length > text.capacity() => return Err(fmt::Error),
            Some(text) => text.push_str(more),
            None => {}
        }
        Ok(())
    }
}

/// Writes the values of a table, then the tables in it.
fn write_table(path: &str, table: &Table<'_>, out: &mut Out) -> fmt::Result {
    let is_table = |value: &Value<'_>| matches!(value, Value::Table(_) | Value::Tables(_));
    for (key, value) in table.0.iter().filter(|(_, value)| !is_table(value)) {
        write_key(key, out)?;
        out.write_str(" = ")?;
        write_value(value, false, out)?;
        out.write_char('\n')?;
    }
    for (key, value) in &table.0 {
        let mut inner = path.to_owned();
        if !path.is_empty() {
            inner.push('.');
        }
        match value {
            Value::Table(table) => {
                write_key(key, &mut inner)?;
                // A table that has tables alone is there by their headers.
                if table.0.is_empty() || !table.0.iter().all(|(_, value)| is_table(value)) {
                    write_header(["[", &inner, "]"], out)?;
                }
                write_table(&inner, table, out)?;
            }
            Value::Tables(tables) => {
                write_key(key, &mut inner)?;
                for table in tables {
                    write_header(["[[", &inner, "]]"], out)?;
                    write_table(&inner, table, out)?;
                }
            }
            _ => {}
        }
    }
    Ok(())
}

fn write_header([open, path, close]: [&str; 3], out: &mut Out) -> fmt::Result {
    let gap = if out.length == 0 { "" } else { "\n" };
    writeln!(out, "{gap}{open}{path}{close}")
}

/// Writes a key bare where that is how people write it: a host's name stands in quotes.
fn write_key(key: &str, out: &mut impl fmt::Write) -> fmt::Result {
    let is_bare = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
    match !key.is_empty() && key.bytes().all(is_bare) {
        true => out.write_str(key),
        false => write_text(key, out),
    }
}

/// Writes a value, `inline` within another one on a line of its own.
fn write_value(value: &Value<'_>, inline: bool, out: &mut Out) -> fmt::Result {
    match value {
        Value::Flag(flag) => write!(out, "{flag}"),
        Value::Text(text) => write_text(text, out),
        Value::Secret(text) => write_text(text, out),
        Value::Encoded(text) => write_text(text, out),
        Value::Certificates([]) => write_text(Roots::NONE, out),
        Value::Certificates(all) => write_certificates(all, out),
        Value::List(values) => {
            let is_long = !inline && !values.is_empty();
            out.write_char('[')?;
            for (index, value) in values.iter().enumerate() {
                out.write_str(match (is_long, index) {
                    (true, _) => "\n  ",
                    (false, 0) => "",
                    (false, _) => ", ",
                })?;
                write_value(value, true, out)?;
                out.write_str(if is_long { "," } else { "" })?;
            }
            out.write_str(if is_long { "\n]" } else { "]" })
        }
        Value::Table(table) => {
            out.write_char('{')?;
            for (index, (key, value)) in table.0.iter().enumerate() {
                out.write_str(if index == 0 { "" } else { ", " })?;
                write_key(key, out)?;
                out.write_str(" = ")?;
                write_value(value, true, out)?;
            }
            out.write_char('}')
        }
        // `write_table` gives each its header.
        Value::Tables(_) => Ok(()),
    }
}

/// Writes a string, one of several lines as lines.
fn write_text(text: &str, out: &mut impl fmt::Write) -> fmt::Result {
    let is_long = text.contains('\n');
    let quotes = if is_long { "\"\"\"" } else { "\"" };
    out.write_str(quotes)?;
    // The line end behind the quotes does not count.
    out.write_str(if is_long { "\n" } else { "" })?;
    let is_clear = is_long && !text.contains("\"\"") && !text.ends_with('"');
    for character in text.chars() {
        match character {
            '"' if is_clear => out.write_char('"')?,
            '\n' if is_long => out.write_char('\n')?,
            '"' | '\\' => write!(out, "\\{character}")?,
            control if control.is_control() => write!(out, "\\u{:04X}", u32::from(control))?,
            other => out.write_char(other)?,
        }
    }
    out.write_str(quotes)
}

/// Writes PEM as `openssl` does.
fn write_certificates(all: &[CertificateDer<'_>], out: &mut Out) -> fmt::Result {
    out.write_str("\"\"\"\n")?;
    for der in all {
        let mut rest = STANDARD.encode(der);
        out.write_str("-----BEGIN CERTIFICATE-----\n")?;
        while !rest.is_empty() {
            let next = rest.split_off(rest.len().min(64));
            writeln!(out, "{rest}")?;
            rest = next;
        }
        out.write_str("-----END CERTIFICATE-----\n")?;
    }
    out.write_str("\"\"\"")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All keys, and values that are written in another way than they may be read.
    const TEXT: &str = include_str!("../fuzz/seeds/document/every-key.toml");

    #[test]
    fn what_is_written_is_read_back() {
        let seeds = [
            (false, TEXT),
            (false, include_str!("../fuzz/seeds/document/routes.toml")),
            (false, include_str!("../fuzz/seeds/document/node-error.toml")),
            (true, include_str!("../fuzz/seeds/document/measured.toml")),
            (true, include_str!("../fuzz/seeds/document/image-policy.toml")),
            (true, include_str!("../fuzz/seeds/document/references.toml")),
            (false, "[registries.a]\nauth = \"OnNlYWxlZC54\"\n[extra-env]\n"),
            (false, "[registries.a]\nca-certs = \"\"\n[registries.\"A/b\"]\n"),
        ];
        for (is_measured, text) in seeds {
            let read = if is_measured { Document::parse_measured } else { Document::parse };
            let config = read(text.as_bytes()).unwrap().document;
            let written = config.to_toml().unwrap();
            let again = read(written.as_bytes()).unwrap_or_else(|error| panic!("{error}")).document;
            assert_eq!(again.redacted(), config.redacted());
            assert_eq!(*again.to_toml().unwrap(), *written);
        }
    }

    #[test]
    fn a_config_is_written_as_people_write_it() {
        let text = "[registries.\"r.corp\"]\nusername = \"robot\"\npassword = \"a\\\"\\\\b\"\n\
            insecure-skip-verify = true\nmirrors = [\n  {url = \"https://m.corp\", \
            prefix = \"team\"},\n]\n\n[[registries.\"r.corp\".also]]\n\
            auth = \"cm9ib3Q6\"\n\n[registries.\"r.corp/team\"]\nregistrytoken = \"t\"\n";
        let config = Document::parse(text.as_bytes()).unwrap().document;
        assert_eq!(config.to_toml().unwrap().as_str(), text);
    }

    #[test]
    fn nothing_is_cut_off() {
        let mut config = Document::parse(b"[extra-env]\nNO_PROXY = \"a\"\n").unwrap().document;
        config.extra_env.no_proxy = Some("\u{7f}".repeat(MAX_DOCUMENT_BYTES / 6));
        assert_eq!(config.to_toml().err(), Some(Rule::DocumentTooLong));
    }
}

//! A document with only what the pulls of some registries need.
//!
//! Which secrets go is the rule of `pull_route::surplus`; here they are left out of the text. The
//! text is written anew, so that comments go too, in which anything may stand, and variables that
//! have no effect. Nothing is ever added.

use std::fmt;

use foreign_text::toml::wipe;
use pull_route::{Secrets, Surplus, surplus};
use puller_config::{Document, ExtraEnv, OnlyRegistries, Problems, RegistryName};
use thiserror::Error;
use toml::de::{DeArray, DeTable, DeValue};
use zeroize::Zeroizing;

use crate::entry_keys::{MAX_ESCAPE_BYTES, push_literal};

/// What the longest additions to one byte of a text stay below: that of an escape sequence.
const ROOM: usize = MAX_ESCAPE_BYTES;

/// The keys of an account; see [`Secrets`].
const ACCOUNT: [&str; 5] = ["username", "password", "auth", "identitytoken", "registrytoken"];
const FURTHER_ACCOUNTS: &str = "also";
const CLIENT: [&str; 2] = ["client-cert", "client-key"];

/// A document with only what some pulls need.
pub struct Narrowed {
    /// Its text.
    pub text: Zeroizing<Vec<u8>>,
    /// What the text says.
    pub document: Document,
    /// What is missing now, in the order of the names.
    pub removed: Vec<Surplus>,
}

impl fmt::Debug for Narrowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Narrowed")
            .field("document", &self.document)
            .field("removed", &self.removed)
            .finish_non_exhaustive()
    }
}

/// Why a document cannot be narrowed. No value of it is repeated.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum NarrowError {
    /// The document itself is not valid.
    #[error("the document is not valid:\n{0}")]
    Document(Problems),
    /// It would not be valid with less: written anew it exceeds a limit of documents.
    #[error("without what is not needed the document would not be valid:\n{0}")]
    Result(Problems),
    /// The document cannot be written anew. A fault of this program.
    #[error("the document cannot be written anew")]
    Write,
}

/// Leaves out of a `document` of the host what no pull of `only` uses. A reason of the node stays
/// as it is.
///
/// The document and the list may be hostile: the work is bounded by the limits of a document times
/// the length of the list. Only the returned text and document hold secrets, and every other copy
/// is zeroed; what the document's parser says of that holds here too.
///
/// # Errors
///
/// [`NarrowError`]; then no document is known that is good enough.
pub fn narrow(document: &[u8], only: &OnlyRegistries) -> Result<Narrowed, NarrowError> {
    let checked = Document::parse(document).map_err(NarrowError::Document)?;
    if checked.document.node_error.is_some() {
        return Ok(Narrowed {
            text: document.to_vec().into(),
            document: checked.document,
            removed: Vec::new(),
        });
    }
    let removed = surplus(&checked.document, only);
    let text = str::from_utf8(document).map_err(|_| NarrowError::Write)?;
    let mut root = DeTable::parse(text).map_err(|_| NarrowError::Write)?.into_inner();
    let mut writer = Writer {
        removed: &removed,
        // Never moved, so that no copy of a secret is left behind.
        out: Zeroizing::new(String::with_capacity(text.len() * ROOM + ROOM)),
    };
    let written = writer.document(&root);
    wipe(&mut root);
    written.ok_or(NarrowError::Write)?;
    let text = Zeroizing::new(std::mem::take(&mut *writer.out).into_bytes());
    let checked = Document::parse(&text).map_err(NarrowError::Result)?;
    Ok(Narrowed {
        // A copy of its length: what the sandbox keeps is not as long as the room.
        text: Zeroizing::new(text.to_vec()),
        document: checked.document,
        removed,
    })
}

/// Writes a document without what is removed from it. `None` where it has what none has.
struct Writer<'r> {
    removed: &'r [Surplus],
    out: Zeroizing<String>,
}

/// A key and its value.
type Field<'t, 'i> = (&'t str, &'t DeValue<'i>);

impl Writer<'_> {
    fn document(&mut self, root: &DeTable<'_>) -> Option<()> {
        for (name, value) in fields(root) {
            let DeValue::Table(table) = value else {
                return None;
            };
            let (tables, own): (Vec<_>, Vec<_>) =
                fields(table).partition(|(_, value)| matches!(value, DeValue::Table(_)));
            if !own.is_empty() || tables.is_empty() {
                self.header(name, None);
            }
            for (key, value) in own {
                if self.stays(name, None, key) {
                    self.line(key, value)?;
                }
            }
            for (entry, value) in tables {
                let DeValue::Table(table) = value else {
                    return None;
                };
                self.header(name, Some(entry));
                for (key, value) in fields(table) {
                    if self.stays(name, Some(entry), key) {
                        self.line(key, value)?;
                    }
                }
            }
        }
        Some(())
    }

    /// Whether a key of the table `table`, or of `entry` in it, is not removed.
    fn stays(&self, table: &str, entry: Option<&str>, key: &str) -> bool {
        let name = entry.and_then(|entry| RegistryName::parse(entry).ok());
        let is_gone = |what| {
            let gone = |one: &Surplus| one.what == what && one.name == name;
            self.removed.iter().any(gone)
        };
        let is_account = ACCOUNT.contains(&key);
        match table {
            "extra-env" => ExtraEnv::knows(key),
            "decryption-keys" => !is_gone(Secrets::DecryptionKeys),
            _ if is_account => !is_gone(Secrets::Accounts),
            _ if key == FURTHER_ACCOUNTS => {
                !is_gone(Secrets::Accounts) && !is_gone(Secrets::FurtherAccounts)
            }
            _ if CLIENT.contains(&key) => !is_gone(Secrets::Client),
            _ => true,
        }
    }

    fn header(&mut self, table: &str, entry: Option<&str>) {
        self.out.push('[');
        self.out.push_str(table);
        if let Some(entry) = entry {
            self.out.push('.');
            push_literal(entry, &mut self.out);
        }
        self.out.push_str("]\n");
    }

    fn line(&mut self, key: &str, value: &DeValue<'_>) -> Option<()> {
        self.key(key);
        self.value(value)?;
        self.out.push('\n');
        Some(())
    }

    fn key(&mut self, key: &str) {
        let is_bare = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        match !key.is_empty() && key.bytes().all(is_bare) {
            true => self.out.push_str(key),
            false => push_literal(key, &mut self.out),
        }
        self.out.push_str(" = ");
    }

    fn value(&mut self, value: &DeValue<'_>) -> Option<()> {
        match value {
            DeValue::String(text) => self.text(text),
            DeValue::Boolean(value) => self.out.push_str(if *value { "true" } else { "false" }),
            DeValue::Array(items) => self.array(items)?,
            DeValue::Table(table) => self.inline(table)?,
            // No key of the host has one.
            _ => return None,
        }
        Some(())
    }

    /// Certificates stay as long as they are.
    fn text(&mut self, text: &str) {
        let is_plain = |character: char| character == '\n' || !character.is_control();
        let is_block = text.contains('\n') && text.chars().all(is_plain);
        if is_block && !text.contains('\'') {
            self.out.push_str("'''\n");
            self.out.push_str(text);
            self.out.push_str("'''");
        } else {
            push_literal(text, &mut self.out);
        }
    }

    fn array(&mut self, items: &DeArray<'_>) -> Option<()> {
        self.out.push('[');
        for (number, item) in items.iter().enumerate() {
            if number > 0 {
                self.out.push_str(", ");
            }
            self.value(item.get_ref())?;
        }
        self.out.push(']');
        Some(())
    }

    /// Parsers of before TOML 1.1 take no line ends between the braces.
    fn inline(&mut self, table: &DeTable<'_>) -> Option<()> {
        self.out.push('{');
        for (number, (key, value)) in fields(table).enumerate() {
            if number > 0 {
                self.out.push_str(", ");
            }
            self.key(key);
            self.value(value)?;
        }
        self.out.push('}');
        Some(())
    }
}

fn fields<'t, 'i>(table: &'t DeTable<'i>) -> impl Iterator<Item = Field<'t, 'i>> {
    table.iter().map(|(key, value)| (&**key.get_ref(), value.get_ref()))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

    use super::*;

    const DOCUMENT: &str = "\
# hunter2-comment
[extra-env] # hunter2-comment
HTTPS_PROXY = 'http://u:proxy@p:1'
TOKEN = 'hunter2-variable'
[registries.\"r.corp\"]
username = \"robot\"
password = \"host\\u0020password\"
ca-certs = 'none'
[registries.\"r.corp/team\"]
auth = 'dGVhbTp0ZWFt'
also = [{auth = 'dGVhbTp0ZWFt'}]
[registries.\"other.corp\"]
registrytoken = \"hunter2-token\"
also = [{username = \"hunter2-user\", password = 'hunter2'}]
mirrors = [{url = \"https://m.corp\", prefix = 'x'}]
[registries]
'inline.corp' = {identitytoken = 'hunter2', insecure-skip-verify = true}
[decryption-keys]
keys = ['YWxs']
[decryption-keys.\"r.corp/team/app\"]
keys = 'dGVhbQ=='
[decryption-keys.\"other.corp\"]
keys = 'aHVudGVyMg=='
";

    fn narrowed(text: &str, only: &str) -> (String, Vec<String>) {
        let only: OnlyRegistries =
            only.split_whitespace().map(|name| OnlyRegistries::item(name).unwrap()).collect();
        let found = narrow(text.as_bytes(), &only).unwrap();
        let removed = found.removed.iter().map(ToString::to_string).collect();
        (String::from_utf8(found.text.to_vec()).unwrap(), removed)
    }

    #[test]
    fn what_is_used_stays_and_the_rest_keeps_its_settings() {
        let (text, removed) = narrowed(DOCUMENT, "r.corp");
        assert_eq!(
            text,
            "[decryption-keys]\nkeys = [\"YWxs\"]\n\
             [decryption-keys.\"other.corp\"]\n\
             [decryption-keys.\"r.corp/team/app\"]\nkeys = \"dGVhbQ==\"\n\
             [extra-env]\nHTTPS_PROXY = \"http://u:proxy@p:1\"\n\
             [registries.\"inline.corp\"]\ninsecure-skip-verify = true\n\
             [registries.\"other.corp\"]\n\
             mirrors = [{prefix = \"x\", url = \"https://m.corp\"}]\n\
             [registries.\"r.corp\"]\nca-certs = \"none\"\npassword = \"host password\"\n\
             username = \"robot\"\n\
             [registries.\"r.corp/team\"]\nalso = [{auth = \"dGVhbTp0ZWFt\"}]\n\
             auth = \"dGVhbTp0ZWFt\"\n"
        );
        let gone = [
            "credentials of \"inline.corp\"",
            "credentials of \"other.corp\"",
            "decryption keys of \"other.corp\"",
        ];
        assert_eq!(removed, gone);
        assert_eq!(narrowed(&text, "r.corp"), (text, Vec::new()));
    }

    #[test]
    fn an_entry_for_repositories_relieves_that_of_the_host() {
        let (text, removed) = narrowed(DOCUMENT, "r.corp/team/app");
        assert!(!text.contains("robot") && text.contains("dGVhbTp0ZWFt"), "{text}");
        assert!(removed.contains(&"credentials of \"r.corp\"".to_owned()));
        let (text, _) = narrowed(DOCUMENT, "r.corp/team-b");
        assert!(text.contains("robot") && !text.contains("dGVhbTp0ZWFt"), "{text}");
        assert!(!text.contains("dGVhbQ==") && text.contains("YWxs"), "{text}");
    }

    #[test]
    fn an_empty_list_leaves_no_secret() {
        let (text, removed) = narrowed(DOCUMENT, "");
        for secret in ["hunter2", "robot", "YWxs", "dGVhb"] {
            assert!(!text.contains(secret), "{text}");
        }
        assert_eq!(removed.len(), 7, "{removed:?}");
    }

    #[test]
    fn what_is_more_than_a_line_comes_back_as_it_was() {
        for value in ["\"a\\nb\"", "'''\nit's\n'''", "\"a\\r\\nb\"", "\"\\n\\tx\""] {
            let text =
                format!("[extra-env]\nHTTP_PROXY = ''\n[registries.'a.b']\nca-certs = {value}");
            let roots = |text: &str| {
                let root: toml::Table = text.parse().unwrap();
                root["registries"]["a.b"]["ca-certs"].as_str().unwrap().to_owned()
            };
            assert_eq!(roots(&narrowed(&text, "a.b").0), roots(&text), "{value}");
        }
        let reason = "node-error = \"late\" # why\n";
        assert_eq!(narrowed(reason, "a.b").0, reason);
        assert_eq!(narrowed("", "a.b").0, "");
    }
}

//! The client certificates that files name, in the one form in which they are written.

use std::fmt;

use registry_config::{Document, RegistryHost, Secret};
use zeroize::Zeroizing;

use super::Certificates;
use super::certificates::{BEGIN, DASHES, END};
use crate::client_identity::fault;

/// What the labels of all private keys end with.
const KEY: &str = "PRIVATE KEY";

/// The labels of PKCS#8, PKCS#1 and SEC1.
const KINDS: [&str; 3] = ["PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY"];

/// More than the lines around a key's base64 have.
const AROUND_KEY_BYTES: usize = 80;

/// A client certificate with its private key, which belong together. `Debug` shows no key.
#[derive(Clone)]
pub struct Client {
    pub(crate) chain: Certificates,
    /// One PEM block without commentary.
    pub(crate) key: Secret,
}

impl Client {
    /// The certificates of one file and the first private key of the other, which may be the same
    /// file. What else is in them is not taken.
    ///
    /// # Errors
    ///
    /// Why a document could not hold them, or TLS not use them, as a fragment without a value.
    pub fn of_files(certificate: &[u8], key: &[u8]) -> Result<Self, &'static str> {
        let (chain, _) = Certificates::of_file(certificate)?;
        let client = Self { chain, key: private_key(key)? };
        client.check().map_or(Ok(client), Err)
    }

    /// How many bytes it has in a document, but for the keys' names.
    pub(crate) fn bytes(&self) -> usize {
        self.chain.bytes() + self.key.expose().len()
    }

    /// Writes both keys. Neither value has a character that would have to be escaped.
    pub(crate) fn push(&self, out: &mut String) {
        out.push_str("client-cert = \"\"\"\n");
        for block in self.chain.blocks() {
            out.push_str(block);
        }
        out.push_str("\"\"\"\nclient-key = \"\"\"\n");
        out.push_str(self.key.expose());
        out.push_str("\"\"\"\n");
    }

    /// What a document, or TLS, has against it.
    fn check(&self) -> Option<&'static str> {
        const HEADER: &str = "[registries.probe]\n";
        let capacity = HEADER.len() + self.bytes() + AROUND_KEY_BYTES;
        let mut text = Zeroizing::new(String::with_capacity(capacity));
        text.push_str(HEADER);
        self.push(&mut text);
        let Ok(checked) = Document::parse(text.as_bytes()) else {
            return Some("a document cannot hold this certificate and this private key");
        };
        let host = RegistryHost::parse("probe").ok()?;
        let (_, entry) = checked.document.registries.literal_entry_for(&host)?;
        entry.client.as_ref().and_then(fault)
    }
}

impl PartialEq for Client {
    fn eq(&self, other: &Self) -> bool {
        self.chain == other.chain && self.key.expose() == other.key.expose()
    }
}

impl Eq for Client {}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

/// The first private key of a file, as Go's `tls.X509KeyPair` finds it.
fn private_key(bytes: &[u8]) -> Result<Secret, &'static str> {
    let text =
        std::str::from_utf8(bytes).map_err(|_| "the file of the private key is not UTF-8")?;
    let mut lines = text.lines().map(str::trim);
    let label = lines.find_map(|line| {
        let label = line.strip_prefix(BEGIN)?.strip_suffix(DASHES)?;
        label.ends_with(KEY).then_some(label)
    });
    let label = label.ok_or("the file has no private key")?;
    if !KINDS.contains(&label) {
        return Err("the private key has a password, or is of a kind that is not read");
    }
    // Large enough from the start: a string that grows leaves copies of the key behind.
    let mut block = Zeroizing::new(String::with_capacity(text.len() + AROUND_KEY_BYTES));
    block.extend([BEGIN, label, DASHES, "\n"]);
    for line in lines {
        if line.starts_with(END) {
            block.extend([END, label, DASHES, "\n"]);
            return Ok(Secret::from(block));
        }
        let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte);
        if !line.bytes().all(is_base64) {
            return Err("the private key has a password, or is no base64");
        }
        block.extend([line, "\n"]);
    }
    Err("the private key has no end")
}

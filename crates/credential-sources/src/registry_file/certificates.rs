//! The certificates of CA files, in the one form in which they are written.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use registry_config::{Document, MAX_CERTIFICATES};

/// The longest CA file that is read: four times a whole system's.
pub const MAX_CA_FILE_BYTES: usize = 1 << 20;

pub(super) const BEGIN: &str = "-----BEGIN ";
pub(super) const END: &str = "-----END ";
pub(super) const DASHES: &str = "-----";
const KIND: &str = "CERTIFICATE";

/// How many characters a line of base64 has (RFC 7468, section 2).
const LINE_CHARS: usize = 64;

/// Distinct certificates, each as a PEM block without commentary, in the order of their files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Certificates {
    /// Shared, because many hosts may have the same.
    blocks: Arc<Vec<String>>,
}

impl Certificates {
    /// The PEM blocks, each with a line end.
    pub fn blocks(&self) -> impl Iterator<Item = &str> {
        self.blocks.iter().map(String::as_str)
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    /// Those of a file, as lenient as Go's reader: what is no certificate is skipped. Nothing else
    /// of a file is ever taken.
    ///
    /// # Errors
    ///
    /// Why there are none, or too many, as a fragment.
    pub fn of_file(bytes: &[u8]) -> Result<(Self, Skipped), &'static str> {
        let mut certificates = Self::default();
        let skipped = certificates.add(bytes)?;
        Ok((certificates, skipped))
    }

    /// The length of all blocks.
    pub(crate) fn bytes(&self) -> usize {
        self.blocks().map(str::len).sum()
    }

    /// Adds those of a file.
    pub(crate) fn add(&mut self, bytes: &[u8]) -> Result<Skipped, &'static str> {
        let text = String::from_utf8_lossy(bytes);
        let mut found = 0;
        let mut skipped = 0;
        for block in blocks(&text) {
            match block {
                Some(block) => {
                    found += 1;
                    self.push(block);
                }
                None => skipped += 1,
            }
            if found + skipped > MAX_CERTIFICATES {
                return Err("more blocks than an entry may have certificates");
            }
        }
        if found == 0 {
            return Err("the file has no certificate");
        }
        Ok(Skipped(skipped))
    }

    fn push(&mut self, block: String) {
        if !self.blocks.contains(&block) {
            Arc::make_mut(&mut self.blocks).push(block);
        }
    }
}

/// How many blocks of a file were no certificates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skipped(pub usize);

/// The PEM blocks of a text; `None` for what is no certificate.
fn blocks(text: &str) -> impl Iterator<Item = Option<String>> {
    let mut lines = text.lines().map(str::trim);
    std::iter::from_fn(move || {
        let label = lines.find_map(|line| line.strip_prefix(BEGIN)?.strip_suffix(DASHES))?;
        let mut body = String::new();
        for line in lines.by_ref() {
            if line.starts_with(END) {
                break;
            }
            if label == KIND {
                body.push_str(line);
            }
        }
        Some((label == KIND).then(|| block(&body)).flatten())
    })
}

/// The block of this base64, if it holds a certificate by the document's rules.
fn block(base64: &str) -> Option<String> {
    let der = STANDARD.decode(base64).ok()?;
    let base64 = STANDARD.encode(der);
    let mut block = format!("{BEGIN}{KIND}{DASHES}\n");
    for line in base64.as_bytes().chunks(LINE_CHARS) {
        block.extend(line.iter().copied().map(char::from));
        block.push('\n');
    }
    block.push_str(&format!("{END}{KIND}{DASHES}\n"));
    let document = format!("[registries.\".\"]\nca-certs = \"\"\"\n{block}\"\"\"\n");
    Document::parse(document.as_bytes()).is_ok().then_some(block)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: &str = include_str!("../../../registry-config/tests/data/root.pem");

    #[test]
    fn only_certificates_are_taken_and_each_once() {
        let key = "-----BEGIN PRIVATE KEY-----\naHVudGVyMg==\n-----END PRIVATE KEY-----\n";
        let junk = "-----BEGIN CERTIFICATE-----\naHVudGVyMg==\n-----END CERTIFICATE-----\n";
        let text = format!("comment\n{key}{ROOT}{junk}  {}\r\n", ROOT.replace('\n', "\r\n  "));
        let (certificates, skipped) = Certificates::of_file(text.as_bytes()).unwrap();
        assert_eq!((certificates.len(), skipped), (1, Skipped(2)));
        let block = certificates.blocks().next().unwrap();
        assert!(!block.contains("aHVudGVyMg"), "{block}");
        assert!(block.ends_with("-----END CERTIFICATE-----\n"));
    }

    #[test]
    fn files_without_certificates_are_faults() {
        for text in ["", "none", "-----BEGIN CERTIFICATE-----\n", "\u{0}\u{1}"] {
            assert!(Certificates::of_file(text.as_bytes()).is_err(), "{text:?}");
        }
        assert!(Certificates::of_file(b"\xff\xfe").is_err());
    }
}

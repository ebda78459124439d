//! The measured document of a confidential VM, parsed, and its digest in the TEE's evidence.
//!
//! Both sides use this room: the guest acts on what it says, and `kata-configdev inspect` prints
//! it. It takes bytes and does no I/O. Spec: `docs/format.md`, "Initdata".
//!
//! Deliberately not here: the disk image around the document (`config-image`), and how the TEE is
//! asked for its evidence (`initdata-processor`).
//!
//! Entry: [`Document::parse`].
//!
//! - [`document`]: version, algorithm and the named files, or the reason why the guest refuses
//!   them.
//! - [`digest`]: the digest of the document's bytes, compared with the field of the evidence.

pub mod digest;
pub mod document;

pub use digest::{Algorithm, Field};
pub use document::{Document, DocumentError, FileName};

/// `text` with every character that is not visible ASCII or a space replaced by a question mark.
///
/// Everything that may quote a disk goes through this before it reaches a log, a policy or a file.
#[must_use]
pub fn printable(text: &str) -> String {
    text.chars()
        .map(|character| match character {
            ' '..='~' => character,
            _ => '?',
        })
        .collect()
}

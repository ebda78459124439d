//! The measured document of a confidential VM, parsed, and its digest in the TEE's evidence.
//!
//! Both sides use this room: the guest acts on what it says, and `kata-configdev inspect` prints
//! it. It takes bytes and does no I/O. Spec: `docs/format.md`, "Initdata".
//!
//! Deliberately not here: the disk image around the document (`config-image`), and how the TEE is
//! asked for its evidence (`initdata-processor`).
//!
//! Entry: [`Document::parse`] for the guest, [`Reading::of`] for the host, which shows every fault.
//! Both are one parser, so they cannot differ.
//!
//! - [`document`]: version, algorithm and the named files, and why the guest refuses a document.
//! - [`digest`]: the digest of the document's bytes, compared with the field of the evidence.
//! - [`place`]: that field on each platform.

pub mod digest;
pub mod document;
pub mod place;

pub use digest::{Algorithm, Field};
pub use document::{Document, FileName, Reading, Refusal};

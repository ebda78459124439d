//! The names and documents of OCI images, read from bytes that anyone may have written.
//!
//! [`digest::Unverified`] gives content out only after hashing it, so every parsed document is the
//! one that its digest names. Not here: where content comes from (`registry-client`), and what
//! becomes of layers (`layer-unpack`).
//!
//! Begin at [`reference::ImageReference::parse`], and give its digest to [`search::Search`].
//!
//! - [`mod@reference`]: what is asked for; [`named`]: all that its name says; [`digest`]: content
//!   and its hash.
//! - [`search`]: from a digest to the image for a guest's platform, over as many documents as it
//!   takes.
//! - [`pins`]: which content a name means to the guest's owner.
//! - [`manifest`]: indexes and manifests; [`config`]: the configurations of images; [`platform`]:
//!   what runs where, and how well.

pub mod config;
#[cfg(target_arch = "x86_64")]
mod cpu;
mod descriptor;
pub mod digest;
mod document;
mod invalid;
mod json;
pub mod manifest;
mod media_type;
mod name;
pub mod named;
pub mod pins;
pub mod platform;
pub mod reference;
pub mod search;

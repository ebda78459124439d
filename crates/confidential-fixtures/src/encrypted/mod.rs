//! Encrypted images as `skopeo` makes them, and what an attacker makes of them.
//!
//! The images are encrypted at test time by the real `skopeo`, for keys by the real `openssl`.
//! Everything here works on OCI layouts; [`vm_harness::Registry::push`] or
//! `fault_registry::Content::load` serve them.
//!
//! Not here: any code of the product. What has to be taken apart ([`Rewrap`]) is taken apart with
//! other libraries, so that a misunderstanding of the format shows as a failing test.
//!
//! - [`Key`]: a key pair and the forms in which a person may have it.
//! - [`encrypt`], [`Encrypted`]: the image.
//! - [`Surgery`]: a manifest changed by somebody who has no key.
//! - [`Rewrap`]: the layers' keys wrapped for a key broker instead of a key pair.

mod image;
mod key;
mod surgery;
mod wrap;

#[cfg(test)]
mod tests;

pub use image::{Encrypted, Which, encrypt};
pub use key::{Key, KeyKind};
pub use surgery::Surgery;
pub(crate) use wrap::open_gcm;
pub use wrap::{Rewrap, Version, WrapType};

/// Where a layer's key lies, wrapped as a JSON Web Encryption.
pub const JWE: &str = "org.opencontainers.image.enc.keys.jwe";

/// Where it lies, wrapped by a key provider of Confidential Containers.
pub const PACKET: &str = "org.opencontainers.image.enc.keys.provider.attestation-agent";

/// What everybody may know of a layer's encryption.
pub const PUBLIC_OPTIONS: &str = "org.opencontainers.image.enc.pubopts";

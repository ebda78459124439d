//! Limits of a store, which its errors print.

/// The most layers of a mount: what overlayfs itself takes, since 4.0 and still in 6.18.
pub const MAX_LAYERS: usize = 500;

/// The most bytes of signatures that are kept beside an image. In a guest they are memory, and
/// those of real images have some KiB.
pub const MAX_SIGNATURES_BYTES: usize = 1 << 20;

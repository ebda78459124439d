//! Limits of a store, which its errors print.

/// The most layers of a mount: what overlayfs itself takes, since 4.0 and still in 6.18.
pub const MAX_LAYERS: usize = 500;

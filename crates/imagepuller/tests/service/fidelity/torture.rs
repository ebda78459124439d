//! Layers with everything in them that is seldom, as archives written byte by byte.

use tar::Header;

mod attributes;
mod changes;
mod names;
mod numbers;
mod odd;

pub use attributes::{ACCESS_ACL, CAPABILITY_2, DEFAULT_ACL, attributes};
pub use changes::{lower, repeats, upper};
pub use names::{names, with_global_header};
pub use numbers::numbers;
pub use odd::{odd, odd_lower};

/// The mode, owner and time in seconds of an entry.
pub(super) fn with(mode: u32, owner: u64, mtime: u64) -> impl FnOnce(&mut Header) {
    move |header| {
        header.set_mode(mode);
        header.set_uid(owner);
        header.set_gid(owner);
        header.set_mtime(mtime);
    }
}

pub(super) fn plain(header: &mut Header) {
    header.set_mtime(1_600_000_000);
}

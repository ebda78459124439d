//! Text that somebody else wrote, read and shown safely.
//!
//! Not here: what a text means. The only I/O is the bounded read.
//!
//! - [`bounded`]: a file or a stream read up to a limit, into memory that is zeroed.
//! - `hex`: bytes as hexadecimal digits.
//! - [`json`]: JSON that no two readers read differently.
//! - [`nearest()`]: the known word that an unknown one was probably meant to be.
//! - [`position`]: the line and column of a byte.
//! - [`shown()`]: foreign words in a message, without control characters and not endless.
//! - `toml` (feature `toml`): a TOML file taken key by key; what is left over has a line.
//!
//! The feature `file` adds the functions of [`bounded`] that open a path.

pub mod bounded;
pub mod hex;
pub mod json;
pub mod nearest;
pub mod position;
pub mod shown;
#[cfg(feature = "toml")]
pub mod toml;

pub use nearest::{corrected, nearest, same_letters};
pub use shown::{one_line, shown};

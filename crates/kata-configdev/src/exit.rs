//! The exit codes of both programs.

/// Wrong arguments.
pub const USAGE: u8 = 64;
/// A document, an image, the settings or the sandbox's spec is not acceptable.
pub const DATA: u8 = 65;
/// Something that should be there is not: QEMU cannot be executed, an output not be written.
pub const UNAVAILABLE: u8 = 69;
/// The machine or this program is at fault.
pub const INTERNAL: u8 = 70;

//! How much of anything the installer takes in. All are free to change.

/// The longest configuration file; far more than [`MAX_SETS`] sets need.
pub const MAX_OPTIONS_BYTES: usize = 256 << 10;

/// The most sets; a node has one runtime class or a few.
pub const MAX_SETS: usize = 64;

/// The most handlers of one set; Kata has some twenty.
pub const MAX_HANDLERS: usize = 64;

/// The most docker configurations of one set: what one pass has in memory.
pub const MAX_DOCKER_CONFIGS: usize = 16;

/// The most secrets with decryption keys of one set: what one pass has in memory.
pub const MAX_DECRYPTION_SECRETS: usize = 16;

/// The most documents of one set for namespaces, and the most for the annotation: one at a time is
/// in memory.
pub const MAX_DOCUMENTS: usize = 256;

/// The largest wrapper; a static program has a few MiB. The installer never wrote a larger file.
pub const MAX_WRAPPER_BYTES: usize = 64 << 20;

/// The largest drop-in or settings file that something is taken out of; what is installed is
/// smaller.
pub const MAX_EDITED_BYTES: usize = 256 << 10;

/// The largest file of Kata's configuration that is looked at; those that Kata ships have 40 KiB.
pub const MAX_KATA_FILE_BYTES: usize = 256 << 10;

/// The most entries of a directory of Kata's that are looked at; a handler has a handful.
pub const MAX_KATA_ENTRIES: usize = 1024;

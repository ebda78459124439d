//! Tests only: the fuzz targets of all rooms, replayed over their seeds or searched with libFuzzer.
//!
//! A target is one file, `crates/ROOM/fuzz/fuzz_targets/NAME.rs`, whose body stands in [`target!`].
//! `tests/replay.rs` runs every target over every file in `crates/ROOM/fuzz/seeds/NAME` on each
//! `cargo test`: the same inputs give the same result. `hack/fuzz` builds the same files with
//! libFuzzer and looks for new inputs.

use std::path::{Path, PathBuf};
use std::{fs, io};

/// Defines a fuzz target: `fuzzing::target!(|bytes: &[u8]| { ... })`, or with `|text: &str|`.
///
/// The body panics where the invariant does not hold. A text is the part of the input before the
/// first byte that is not UTF-8.
#[macro_export]
macro_rules! target {
    (|$text:ident: &str| $body:expr) => {
        $crate::target!(|bytes: &[u8]| {
            let $text = $crate::text(bytes);
            $body
        });
    };
    (|$bytes:ident: &[u8]| $body:expr) => {
        /// Checks the invariant for one input.
        pub fn run($bytes: &[u8]) {
            $body
        }

        #[cfg(fuzzing)]
        ::libfuzzer_sys::fuzz_target!(|bytes: &[u8]| run(bytes));
    };
}

/// The input before the first byte that is not UTF-8.
#[must_use]
pub fn text(bytes: &[u8]) -> &str {
    bytes.utf8_chunks().next().map_or("", |chunk| chunk.valid())
}

/// The seeds of the target in this file, in a fixed order.
///
/// # Errors
///
/// When the directory cannot be read.
pub fn seeds(target: &Path) -> io::Result<Vec<PathBuf>> {
    let name = target.file_stem().unwrap_or_default();
    let folder = target.with_file_name("../seeds").join(name);
    let mut files: Vec<_> =
        fs::read_dir(folder)?.map(|file| Ok(file?.path())).collect::<io::Result<_>>()?;
    files.sort();
    Ok(files)
}

//! Tests only: programs run in temporary folders, and what they print is held to what is expected.
//!
//! - [`Program`]: a built program, which never may print the secrets of the tests. [`Run`]: how it
//!   ended, with one assertion for each thing that tests ask. [`Program::cases`] holds a whole page
//!   of commands to what it shows.
//! - [`Folder`]: a temporary folder with files of given modes and programs.
//! - [`hold_cases`]: files of inputs, each with what is made of it.
//! - [`alone`]: a test in a process of its own.
//! - [`example`]: the path of a built example.
//! - [`skip`], [`skipped_without_root`], [`wait_until`], [`sha256sum`].

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::missing_panics_doc,
    reason = "test code: a failed step should stop the test where it is"
)]

mod answers;
mod cases;
mod folder;
mod run;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

pub use answers::{hold_cases, side_by_side};
pub use folder::Folder;
pub use run::{Program, Run};

/// Only a machine that is very busy, or a fault, takes so long.
pub const LIMIT: Duration = Duration::from_secs(60);

/// Says why a test does not run. Where every test has to (`hack/test` sets
/// `CONFIGDEV_REQUIRE_ALL`), that is a failure.
pub fn skip(reason: &str) {
    assert!(std::env::var_os("CONFIGDEV_REQUIRE_ALL").is_none(), "must not be skipped: {reason}");
    eprintln!("skipped: {reason}");
}

/// Whether the test has to be [skipped](skip) because it needs root for `what`.
#[must_use]
pub fn skipped_without_root(what: &str) -> bool {
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|own| {
        use std::os::unix::fs::MetadataExt;
        own.uid() == 0
    });
    if !is_root {
        skip(&format!("{what} needs root"));
    }
    !is_root
}

/// The path of the example `name` of this test's crate. `cargo test` of a whole crate builds it, and
/// `hack/test` does; a test program asked for by name does not.
#[must_use]
pub fn example(name: &str) -> PathBuf {
    let own = std::env::current_exe().expect("this program");
    let path = own.ancestors().nth(2).expect("target/PROFILE");
    let path = path.join("examples").join(name);
    assert!(path.exists(), "{} is missing: cargo build --workspace --examples", path.display());
    path
}

/// Runs the test `name` of this program in a process of its own.
///
/// For what the threads of other tests change: whoever listens to `tracing` there misses each line
/// that another thread reached first, if that thread has no subscriber.
#[track_caller]
pub fn alone(name: &str, test: impl FnOnce()) {
    const ALONE: &str = "CONFIGDEV_TEST_ALONE";
    if std::env::var_os(ALONE).is_some_and(|alone| alone == name) {
        return test();
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", name, "--nocapture"])
        .env(ALONE, name)
        .output()
        .unwrap();
    let [said, errors] =
        [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    let passed = output.status.success() && said.contains("1 passed");
    assert!(passed, "{name}: {}\n{said}{errors}", output.status);
}

/// Waits until `condition` holds, but no longer than [`LIMIT`].
#[track_caller]
pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < LIMIT, "not in time: {what}");
        sleep(Duration::from_millis(10));
    }
}

/// The SHA-256 of a file, as coreutils compute it.
#[must_use]
pub fn sha256sum(path: impl AsRef<Path>) -> String {
    let output = Command::new("sha256sum").arg(path.as_ref()).output();
    String::from_utf8(output.unwrap().stdout).unwrap()[..64].to_owned()
}

//! Whether a test may do what only root may.

/// Ends the test that calls it unless this process is root: owners, devices and trusted attributes
/// are root's. Where every test has to run, missing rights are a failure.
#[macro_export]
macro_rules! needs_root {
    () => {
        // The test harness names a test's thread after the test.
        if !$crate::is_root(std::thread::current().name().unwrap_or("a test")) {
            return;
        }
    };
}

/// Whether this process is root; `test` is named where it is not.
pub fn is_root(test: &str) -> bool {
    let is_root = rustix::process::geteuid().is_root();
    assert!(is_root || std::env::var_os("CONFIGDEV_REQUIRE_ALL").is_none(), "{test} needs root");
    if !is_root {
        eprintln!("{test} skipped: needs root to set owners, make device nodes and mount");
    }
    is_root
}

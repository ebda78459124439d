//! Whether a test may do what only root may.

/// Owners, devices and trusted attributes are root's. Where every test has to run, missing rights
/// are a failure.
pub fn is_root(test: &str) -> bool {
    let is_root = rustix::process::geteuid().is_root();
    assert!(
        is_root || std::env::var_os("CONFIGDEV_REQUIRE_ALL").is_none(),
        "{test} needs root"
    );
    if !is_root {
        eprintln!("{test} skipped: needs root to set owners, make device nodes and mount");
    }
    is_root
}

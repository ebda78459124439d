//! What every program answers to `--version`, in one place.
//!
//! The programs in a guest are part of its measurement. Whoever checks them has to know which
//! sources they are made of (`docs/release.md`).

/// The version and, in parentheses, the commit and whether the checkout differed from it:
/// `0.1.0 (commit 1234..., clean)`. Where nobody said which commit it is, `0.1.0 (commit unknown)`.
pub const VERSION: &str = env!("PROGRAM_VERSION");

#[cfg(test)]
mod tests {
    use super::VERSION;

    #[test]
    fn begins_with_the_version_of_the_workspace() {
        let (version, commit) = VERSION.split_once(" (commit ").unwrap();
        assert_eq!(version, env!("CARGO_PKG_VERSION"));
        let commit = commit.strip_suffix(')').unwrap();
        let state = commit.split_once(", ").map(|(_, state)| state);
        assert!(
            commit == "unknown" || matches!(state, Some("clean" | "dirty")),
            "{VERSION}"
        );
    }
}

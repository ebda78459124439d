//! Puts the version and the commit together. Only `hack/build --release` says which commit it is:
//! what tests run must not be built anew for each.

use std::env;

/// What `hack/build` sets: the commit's whole name, a space, and `clean` or `dirty`.
const COMMIT: &str = "CONFIGDEV_COMMIT";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed={COMMIT}");
    let version = env::var("CARGO_PKG_VERSION")?;
    let commit = match env::var(COMMIT) {
        Ok(commit) if !commit.is_empty() => known(&commit)
            .ok_or_else(|| format!("{COMMIT} is not a commit and \"clean\" or \"dirty\""))?,
        _ => "commit unknown".to_owned(),
    };
    println!("cargo::rustc-env=PROGRAM_VERSION={version} ({commit})");
    Ok(())
}

fn known(commit: &str) -> Option<String> {
    let (name, state) = commit.split_once(' ')?;
    let is_name = name.len() >= 40 && name.bytes().all(|byte| byte.is_ascii_hexdigit());
    (is_name && matches!(state, "clean" | "dirty")).then(|| format!("commit {name}, {state}"))
}

//! What the end-to-end tests share: a site, and the questions they put to a guest's report.
//!
//! Each test boots real VMs with QEMU's own CPU emulation and talks to a real registry
//! on 127.0.0.1. They need root only for `hack/packages`, no KVM, no network.

mod host_pull;

pub use host_pull::{HostPull, Outcome, tree};

use anyhow::{Result, ensure};
use vm_harness::{Guest, Report, Scenario, Scratch, Site};

/// A running site in a directory of its own.
///
/// # Errors
///
/// Where a program is missing; `hack/packages test` and `hack/build` make them.
pub fn site() -> Result<Site> {
    Site::start(&Scratch::new()?)
}

/// Boots a guest and waits for it to finish its job.
///
/// # Errors
///
/// Where the guest does not finish; with the end of its console.
pub fn run(scenario: &Scenario) -> Result<Report> {
    Guest::boot(scenario)?.finish(|_| ())
}

/// The puller's error, and the proof that the refused pull left no root file system.
///
/// # Errors
///
/// Where the pull was not refused.
pub fn refusal(report: &Report) -> Result<String> {
    let error: Vec<&str> = report.values("error").collect();
    let error = error.join(" ");
    ensure!(
        report.value("pull") != Some("exit 0"),
        "the pull succeeded:\n{}",
        report.console
    );
    ensure!(
        report.value("mount") == Some("0"),
        "a root file system is mounted:\n{}",
        report.console
    );
    ensure!(
        !error.is_empty(),
        "the refusal gives no reason:\n{}",
        report.console
    );
    println!("{error}");
    Ok(error)
}

/// Fails with the whole text where `text` lacks one of `words`.
///
/// # Panics
///
/// Then.
#[track_caller]
pub fn assert_tells(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "\"{word}\" is missing in: {text}");
    }
}

/// Fails where a secret of the site shows in `text`.
///
/// # Panics
///
/// Then.
#[track_caller]
pub fn assert_no_secret(site: &Site, text: &str) {
    for secret in [&site.password, &Site::auth(&site.password)] {
        assert!(!text.contains(secret.as_str()), "a secret shows in: {text}");
    }
}

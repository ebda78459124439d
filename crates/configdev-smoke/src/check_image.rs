//! What `initdata-processor check-image` finds in the same image, without a boot.

use std::ffi::OsStr;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use vm_harness::{Scratch, process};

use crate::options::Options;

/// One finding.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Finding {
    /// `error` or `warning`.
    pub level: String,
    /// What it is about.
    pub subject: String,
    /// What is wrong, and what to do.
    pub text: String,
}

/// Asks the program.
///
/// # Errors
///
/// Where it cannot be run, or does not answer as it should.
pub fn check(
    program: &Path,
    root: &Path,
    options: &Options,
    scratch: &Scratch,
) -> Result<Vec<Finding>> {
    let mut arguments: Vec<&OsStr> = vec!["check-image".as_ref(), root.as_os_str()];
    arguments.extend([
        "--json".as_ref(),
        "--agent".as_ref(),
        options.agent.as_os_str(),
    ]);
    arguments.extend(["--kernel-parameters", &options.append].map(OsStr::new));
    if let Some(config) = &options.kernel_config {
        arguments.extend(["--kernel-config".as_ref(), config.as_os_str()]);
    }
    let output = process::run(scratch, program, arguments)?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    ensure!(
        matches!(output.status.code(), Some(0 | 65)),
        "check-image ended with {}: {}",
        output.status,
        foreign_text::one_line(said.trim()).up_to(400)
    );
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    text.lines().map(finding).collect()
}

fn finding(line: &str) -> Result<Finding> {
    serde_json::from_str(line).with_context(|| format!("check-image said {line:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_are_read() {
        let line = r#"{"level": "error", "subject": "agent", "text": "is \"gone\""}"#;
        let found = finding(line).unwrap();
        assert_eq!((&*found.level, &*found.text), ("error", "is \"gone\""));
        assert!(finding("error: agent").is_err());
    }
}

//! What `initdata-processor check-image` finds in the same image, without a boot.

use std::ffi::OsStr;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use vm_harness::{Scratch, process};

use crate::options::Options;

/// The most that it may take. It reads an image once, and does not wait for anything.
const LIMIT: Duration = Duration::from_secs(120);

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
/// Where it cannot be run, does not end, or does not answer as it should.
pub fn check(
    program: &Path,
    root: &Path,
    options: &Options,
    scratch: &Scratch,
) -> Result<Vec<Finding>> {
    check_within(LIMIT, program, root, options, scratch)
}

fn check_within(
    limit: Duration,
    program: &Path,
    root: &Path,
    options: &Options,
    scratch: &Scratch,
) -> Result<Vec<Finding>> {
    let mut arguments: Vec<&OsStr> = vec!["check-image".as_ref(), root.as_os_str()];
    arguments.extend(["--json".as_ref(), "--agent".as_ref(), options.agent.as_os_str()]);
    arguments.extend(["--kernel-parameters", &options.append].map(OsStr::new));
    if let Some(config) = &options.kernel_config {
        arguments.extend(["--kernel-config".as_ref(), config.as_os_str()]);
    }
    let output = process::run_within(limit, scratch, program, arguments).context("check-image")?;
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
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt as _;

    use clap::Parser as _;

    use super::*;

    #[test]
    fn a_program_that_does_not_end_is_killed() {
        let options = Options::parse_from(["x", "--kernel", "k", "--initrd", "i"]);
        let scratch = Scratch::new().unwrap();
        let program = scratch.write("program", "#!/bin/sh\nexec sleep 600\n");
        let program = program.unwrap();
        fs::set_permissions(&program, Permissions::from_mode(0o700)).unwrap();
        let limit = Duration::from_secs(1);
        let error = check_within(limit, &program, Path::new("/"), &options, &scratch);
        let error = format!("{:#}", error.unwrap_err());
        assert!(error.contains("had not ended after 1 s"), "{error}");
    }

    #[test]
    fn findings_are_read() {
        let line = r#"{"level": "error", "subject": "agent", "text": "is \"gone\""}"#;
        let found = finding(line).unwrap();
        assert_eq!((&*found.level, &*found.text), ("error", "is \"gone\""));
        assert!(finding("error: agent").is_err());
    }
}

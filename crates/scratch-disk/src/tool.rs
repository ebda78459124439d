//! Programs of the image, run with nothing but what they need.

use std::ffi::OsStr;
use std::io::Write as _;
use std::process::{Command, Stdio};

use linux_sys::plugin_process::keep_standard_descriptors_only;

use crate::error::Error;

/// Where programs are looked for.
const PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";

/// The most that is repeated of a program's words.
const MAX_SAID_CHARS: usize = 300;

/// Runs a program to its end with `input` as its standard input; gives its standard output.
///
/// `action` says for messages what it is to do. What it writes is not the host's: it comes from the
/// measured image.
pub(crate) fn run<A: AsRef<OsStr>>(
    program: &'static str,
    action: &'static str,
    arguments: impl IntoIterator<Item = A>,
    input: &[u8],
) -> Result<String, Error> {
    let missing = |source| Error::Missing { program, source };
    let mut command = Command::new(program);
    command
        .args(arguments)
        .env_clear()
        // Nobody waits for udev, which guests need not have: the nodes are made at once.
        .envs([("PATH", PATH), ("LC_ALL", "C"), ("DM_DISABLE_UDEV", "1")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    keep_standard_descriptors_only(&mut command);
    let mut child = command.spawn().map_err(missing)?;
    if let Some(mut stdin) = child.stdin.take() {
        // One that ends without reading says why below.
        let _ = stdin.write_all(input);
    }
    let output = child.wait_with_output().map_err(missing)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let last = said.lines().map(str::trim).rfind(|line| !line.is_empty());
    let says = match last {
        Some(line) => line.chars().take(MAX_SAID_CHARS).collect(),
        None => output.status.to_string(),
    };
    Err(Error::Program {
        program,
        action,
        says,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_gets_its_input_and_tells_its_end() {
        let run = |script| run("sh", "does", ["-c", script], b"secret");
        assert_eq!(run("cat; echo $PATH").unwrap(), format!("secret{PATH}\n"));
        let error = run("echo one >&2; echo two >&2; exit 3").unwrap_err();
        assert_eq!(error.to_string(), "sh does: two");
        let error = run("exit 3").unwrap_err();
        assert_eq!(error.to_string(), "sh does: exit status: 3");
        let none = ["-c"; 0];
        let error = super::run("no-such-program", "does", none, b"").unwrap_err();
        assert!(error.to_string().contains("no-such-program"), "{error}");
    }
}

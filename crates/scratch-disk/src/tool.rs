//! Programs of the image, run with nothing but what they need.

use std::ffi::OsStr;
use std::io::Write as _;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};

use command_fds::{CommandFdExt as _, FdMapping};
use linux_sys::plugin_process::keep_standard_descriptors_only;

use crate::error::Error;

/// Where programs are looked for.
const PATH: &str = "/usr/sbin:/usr/bin:/sbin:/bin";

/// The descriptor at which a program has the file that it is given, and its path there.
const FILE_NUMBER: i32 = 3;
pub(crate) const FILE_PATH: &str = "/proc/self/fd/3";

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
    let mut command = Command::new(program);
    command.args(arguments);
    keep_standard_descriptors_only(&mut command);
    finish(program, action, command, input)
}

/// As [`run`], with a file at [`FILE_PATH`]. It has no other path: this process is not dumpable, so
/// that others may not look at its descriptors.
pub(crate) fn run_with_file<A: AsRef<OsStr>>(
    program: &'static str,
    action: &'static str,
    arguments: impl IntoIterator<Item = A>,
    input: &[u8],
    file: impl AsFd,
) -> Result<String, Error> {
    let missing = |source| Error::Missing { program, source };
    let mut command = Command::new(program);
    command.args(arguments);
    // In this order, so that the file is the one that is not closed.
    keep_standard_descriptors_only(&mut command);
    let mapping = FdMapping {
        parent_fd: file.as_fd().try_clone_to_owned().map_err(missing)?,
        child_fd: FILE_NUMBER,
    };
    command
        .fd_mappings(vec![mapping])
        .map_err(|error| missing(std::io::Error::other(error)))?;
    finish(program, action, command, input)
}

fn finish(
    program: &'static str,
    action: &'static str,
    mut command: Command,
    input: &[u8],
) -> Result<String, Error> {
    let missing = |source| Error::Missing { program, source };
    command
        .env_clear()
        // Nobody waits for udev, which guests need not have: the nodes are made at once.
        .envs([("PATH", PATH), ("LC_ALL", "C"), ("DM_DISABLE_UDEV", "1")])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
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

    /// The service is not dumpable, so without `CAP_SYS_PTRACE` not even a child may look at what
    /// it has open.
    #[test]
    fn a_program_gets_one_file_more() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"header").unwrap();
        let script = format!("cat {FILE_PATH}; for n in /proc/$$/fd/*; do echo ${{n##*/}}; done");
        let told = run_with_file("sh", "does", ["-c", &script], b"", &file).unwrap();
        let numbers = told.strip_prefix("header").unwrap();
        assert!(numbers.starts_with("0\n1\n2\n3\n"), "{told}");
    }

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

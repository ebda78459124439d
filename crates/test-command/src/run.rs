//! A program, run to its end.

use std::ffi::OsStr;
use std::io::Write;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// A built program, and what it may never print.
#[derive(Clone, Copy, Debug)]
pub struct Program {
    /// The program's file, by cargo's `CARGO_BIN_EXE_NAME`.
    pub path: &'static str,
    /// The secrets in the files of the tests.
    pub secrets: &'static [&'static str],
}

impl Program {
    /// Runs the program without input.
    #[must_use]
    pub fn run(&self, arguments: &[&str]) -> Run {
        self.finish(&mut self.command(arguments))
    }

    /// Runs the program with the arguments in `line`, which is divided at white space.
    #[must_use]
    pub fn run_line(&self, line: &str) -> Run {
        let arguments: Vec<&str> = line.split_whitespace().collect();
        self.run(&arguments)
    }

    /// Runs the program with `input`, of which it may read less than all.
    #[must_use]
    pub fn run_with(&self, arguments: &[&str], input: impl AsRef<[u8]>) -> Run {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let _ = child.stdin.take().unwrap().write_all(input.as_ref());
        self.check(child.wait_with_output().unwrap(), &command, false)
    }

    /// The program, not yet started.
    #[must_use]
    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.path);
        command.args(arguments).stdin(Stdio::null());
        command
    }

    /// Runs a [`Program::command`] that was changed, or another program with its arguments.
    pub fn finish(&self, command: &mut Command) -> Run {
        let output = command.output().unwrap();
        self.check(output, command, false)
    }

    /// Requires that no secret was printed, but to standard output where it may be and the program
    /// succeeded.
    #[track_caller]
    pub(crate) fn check(&self, output: Output, command: &Command, may_be: bool) -> Run {
        let arguments: Vec<&OsStr> = command.get_args().collect();
        let run = Run {
            code: output.status.code().expect("it ends by itself"),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
            arguments: format!("{arguments:?}"),
        };
        if !(may_be && run.code == 0) {
            self.keeps_secrets(&run.stdout);
        }
        self.keeps_secrets(&run.stderr);
        run
    }

    /// Requires that there is no secret in `text`.
    #[track_caller]
    pub fn keeps_secrets(&self, text: &str) {
        for secret in self.secrets {
            assert!(!text.contains(secret), "{secret} was printed");
        }
    }
}

/// How a program ended, and what it printed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// The exit code.
    pub code: i32,
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    arguments: String,
}

impl Run {
    /// Requires the exit code.
    #[track_caller]
    pub fn ends(&self, code: i32) -> &Self {
        assert_eq!(self.code, code, "{self:?}");
        self
    }

    /// Requires exit code 0 and nothing on standard error.
    #[track_caller]
    pub fn succeeds(&self) -> &Self {
        assert_eq!((self.code, self.stderr.as_str()), (0, ""), "{self:?}");
        self
    }

    /// Requires the exit code, nothing on standard output, and `parts` on standard error.
    #[track_caller]
    pub fn fails(&self, code: i32, parts: &[&str]) -> &Self {
        assert_eq!((self.code, self.stdout.as_str()), (code, ""), "{self:?}");
        self.says(parts)
    }

    /// Requires each of `parts` on standard output.
    #[track_caller]
    pub fn prints(&self, parts: &[&str]) -> &Self {
        for part in parts {
            assert!(self.stdout.contains(part), "no {part:?}: {self:?}");
        }
        self
    }

    /// Requires that standard output ends so.
    #[track_caller]
    pub fn prints_last(&self, part: &str) -> &Self {
        assert!(self.stdout.ends_with(part), "not at the end, {part:?}: {self:?}");
        self
    }

    /// Requires each of `parts` on standard error.
    #[track_caller]
    pub fn says(&self, parts: &[&str]) -> &Self {
        for part in parts {
            assert!(self.stderr.contains(part), "no {part:?}: {self:?}");
        }
        self
    }

    /// Standard output as JSON.
    #[must_use]
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| panic!("{error}: {self:?}"))
    }
}

//! The built command `kata-configdev`; no test lets a secret get out.

#![allow(dead_code, unused_imports, reason = "no test file uses all of it")]

use test_command::Program;
pub use test_command::{Folder, Run, sha256sum, skip};

/// Everything in the documents of these tests that must never be printed; the last is base64 of
/// "puller:hunter2-auth".
pub const SECRETS: [&str; 6] = [
    "hunter2-password",
    "hunter2-token",
    "hunter2-identity",
    "hunter2-proxy",
    "hunter2-auth",
    "cHVsbGVyOmh1bnRlcjItYXV0aA==",
];

pub const PROGRAM: Program =
    Program { path: env!("CARGO_BIN_EXE_kata-configdev"), secrets: &SECRETS };

/// Runs the program and requires that it prints no secret.
pub fn run(arguments: &[&str]) -> Run {
    PROGRAM.run(arguments)
}

/// [`run`] with the arguments in a text.
pub fn run_line(line: &str) -> Run {
    PROGRAM.run_line(line)
}

//! The pages of commands and all that they print: `cases/NAME.md`, with files in `cases/NAME`.

use test_command::Program;

#[test]
fn no_boot() {
    let path = env!("CARGO_BIN_EXE_configdev-smoke");
    Program { path, secrets: &[] }.cases("tests/cases/no_boot.md");
}

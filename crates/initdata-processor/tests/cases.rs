//! The pages of commands and all that they print: `cases/NAME.md`, with files in `cases/NAME`.

use test_command::Program;

#[test]
fn check_image() {
    let path = env!("CARGO_BIN_EXE_initdata-processor");
    Program { path, secrets: &[] }.cases("tests/cases/check_image.md");
}

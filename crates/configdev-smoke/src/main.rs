//! Says whether a guest image works.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(configdev_smoke::command::main())
}

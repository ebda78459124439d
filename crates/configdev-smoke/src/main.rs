//! Boots a guest image without KVM or a TEE, and says whether it works.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(configdev_smoke::command::main())
}

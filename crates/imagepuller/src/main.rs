//! `imagepuller`: see the library for what it does.

use std::process::ExitCode;

fn main() -> ExitCode {
    imagepuller::cli::main(std::env::args_os(), imagepuller::service::Timing::default())
}

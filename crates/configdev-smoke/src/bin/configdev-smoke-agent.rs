//! The stand-in for Kata's agent in a guest that `configdev-smoke` boots.

use std::process::ExitCode;

fn main() -> ExitCode {
    configdev_smoke::agent::run()
}

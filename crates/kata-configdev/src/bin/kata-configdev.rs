//! Checks registry configuration documents, packs them into images and shows what an image holds.

use std::process::ExitCode;

fn main() -> ExitCode {
    kata_configdev::panic_message::hide(kata_configdev::cli::NAME);
    kata_configdev::panic_message::contain(|| kata_configdev::cli::run(std::env::args_os()))
}

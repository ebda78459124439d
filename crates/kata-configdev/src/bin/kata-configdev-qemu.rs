//! Stands in QEMU's place in Kata's configuration: adds the sandbox's configuration disk and
//! becomes QEMU.

use std::ffi::OsString;
use std::process::ExitCode;

fn main() -> ExitCode {
    kata_configdev::panic_message::hide(kata_configdev::wrapper::NAME);
    kata_configdev::panic_message::contain(|| {
        let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
        kata_configdev::wrapper::run(&arguments)
    })
}

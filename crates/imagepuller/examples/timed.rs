//! `imagepuller` as tests start it: with `--attempts NUMBER`, `--stall-timeout SECONDS` and
//! `--linger SECONDS` anywhere among its arguments. The product has no such options.

use std::error::Error;
use std::process::ExitCode;
use std::time::Duration;

use imagepuller::service::Timing;

fn main() -> Result<ExitCode, Box<dyn Error>> {
    let (mut timing, mut arguments) = (Timing::default(), Vec::new());
    let mut given = std::env::args_os();
    while let Some(argument) = given.next() {
        let mut number = || given.next().unwrap_or_default().to_string_lossy().parse::<u32>();
        let patience = &mut timing.patience;
        match argument.to_str() {
            Some("--attempts") => patience.attempts = Some(number()?),
            Some("--stall-timeout") => {
                patience.stall = Duration::from_secs(number()?.into());
                patience.silence = patience.stall;
            }
            Some("--linger") => timing.linger = Duration::from_secs(number()?.into()),
            _ => arguments.push(argument),
        }
    }
    Ok(imagepuller::cli::main(arguments, timing))
}

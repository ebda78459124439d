//! The installer as a program of its own, for its tests: `node-installer
//! check|install|uninstall|watch CONFIGURATION [json]`.

use std::path::Path;
use std::process::ExitCode;

use node_installer::log::{self, Format};
use node_installer::{Error, Options, Outcome, install, uninstall, watch};

const USAGE: u8 = 64;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let (command, path, format) = match arguments[..] {
        [command, path] => (command, path, Format::Text),
        [command, path, "json"] => (command, path, Format::Json),
        _ => ("", "", Format::Text),
    };
    log::start(format);
    let result = match command {
        "check" => load(path).map(|_| Outcome::default()),
        "install" => load(path).and_then(|options| install(&options)),
        "uninstall" => load(path).and_then(|options| uninstall(&options)),
        "watch" => load(path).and_then(|options| watch::run(&options).map(|()| Outcome::default())),
        _ => return USAGE.into(),
    };
    match result {
        Ok(outcome) => {
            if !["check", "watch"].contains(&command) {
                outcome.report();
            }
            outcome.exit_code().into()
        }
        Err(error) => {
            log::error(&error);
            error.exit_code().into()
        }
    }
}

fn load(path: &str) -> Result<Options, Error> {
    Options::load(Path::new(path), |_| Ok(()))
}

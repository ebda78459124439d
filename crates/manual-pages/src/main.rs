//! Writes the pages for man and the completions for shells of all programs with commands:
//! `cargo run -p manual-pages DIR`.
//!
//! A program of its own, so that the programs in guests, which are measured, have nothing of it.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::CommandFactory;
use clap_complete::Shell;
use kata_configdev::cli::pages;
use kata_configdev::host_file::{FileError, FileFault};

fn main() -> ExitCode {
    let Some(directory) = std::env::args_os().nth(1).map(PathBuf::from) else {
        eprintln!("usage: manual-pages DIR");
        return ExitCode::from(64);
    };
    match write(&directory) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("manual-pages: failed to write {error}");
            ExitCode::from(69)
        }
    }
}

fn write(directory: &Path) -> Result<(), FileError> {
    for command in [
        kata_configdev::cli::command(),
        configdev_smoke::options::Options::command(),
        imagepuller::cli::Cli::command(),
        initdata_processor::cli::Cli::command(),
    ] {
        let name = command.get_name().to_owned();
        pages::write(command.clone(), &directory.join("man/man1"))?;
        for shell in [Shell::Bash, Shell::Zsh, Shell::Fish] {
            let place = directory.join("completions").join(shell.to_string());
            let text = pages::completions(command.clone(), &name, shell);
            let file = place.join(&name);
            std::fs::create_dir_all(&place)
                .and_then(|()| std::fs::write(&file, text))
                .map_err(|error| FileFault::from(error).at(&file))?;
        }
    }
    Ok(())
}

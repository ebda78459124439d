//! Pages for man and completions for shells, made of the command lines themselves.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Args, Command, CommandFactory};
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};

use crate::cli::{Cli, CommandError, NAME};
use crate::host_file::{FileError, FileFault};

/// Prints the completions of this command line for a shell.
#[derive(Args, Debug)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  kata-configdev completions bash > /usr/share/bash-completion/completions/kata-configdev
  kata-configdev completions zsh > /usr/local/share/zsh/site-functions/_kata-configdev"
)]
pub struct Completions {
    /// The shell.
    shell: Shell,
}

/// Writes the pages of this program for man: one of its own, one for each command.
#[derive(Args, Debug)]
#[command(
    name = "man",
    verbatim_doc_comment,
    after_help = "\
Example:
  kata-configdev man --output /usr/local/share/man/man1"
)]
pub struct Pages {
    /// The directory for the pages, which is made where it is missing.
    #[arg(long, value_name = "DIR")]
    output: PathBuf,
}

/// Prints the completions.
pub fn complete(arguments: &Completions, out: &mut impl Write) -> Result<u8, CommandError> {
    out.write_all(&completions(Cli::command(), NAME, arguments.shell))?;
    Ok(0)
}

/// Writes the pages.
pub fn pages(arguments: &Pages) -> Result<u8, CommandError> {
    write(Cli::command(), &arguments.output).map_err(CommandError::Output)?;
    Ok(0)
}

/// The completions of the program `name` for a shell.
#[must_use]
pub fn completions(mut command: Command, name: &str, shell: Shell) -> Vec<u8> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut command, name, &mut text);
    text
}

/// Writes the pages of a program and of its commands into `directory`: `PROGRAM-COMMAND.1`.
///
/// # Errors
///
/// [`FileError`].
pub fn write(command: Command, directory: &Path) -> Result<(), FileError> {
    std::fs::create_dir_all(directory).map_err(|error| FileFault::from(error).at(directory))?;
    let mut command = command.disable_help_subcommand(true);
    command.build();
    let version = command.get_version().unwrap_or_default();
    let source = format!("{} {version}", command.get_name());
    write_all(&command, &source, directory)
}

/// Commands have few levels, which are the program's own.
fn write_all(command: &Command, source: &str, directory: &Path) -> Result<(), FileError> {
    for inner in command.get_subcommands().filter(|inner| !inner.is_hide_set()) {
        write_all(inner, source, directory)?;
    }
    let man = Man::new(command.clone()).source(source);
    let path = directory.join(man.get_filename());
    let page = page(command, &man).map_err(FileFault::from);
    page.and_then(|page| Ok(std::fs::write(&path, page)?)).map_err(|fault| fault.at(&path))
}

fn page(command: &Command, man: &Man) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if command.has_subcommands() {
        man.render_subcommands_section(&mut page)?;
    }
    if let Some(text) = command.get_after_help() {
        after_help(&text.to_string()).to_writer(&mut page)?;
    }
    Ok(page)
}

/// What stands behind the options: a section for each line that ends in a colon, whose lines stay
/// as they are. Examples are to be copied.
fn after_help(text: &str) -> Roff {
    let mut roff = Roff::new();
    let mut is_filled = true;
    for line in text.lines() {
        match line.strip_suffix(':').filter(|line| !line.starts_with(' ')) {
            Some(heading) => {
                if !is_filled {
                    roff.control("fi", []);
                }
                roff.control("SH", [heading.to_uppercase().as_str()]);
                roff.control("nf", []);
                is_filled = false;
            }
            None if line.is_empty() => {
                roff.control("sp", []);
            }
            None => {
                roff.text([roman(line)]);
            }
        }
    }
    if !is_filled {
        roff.control("fi", []);
    }
    roff
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// The names of the pages that there have to be.
    fn names(command: &Command, prefix: &str, names: &mut BTreeSet<String>) {
        let name = format!("{prefix}{}", command.get_name());
        for inner in command.get_subcommands() {
            names_of(inner, &name, names);
        }
        names.insert(format!("{name}.1"));
    }

    fn names_of(command: &Command, parent: &str, all: &mut BTreeSet<String>) {
        names(command, &format!("{parent}-"), all);
    }

    #[test]
    fn every_command_has_a_page_without_raw_text() {
        let folder = tempfile::tempdir().unwrap();
        let directory = folder.path().join("man/man1");
        write(Cli::command(), &directory).unwrap();
        let mut expected = BTreeSet::new();
        names(&Cli::command(), "", &mut expected);
        let mut found = BTreeSet::new();
        for entry in std::fs::read_dir(&directory).unwrap() {
            let path = entry.unwrap().path();
            let page = std::fs::read_to_string(&path).unwrap();
            let is_raw = |character: char| character.is_control() && character != '\n';
            assert!(!page.contains(is_raw), "{}", path.display());
            assert!(page.contains(".SH NAME"), "{}", path.display());
            assert!(page.contains("\"kata-configdev 0"), "{}", path.display());
            found.insert(path.file_name().unwrap().to_str().unwrap().to_owned());
        }
        assert_eq!(found, expected);
        assert!(found.contains("kata-configdev-import-docker-config.1"));
    }

    #[test]
    fn examples_keep_their_lines() {
        let text = "Exit codes:\n  0  done\n\nExamples:\n  a |\n    .b\n";
        let page = after_help(text).render();
        let lines: Vec<_> = page.lines().skip_while(|line| *line != ".nf").collect();
        assert_eq!(lines[1], "  0  done");
        assert!(page.contains(".SH \"EXIT CODES\""), "{page}");
        assert!(lines.contains(&"  a |"), "{page}");
    }
}

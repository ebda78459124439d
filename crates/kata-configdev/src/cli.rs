//! The command line `kata-configdev`.

mod attach;
mod check;
mod config;
mod credential_provider;
mod detach;
mod doctor;
mod error;
mod explain;
pub(crate) mod finding;
mod foreign_kind;
mod import;
mod inspect;
mod install;
mod json;
mod new;
mod node_agent;
mod pack;
pub mod pages;
mod policy;
mod providers;
mod root_dates;
mod secrets;
mod sweep;
mod update;

use std::ffi::OsString;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Args, CommandFactory, Parser, Subcommand};
use foreign_text::one_line;

pub use self::error::{CommandError, UsageError};

use self::json::print as print_json;
use crate::exit;

/// The program's name in its messages.
pub const NAME: &str = "kata-configdev";

/// Checks registry configuration documents for Kata VMs, explains them, packs them into disk
/// images, attaches those to sandboxes, updates them there and shows what an image holds.
///
/// A document is a TOML file with the credentials, CA certificates, mirrors and proxies that the
/// image puller inside a VM needs. The node puts it on a small read-only disk of the VM;
/// kata-configdev-qemu does that for every sandbox that Kata starts.
///
/// Passwords and tokens stand in documents only. No command takes one as an argument. Only `new`,
/// `import`, `secrets combine` and `credential-provider` print some: documents, a docker
/// configuration, and answers for the kubelet. No other command prints one.
#[derive(Debug, Parser)]
#[command(name = NAME, version, long_version = program_version::VERSION)]
#[command(after_help = AFTER_HELP, verbatim_doc_comment)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "\
Exit codes:
  0   done
  64  wrong arguments
  65  a document, an image, the settings or a sandbox's spec is not valid, or cannot be read;
      doctor: there is a fault
  69  an output cannot be written, an image not be put in its place,
      changed or removed, no loop device be had; check and pins --ask: a
      registry is not reached or denies access, or imagepuller is not there
  70  internal error

Examples:
  kata-configdev new --registry registry.corp --ca corp.pem > imagepuller.toml
  kata-configdev import docker-config ~/.docker/config.json > imagepuller.toml
  kata-configdev check --strict imagepuller.toml
  kata-configdev explain --config imagepuller.toml registry.corp/team/app
  kata-configdev pack --config imagepuller.toml --output imagepuller.img
  kata-configdev inspect imagepuller.img";

#[derive(Debug, Subcommand)]
enum Command {
    New(new::Arguments),
    Check(check::Arguments),
    Explain(explain::Arguments),
    Pack(Pack),
    Inspect(Inspect),
    Import(import::Import),
    Secrets(secrets::Secrets),
    Config(config::Arguments),
    Doctor(doctor::Arguments),
    CredentialProvider(credential_provider::Arguments),
    Providers(providers::Arguments),
    Policy(policy::Arguments),
    Attach(attach::Arguments),
    Update(update::Arguments),
    Detach(detach::Arguments),
    Sweep(sweep::Arguments),
    Install(install::Install),
    NodeAgent(node_agent::Arguments),
    Uninstall(install::Uninstall),
    Completions(pages::Completions),
    Man(pages::Pages),
}

/// Packs a valid document into a disk image.
///
/// The image holds the credentials of the document, so it gets mode 0600. It appears under its name
/// all at once, and replaces a regular file only, never the document itself. The same document
/// always gives the same bytes.
#[derive(Args, Debug)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  kata-configdev pack --config imagepuller.toml --output imagepuller.img

The image attached by hand:
  qemu-system-x86_64 ... \\
    -blockdev driver=raw,node-name=ip,read-only=on,file.driver=file,file.filename=imagepuller.img \\
    -device virtio-blk-pci,drive=ip,serial=imagepuller"
)]
struct Pack {
    /// The document.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// The image to write.
    #[arg(long, value_name = "FILE")]
    output: PathBuf,
    /// Print one JSON object: path, and bytes and sha256 of image and document.
    #[arg(long)]
    json: bool,
}

/// Shows what an image holds, without its secrets.
///
/// Works for registry configurations (magic "imgpullr") and for initdata (magic "initdata"), from a
/// file or a block device. A configuration is shown with every secret replaced; of initdata the
/// digests and the keys of [data] are shown.
#[derive(Args, Debug)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  kata-configdev inspect imagepuller.img
  kata-configdev inspect --json /dev/disk/by-id/virtio-imagepuller"
)]
struct Inspect {
    /// The image, or a block device that holds one.
    file: PathBuf,
    /// Print one JSON object: path, magic, lengths, digests, document.
    #[arg(long)]
    json: bool,
}

/// The whole command line, for what is made of it.
#[must_use]
pub fn command() -> clap::Command {
    Cli::command()
}

/// Runs the program with `arguments`, its own name first, and says how it ends.
#[must_use]
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> ExitCode {
    let arguments: Vec<OsString> = arguments.into_iter().collect();
    if let [_, only] = arguments.as_slice()
        && only == crate::providers::child::ARGUMENT
    {
        return crate::providers::child::run();
    }
    let cli = match Cli::try_parse_from(arguments) {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are errors to clap, but not to the user.
            let code = if error.use_stderr() { exit::USAGE } else { 0 };
            // Where the output is closed there is no place left to report that.
            let _ = error.print();
            return code.into();
        }
    };
    let mut stdout = io::stdout().lock();
    let result = match cli.command {
        Command::New(arguments) => new::run(&arguments, &mut stdout),
        Command::Check(arguments) => check::run(&arguments, &mut stdout),
        Command::Pack(Pack { config, output, json }) => {
            pack::run(&config, &output, json, &mut stdout)
        }
        Command::Inspect(Inspect { file, json }) => inspect::run(&file, json, &mut stdout),
        Command::Import(arguments) => import::run(&arguments, &mut stdout),
        Command::Secrets(arguments) => secrets::run(&arguments, &mut stdout),
        Command::Explain(arguments) => explain::run(&arguments, &mut stdout),
        Command::Config(arguments) => config::run(&arguments, &mut stdout),
        Command::Doctor(arguments) => doctor::run(&arguments, &mut stdout),
        Command::CredentialProvider(arguments) => credential_provider::run(&arguments, &mut stdout),
        Command::Providers(arguments) => providers::run(&arguments, &mut stdout),
        Command::Policy(arguments) => policy::run(&arguments, &mut stdout),
        Command::Attach(arguments) => attach::run(&arguments, &mut stdout),
        Command::Update(arguments) => update::run(&arguments, &mut stdout),
        Command::Detach(arguments) => detach::run(&arguments, &mut stdout),
        Command::Sweep(arguments) => sweep::run(&arguments, &mut stdout),
        // The installer logs, and its exit codes follow the same table.
        Command::Install(arguments) => Ok(arguments.run()),
        Command::NodeAgent(arguments) => arguments.run(&mut stdout),
        Command::Uninstall(arguments) => Ok(arguments.run()),
        Command::Completions(arguments) => pages::complete(&arguments, &mut stdout),
        Command::Man(arguments) => pages::pages(&arguments),
    };
    let code = result.and_then(|code| Ok(stdout.flush().map(|()| code)?));
    code.unwrap_or_else(|error| report(&error)).into()
}

/// Says on standard error why a command fails, and gives its exit code.
fn report(error: &CommandError) -> u8 {
    // A reader that closed the pipe (`| head`) has what it wanted.
    let closed =
        matches!(error, CommandError::Print(source) if source.kind() == io::ErrorKind::BrokenPipe);
    if !closed {
        let line = format!("{NAME}: failed to {error}: {}", error.remedy());
        let _ = writeln!(io::stderr(), "{}", one_line(&line));
    }
    error.exit_code()
}

/// Prints the members as an indented JSON object, in their order.
fn print_object<const N: usize>(
    out: &mut impl Write,
    members: [(&str, serde_json::Value); N],
) -> Result<(), CommandError> {
    struct Members<'a>(&'a [(&'a str, serde_json::Value)]);

    impl serde::Serialize for Members<'_> {
        fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            serializer.collect_map(self.0.iter().map(|(key, value)| (key, value)))
        }
    }

    print_json(out, &Members(&members))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}

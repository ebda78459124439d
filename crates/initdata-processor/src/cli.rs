//! The command line.

use std::path::{Path, PathBuf};

use clap::{Args, Parser, Subcommand};

use crate::journal::Log;
use crate::paths::Paths;
use crate::{boot, refresh};

/// Exit code for a wrong command line.
pub const USAGE: u8 = 64;

const EXIT_CODES: &str = "\
Exit codes:
   0  done
  64  wrong command line
  65  initdata was refused; the deny-all policy with the reason is in place
  70  the outcome could not be written below /run, a device node of initdata could not be
      taken away, or an internal error; then the deny-all policy names the place in the source, and
      the image puller refuses to pull

A configuration that is refused keeps nobody off: its reason is what the image puller answers.";

const REFRESH_EXIT_CODES: &str = "\
Exit codes:
  64  wrong command line
  65  initdata was refused, or this guest's settings have a mistake
  69  the boot found no read-only disk with the magic
  70  the socket or another run's lock cannot be had, or an internal error

Example:
  initdata-processor refresh --listen unix:/run/initdata-processor/imagepuller.socket &";

/// Verify initdata against the TEE, then copy the configuration disks into place.
///
/// Runs once in the guest, as root, before the agent. Looks at every whole disk; the first
/// eight bytes say what a disk is for.
///
/// "initdata": the document's digest must be the one that the host announced at launch (SNP
/// HOSTDATA or TDX MRCONFIGID, read from the local report). Then every entry of its data table
/// becomes a file in /run/measured-cfg. If anything is wrong, /run/measured-cfg/policy.rego becomes
/// a policy that denies every request and names the reason. No disk is fine only if the announced
/// value is all zero. The policy stands there from the start, so a killed program leaves a closed
/// guest. Where nothing is wrong and initdata brings no policy, the image's own stands there,
/// /etc/kata-opa/default-policy.rego; without that file, a policy that denies every request. The
/// device nodes of disks with that magic go to /dev/.initdata, so that no agent reads them once
/// more; with accepted-disk = "keep" in the settings all but the accepted disk's.
///
/// "imgpullr": the image puller's configuration, verified by nothing. It becomes
/// /run/insecure-cfg/imagepuller.toml (0600). If it is unusable,
/// /run/insecure-cfg/imagepuller.error names the reason and the image puller refuses to pull. No
/// disk means no configuration. /etc/initdata-processor.toml can name the owner of the files,
/// another default policy, and what an agent finds of accepted initdata.
///
/// A disk that is expected and not there yet is waited for: one that the kernel parameter
/// configdev.expect=NAME,NAME... names (initdata, imagepuller), and initdata wherever the host
/// announced it. One that is expected and does not come is refused, like one that is unusable.
///
/// Before the first disk is read the program gives up capabilities, files (Landlock) and system
/// calls (seccomp) that it does not need.
///
/// Without a TEE, a disk with initdata is refused unless the kernel command line holds
/// configdev.allow_unverified_initdata=1; without such a disk there is nothing to verify. In an SNP
/// or TDX guest that parameter has no effect: until the guest's driver is there, initdata is
/// refused, so load the driver first. SEV and SEV-ES
/// without SNP, and a guest whose paravisor hides the TEE from the kernel, count as no TEE.
#[derive(Debug, Parser)]
#[command(version, long_version = program_version::VERSION)]
#[command(verbatim_doc_comment, after_help = EXIT_CODES)]
#[command(args_conflicts_with_subcommands = true)]
pub struct Cli {
    /// Something else than the run at boot
    #[command(subcommand)]
    pub command: Option<Command>,

    /// What every command takes.
    #[command(flatten)]
    pub common: CommonOptions,
}

/// What there is besides the run at boot.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Read the configuration disk again whenever the image puller asks, and replace its file if it
    /// differs
    ///
    /// For what the host renews in a running guest (kata-configdev update). Each connection to
    /// SOCKET is a question, answered with one word: replaced, unchanged, removed, or failed; then
    /// the log has the reason, and the file stays as it is. Reads the very disk that the boot
    /// found, and only if it is read-only: what a container writes to a volume is not believed.
    /// Reads the device itself, not the page cache. A disk that makes no sense is read again for
    /// two seconds, since the host may be writing it just now. Nothing is accepted in a guest whose
    /// initdata was refused.
    #[command(verbatim_doc_comment, after_help = REFRESH_EXIT_CODES)]
    Refresh {
        /// Where to listen, as unix:PATH; what is there is replaced
        #[arg(long, value_name = "SOCKET", value_parser = socket)]
        listen: PathBuf,

        /// What every command takes.
        #[command(flatten)]
        common: CommonOptions,
    },
}

/// What every command takes.
#[derive(Args, Clone, Debug)]
pub struct CommonOptions {
    /// Look for sys, dev, proc, etc and run below DIR instead of /
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub root: PathBuf,

    /// Also look at loop devices, for tests; a guest has no reason to
    #[arg(long)]
    pub include_loop: bool,

    /// Where log lines go
    #[arg(long, value_name = "WHERE", default_value = "stderr")]
    pub log: Log,

    /// Also log every disk that was passed over, with the reason
    #[arg(short, long)]
    pub verbose: bool,
}

impl Cli {
    /// The options of whichever command.
    #[must_use]
    pub fn common(&self) -> &CommonOptions {
        match &self.command {
            Some(Command::Refresh { common, .. }) => common,
            None => &self.common,
        }
    }
}

impl CommonOptions {
    /// What [`boot::run`] needs to know.
    #[must_use]
    pub fn boot(&self) -> boot::Options {
        let paths = Paths::below(&self.root);
        boot::Options { paths, include_loop: self.include_loop, sandbox: true }
    }

    /// What [`refresh::serve`] needs to know.
    #[must_use]
    pub fn refresh(&self, socket: &Path) -> refresh::Options {
        let paths = Paths::below(&self.root);
        refresh::Options { paths, socket: socket.to_owned(), include_loop: self.include_loop }
    }
}

fn socket(text: &str) -> Result<PathBuf, String> {
    let path = text.strip_prefix("unix:").filter(|path| path.starts_with('/'));
    path.map(PathBuf::from).ok_or_else(|| "expected unix:PATH with an absolute path".to_owned())
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
        let options = Cli::parse_from(["x"]).common().boot();
        assert_eq!(options.paths, Paths::below("/"));
        assert!(options.sandbox);
        for wrong in [
            ["x", "extra"].as_slice(),
            &["x", "refresh"],
            &["x", "refresh", "--listen", "/run/x.socket"],
            &["x", "refresh", "--listen", "unix:x.socket"],
            &["x", "--log", "kmsg", "refresh", "--listen", "unix:/s"],
        ] {
            assert!(Cli::try_parse_from(wrong).is_err(), "{wrong:?}");
        }
        let refresh = Cli::parse_from(["x", "refresh", "--listen", "unix:/s", "--root", "/r"]);
        assert_eq!(refresh.common().root, PathBuf::from("/r"));
    }
}

//! The command line.

use std::path::PathBuf;

use clap::Parser;

use crate::Options;
use crate::paths::Paths;

/// Exit code for a wrong command line.
pub const USAGE: u8 = 64;

const EXIT_CODES: &str = "\
Exit codes:
   0  done, also when initdata was refused and the deny-all policy is in place
  64  wrong command line
  65  initdata or the configuration was refused (only with --strict-exit)
  70  the outcome could not be written below /run, or an internal error; after an internal error
      the deny-all policy names the place in the source, and the image puller refuses to pull";

/// Verify initdata against the TEE, then copy the configuration disk into place.
///
/// Runs once in the guest, as root, before the agent. Looks at every whole disk; the first
/// eight bytes say what a disk is for.
///
/// "initdata": the document's digest must be the one that the host announced at launch (SNP
/// HOSTDATA or TDX MRCONFIGID, read from the local report). Then every entry of its data table
/// becomes a file in /run/measured-cfg. If anything is wrong, /run/measured-cfg/policy.rego becomes a policy
/// that denies every request and names the reason. No disk is fine only if the announced value is
/// all zero.
///
/// "imgpullr": the image puller's configuration, verified by nothing. It becomes
/// /run/insecure-cfg/imagepuller.toml (0600). If it is unusable,
/// /run/insecure-cfg/imagepuller.error names the reason and the image puller refuses to pull. No
/// disk means no configuration.
///
/// Without a TEE, initdata is refused unless the kernel command line holds
/// configdev.allow_unverified_initdata=1. In an SNP or TDX guest that parameter has no effect: until
/// its driver has made /dev/sev-guest or /dev/tdx_guest, initdata is refused, so load the driver
/// first. SEV and SEV-ES without SNP, and a guest whose paravisor hides the TEE from the kernel,
/// count as no TEE.
#[derive(Debug, Parser)]
#[command(version, verbatim_doc_comment, after_help = EXIT_CODES)]
pub struct Cli {
    /// Look for sys, dev, proc and run below DIR instead of /
    #[arg(long, value_name = "DIR", default_value = "/")]
    pub root: PathBuf,

    /// Also look at loop devices, for tests; a guest has no reason to
    #[arg(long)]
    pub include_loop: bool,

    /// Exit with 65 instead of 0 when initdata or the configuration was refused
    #[arg(long)]
    pub strict_exit: bool,

    /// Also log every disk that was passed over, with the reason
    #[arg(short, long)]
    pub verbose: bool,
}

impl Cli {
    /// What [`crate::run`] needs to know.
    #[must_use]
    pub fn options(&self) -> Options {
        Options {
            paths: Paths::below(&self.root),
            include_loop: self.include_loop,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        Cli::command().debug_assert();
        assert_eq!(Cli::parse_from(["x"]).options().paths, Paths::below("/"));
        assert!(Cli::try_parse_from(["x", "--strict-exit", "extra"]).is_err());
    }
}

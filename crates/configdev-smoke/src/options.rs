//! The command line.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use vm_harness::vector::Vector;

use crate::verdict::EXIT_CODES;

/// Where stock agents of Kata's ask for images.
pub const CDH_SOCKET: &str = "/run/confidential-containers/cdh.sock";

const USAGE: &str = "configdev-smoke --kernel <FILE> --initrd <FILE> [OPTIONS]
       configdev-smoke --no-boot <ROOT> [--agent <PATH>] [--append <TEXT>] \
                     [--kernel-config <FILE>] [--json] [--junit <FILE>]";

const EXAMPLES: &str = "\
Examples:
  configdev-smoke --kernel vmlinuz --initrd guest.img \\
      --append 'agent.guest_components_procs=none'
  configdev-smoke --kernel vmlinuz --initrd guest.img --expect refused --junit smoke.xml
  configdev-smoke --kernel vmlinuz --initrd guest.img --document imagepuller.toml \\
      --pull registry.example.com/team/app@sha256:...
  configdev-smoke --no-boot rootfs --kernel-config linux/.config \\
      --append 'agent.guest_components_procs=none'";

/// What has no meaning without a boot.
const OF_A_BOOT: [&str; 13] = [
    "kernel",
    "initrd",
    "initdata",
    "document",
    "pull",
    "expect",
    "runtime",
    "socket",
    "cpu",
    "memory",
    "timeout",
    "keep_console",
    "qemu",
];

/// Boot a guest image without KVM or a TEE, and say whether it works.
///
/// Starts the kernel and the initrd in QEMU's emulation as Kata starts them: a recorded command
/// line of a runtime, through kata-configdev-qemu, with the initdata disk and the disk of the
/// document. A stand-in for Kata's agent is laid over the image in a second archive, which the
/// kernel unpacks over the first; it does what the agent does (mounts, policy, guest components,
/// one connection, PullImage) and tells what it sees. The image is not changed.
///
/// Where --pull names no image, a registry with a password and a private CA runs in this program,
/// and the guest reaches nothing else. There is no TEE here, so initdata counts only by the kernel
/// parameter configdev.allow_unverified_initdata=1, which is added where there is initdata, except
/// with --expect refused.
///
/// Prints one line for each part. Needs QEMU (qemu-system-x86_64) and setpriv, no root.
/// What is wrong with the image's files --no-boot says, of the root that they are made from.
///
/// With --no-boot it looks at files alone, without QEMU: whether the agent knows policies and looks
/// for initdata itself, whether units, drop-ins (or the script that is the first program) and
/// settings fit to that, who listens where the agent asks for images, and whether the kernel has
/// what the programs need. Prints one line for each finding. Runs nothing of the image, and follows
/// no link out of it.
#[derive(Clone, Debug, Parser)]
#[command(name = "configdev-smoke", version, long_version = program_version::VERSION)]
#[command(verbatim_doc_comment, override_usage = USAGE)]
#[command(after_help = format!("{EXIT_CODES}\n\n{EXAMPLES}"))]
pub struct Options {
    /// Look at the files of an image below ROOT, and boot nothing
    #[arg(long, value_name = "ROOT", conflicts_with_all = OF_A_BOOT)]
    pub no_boot: Option<PathBuf>,

    /// The guest's kernel
    #[arg(long, value_name = "FILE", required_unless_present = "no_boot")]
    pub kernel: Option<PathBuf>,

    /// The guest's initrd: newc archives, plain or compressed
    #[arg(long, value_name = "FILE", required_unless_present = "no_boot")]
    pub initrd: Option<PathBuf>,

    /// The agent in the image, whose place the stand-in takes
    #[arg(long, value_name = "PATH", default_value = "/usr/bin/kata-agent")]
    pub agent: PathBuf,

    /// More kernel parameters: those of kernel_params in Kata's configuration
    #[arg(long, value_name = "TEXT")]
    pub append: Option<String>,

    /// The initdata document; "none" for no initdata disk; without this option one with a policy
    #[arg(long, value_name = "FILE")]
    pub initdata: Option<PathBuf>,

    /// The node's document; without this option one for the registry in this program
    #[arg(long, value_name = "FILE")]
    pub document: Option<PathBuf>,

    /// The image to pull, from where this machine can reach it
    #[arg(long, value_name = "REF")]
    pub pull: Option<String>,

    /// What the guest is to end up as
    #[arg(long, value_name = "STATE", default_value = "ready")]
    pub expect: Expect,

    /// Whose command line
    #[arg(long, value_name = "RUNTIME", default_value = "go")]
    pub runtime: Runtime,

    /// The socket that the agent asks for images
    #[arg(long, value_name = "PATH")]
    #[arg(default_value = CDH_SOCKET)]
    pub socket: String,

    /// The processor, as QEMU names it; max,-cx16 for Linux 6.12 and later on QEMU 7
    #[arg(long, value_name = "MODEL", default_value = "max")]
    pub cpu: String,

    /// The guest's memory in MiB
    #[arg(long, value_name = "MIB", default_value_t = 1024)]
    #[arg(value_parser = clap::value_parser!(u32).range(128..=16_384))]
    pub memory: u32,

    /// The most seconds that the guest may take
    #[arg(long, value_name = "SECONDS", default_value_t = 180)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=7200))]
    pub timeout: u64,

    /// Print each finding as a JSON object, on a line of its own
    #[arg(long)]
    pub json: bool,

    /// Write a JUnit report as well
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,

    /// Keep what the guest wrote to its console; without this option its end is printed on failure
    #[arg(long, value_name = "FILE")]
    pub keep_console: Option<PathBuf>,

    /// The kernel's configuration, where it is not boot/config-* of the image; with --no-boot
    #[arg(long, value_name = "FILE", conflicts_with = "kernel")]
    pub kernel_config: Option<PathBuf>,

    /// The hypervisor
    #[arg(long, value_name = "FILE", default_value = "/usr/bin/qemu-system-x86_64")]
    pub qemu: PathBuf,
}

/// What the guest is to end up as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Expect {
    /// Initdata is accepted, the document is in place, a pull with its account works
    Ready,
    /// Initdata is refused: deny-all policy or no agent, and no pull
    Refused,
    /// No document: the same as ready, but a pull has no account
    Anonymous,
}

/// Whose command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Runtime {
    /// Kata's Go runtime: initdata is a virtio-blk disk
    Go,
    /// Kata's Rust runtime: initdata is a SCSI disk without a serial
    Rs,
}

impl Runtime {
    /// The recorded command line.
    #[must_use]
    pub fn vector(self) -> Vector {
        match self {
            Self::Go => Vector::of_text(
                "go-coco-dev-extension",
                include_str!("../../../qemu-fixtures/arguments/go-coco-dev-extension"),
            ),
            Self::Rs => Vector::of_text(
                "runtime-rs-coco-dev-initdata",
                include_str!("../../../qemu-fixtures/arguments/runtime-rs-coco-dev-initdata"),
            ),
        }
    }
}

impl Options {
    /// Whether the caller wants no initdata disk.
    #[must_use]
    pub fn is_without_initdata(&self) -> bool {
        self.initdata.as_ref().is_some_and(|path| path.as_os_str() == "none")
    }

    /// Whether the kernel parameter is added by which a guest without a TEE accepts initdata.
    #[must_use]
    pub fn adds_unverified(&self) -> bool {
        self.expect != Expect::Refused && !self.is_without_initdata() && !self.says_unverified()
    }

    fn says_unverified(&self) -> bool {
        let append = self.append.as_deref().unwrap_or_default();
        append.contains("configdev.allow_unverified_initdata")
    }

    /// What does not go together, and clap cannot say.
    #[must_use]
    pub fn problem(&self) -> Option<&'static str> {
        match self.expect {
            Expect::Refused if self.says_unverified() => {
                Some("--expect refused and configdev.allow_unverified_initdata in --append")
            }
            Expect::Refused if self.is_without_initdata() => {
                Some("--expect refused and --initdata none: nothing is there to be refused")
            }
            Expect::Anonymous if self.document.is_some() => {
                Some("--expect anonymous and --document")
            }
            _ if !self.agent.is_absolute() => Some("--agent is no absolute path"),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_definition_is_consistent() {
        Options::command().debug_assert();
        let base = ["x", "--kernel", "k", "--initrd", "i"];
        let parse = |more: &[&str]| Options::try_parse_from(base.iter().chain(more));
        let options = parse(&[]).unwrap();
        assert_eq!((options.expect, options.problem()), (Expect::Ready, None));
        assert!(parse(&["--kernel-config", "c"]).is_err());
        assert!(parse(&["--memory", "1"]).is_err());
        assert!(Options::try_parse_from(["x"]).is_err());
        assert!(Options::try_parse_from(["x", "--no-boot", "r", "--kernel", "k"]).is_err());
        assert!(Options::try_parse_from(["x", "--no-boot", "r", "--cpu", "max"]).is_err());
        assert!(Options::try_parse_from(["x", "--no-boot", "r", "--append", "a"]).is_ok());
        for (more, word) in [
            (&["--expect", "anonymous", "--document", "d"][..], "--document"),
            (&["--expect", "refused", "--initdata", "none"], "nothing is there"),
            (
                &["--expect", "refused", "--append", "configdev.allow_unverified_initdata=1"],
                "--append",
            ),
            (&["--agent", "bin/agent"], "absolute"),
        ] {
            let problem = parse(more).unwrap().problem().unwrap_or_default();
            assert!(problem.contains(word), "{problem}");
        }
    }
}

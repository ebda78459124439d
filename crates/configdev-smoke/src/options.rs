//! The command line.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use vm_harness::vector::Vector;

use crate::exit;

const EXAMPLES: &str = "\
Examples:
  configdev-smoke --kernel vmlinuz --initrd guest.img \\
      --append 'agent.guest_components_procs=none'
  configdev-smoke --kernel vmlinuz --initrd guest.img --expect refused --junit smoke.xml
  configdev-smoke --kernel vmlinuz --root rootfs --document imagepuller.toml \\
      --pull registry.example.com/team/app@sha256:...";

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
/// Prints one line for each part; what initdata-processor check-image finds in the same image
/// stands beside them. Needs QEMU (qemu-system-x86_64) and setpriv, no root.
#[derive(Clone, Debug, Parser)]
#[command(name = "configdev-smoke", version, long_version = program_version::VERSION)]
#[command(verbatim_doc_comment)]
#[command(after_help = help_end())]
pub struct Options {
    /// The guest's kernel
    #[arg(long, value_name = "FILE")]
    pub kernel: PathBuf,

    /// The guest's initrd: newc archives, plain or compressed
    #[arg(long, value_name = "FILE", required_unless_present = "root")]
    pub initrd: Option<PathBuf>,

    /// A root directory, packed into an initrd
    #[arg(long, value_name = "DIR", conflicts_with = "initrd")]
    pub root: Option<PathBuf>,

    /// The agent in the image, whose place the stand-in takes
    #[arg(long, value_name = "PATH", default_value = "/usr/bin/kata-agent")]
    pub agent: PathBuf,

    /// More kernel parameters: those of kernel_params in Kata's configuration
    #[arg(long, value_name = "TEXT", default_value = "")]
    pub append: String,

    /// The initdata document; "none" for no initdata disk; without this option one with a policy
    #[arg(long, value_name = "FILE")]
    pub initdata: Option<PathBuf>,

    /// The node's document; without this option one for the registry in this program
    #[arg(long, value_name = "FILE")]
    pub document: Option<PathBuf>,

    /// A further disk, attached read-only as a volume of a pod; may come several times
    #[arg(long, value_name = "FILE")]
    pub disk: Vec<PathBuf>,

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
    #[arg(default_value = "/run/confidential-containers/cdh.sock")]
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

    /// One JSON object instead of lines
    #[arg(long)]
    pub json: bool,

    /// Write a JUnit report as well
    #[arg(long, value_name = "FILE")]
    pub junit: Option<PathBuf>,

    /// Keep what the guest wrote to its console; without this option it is kept on failure, in a new
    /// file of TMPDIR, and its end is printed
    #[arg(long, value_name = "FILE")]
    pub keep_console: Option<PathBuf>,

    /// The kernel's configuration, for check-image
    #[arg(long, value_name = "FILE")]
    pub kernel_config: Option<PathBuf>,

    /// The hypervisor
    #[arg(long, value_name = "FILE", default_value = "/usr/bin/qemu-system-x86_64")]
    pub qemu: PathBuf,

    /// Where kata-configdev-qemu, configdev-smoke-agent and initdata-processor are; without this
    /// option beside this program, then in /usr/libexec/kata-configdev and in PATH
    #[arg(long, value_name = "DIR")]
    pub programs: Option<PathBuf>,
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

fn help_end() -> String {
    format!("{}\n\n{EXAMPLES}", exit::TEXT)
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

    /// The number of the descriptor on which QEMU's monitor listens.
    #[must_use]
    pub const fn monitor(self) -> i32 {
        match self {
            Self::Go => 3,
            Self::Rs => 13,
        }
    }

    /// The number of the descriptor of the initdata disk, where it comes as one.
    #[must_use]
    pub const fn initdata(self) -> Option<i32> {
        match self {
            Self::Go => None,
            Self::Rs => Some(16),
        }
    }
}

/// The name of a value, as it is typed.
#[must_use]
pub fn word(value: &impl ValueEnum) -> String {
    let value = value.to_possible_value();
    value.map_or_else(String::new, |value| value.get_name().to_owned())
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
        self.append.contains("configdev.allow_unverified_initdata")
    }

    /// What clap cannot say.
    ///
    /// # Errors
    ///
    /// What does not go together.
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
        assert!(parse(&["--root", "r"]).is_err());
        assert!(parse(&["--memory", "1"]).is_err());
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

    #[test]
    fn the_vectors_have_the_descriptors_that_are_handed_over() {
        for runtime in [Runtime::Go, Runtime::Rs] {
            let text = runtime.vector().arguments.join(" ");
            assert!(text.contains(&format!("-qmp unix:fd={},", runtime.monitor())));
            let added = runtime.initdata().map(|number| format!("-add-fd fd={number},"));
            assert_eq!(added.is_some(), text.contains("-add-fd"));
            assert!(added.is_none_or(|added| text.contains(&added)));
        }
    }
}

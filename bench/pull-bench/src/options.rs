//! What to measure, and the program's other lives as a child of itself.

use std::path::{Path, PathBuf};

use anyhow::{Result, bail, ensure};
use clap::{Args, Parser, ValueEnum};
use serde::Serialize;
use vm_harness::Program;

use crate::peer::{Containerd, Ours, Peer};
use crate::stage;
use crate::way::{Transport, Way};

/// How this program was called.
#[derive(Debug, Parser)]
pub enum Invocation {
    /// Measure and print tables.
    Run(Box<Options>),
    /// Run a command and write what it cost to a file.
    #[command(hide = true)]
    Measure {
        report: PathBuf,
        #[arg(trailing_var_arg = true, required = true)]
        command: Vec<String>,
    },
    /// Do one part of a pull alone and write what it cost to a file.
    #[command(hide = true)]
    Stage { kind: stage::Kind, report: PathBuf, layers: Vec<PathBuf> },
}

/// The options of `hack/bench pull`.
#[derive(Clone, Debug, Args)]
pub struct Options {
    /// Directory for file systems, sockets and logs, in a mount namespace of this program's own
    #[arg(long, value_name = "DIR")]
    pub work: PathBuf,
    /// Which images: tiny, big, mixed, small; for long lines also 60s and 60m, 60 layers of 2 kB and
    /// of 0.5 MB
    #[arg(long, value_delimiter = ',', default_value = "tiny,big,mixed,small")]
    pub images: Vec<String>,
    /// Which compressions
    #[arg(long, value_delimiter = ',', default_value = "gz,zst")]
    pub formats: Vec<Format>,
    /// How often each tool pulls each image
    #[arg(long, default_value_t = 5)]
    pub rounds: usize,
    /// Milliseconds that each packet takes between tool and registry, each way, such as 0,10,50; 0
    /// is loopback
    #[arg(long, value_name = "MS", value_delimiter = ',', default_value = "0")]
    pub delay: Vec<u64>,
    /// Megabits a second between tool and registry, each way, behind a queue of one round trip; 0
    /// is no bound
    #[arg(long, value_name = "MBIT", value_delimiter = ',', default_value = "0")]
    pub bandwidth: Vec<u64>,
    /// What the registry speaks
    #[arg(long, value_delimiter = ',', default_value = "plain")]
    pub transport: Vec<Transport>,
    /// Which tools: ours, containerd, skopeo, skopeo-umoci, podman, buildah, containerd-2 (Debian
    /// sid's), containerd-2-parallel (with 8 downloads, 4 unpacks, chunks of 8 MiB)
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "ours,containerd,containerd-2,containerd-2-parallel,skopeo-umoci,podman"
    )]
    pub peers: Vec<String>,
    /// Directory with another `containerd` and `ctr` to measure as containerd-2
    #[arg(long, value_name = "DIR")]
    pub containerd: Option<PathBuf>,
    /// Another imagepuller to measure as `ours`, as NAME=PROGRAM; may be repeated
    #[arg(long, value_name = "NAME=PROGRAM")]
    pub ours: Vec<String>,
    /// Whether ours is asked through its service, or pulls by itself, or both in turns
    #[arg(long, value_delimiter = ',', default_value = "service")]
    pub modes: Vec<Mode>,
    /// What to unpack on: tmpfs, and ext4 on a loop device whose file is in memory
    #[arg(long, value_delimiter = ',', default_value = "tmpfs")]
    pub fs: Vec<FileSystem>,
    /// How often a run is repeated during which others used the machine
    #[arg(long, default_value_t = 3)]
    pub retries: usize,
    /// Also pull each image with encrypted layers, with the tools that can decrypt them: ours,
    /// skopeo, skopeo-umoci
    #[arg(long)]
    pub encrypted: bool,
    /// Do not measure the bound
    #[arg(long)]
    pub no_bound: bool,
    /// Also measure the service: idle memory, and a second pull of the same image
    #[arg(long)]
    pub service: bool,
    /// Write every run's figures to this file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// How layers are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Format {
    /// `gzip -6`
    Gz,
    /// `zstd -3`
    Zst,
}

impl Format {
    /// The ending of a layer's file, and the image's tag.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gz => "gz",
            Self::Zst => "zst",
        }
    }

    /// What a media type calls it.
    pub const fn media_suffix(self) -> &'static str {
        match self {
            Self::Gz => "gzip",
            Self::Zst => "zstd",
        }
    }
}

/// How ours is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Mode {
    /// `imagepuller request` to a running `imagepuller serve`, which mounts the image as well
    Service,
    /// `imagepuller pull`
    Pull,
}

/// What is unpacked on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum FileSystem {
    /// Memory
    Tmpfs,
    /// ext4 without journal flushes of its own, in memory too: its code is measured, not a disk
    Ext4,
}

impl FileSystem {
    /// Its name in a table.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tmpfs => "tmpfs",
            Self::Ext4 => "ext4",
        }
    }
}

impl Options {
    /// The tools to measure, in the order of the table.
    pub fn peers(&self) -> Result<Vec<Peer>> {
        let mut peers = Vec::new();
        for name in &self.peers {
            match name.as_str() {
                "ours" => peers.extend(self.ours()?),
                "containerd" => peers.push(Peer::Containerd(Containerd::DEBIAN)),
                "containerd-2" => peers.push(self.containerd(false)?),
                "containerd-2-parallel" => peers.push(self.containerd(true)?),
                "skopeo" => peers.push(Peer::Skopeo),
                "skopeo-umoci" => peers.push(Peer::SkopeoUmoci),
                "podman" => peers.push(Peer::Podman),
                "buildah" => peers.push(Peer::Buildah),
                _ => bail!(
                    "there is no peer {name}: ours, containerd, containerd-2, \
                    containerd-2-parallel, skopeo, skopeo-umoci, podman, buildah"
                ),
            }
        }
        ensure!(!peers.is_empty(), "no peers to measure");
        Ok(peers)
    }

    /// The ways to the registry, in the order of the tables.
    pub fn ways(&self) -> Vec<Way> {
        Way::all(&self.delay, &self.bandwidth, &self.transport)
    }

    fn containerd(&self, is_parallel: bool) -> Result<Peer> {
        let fetched = || workspace().join("target/fixtures/containerd/usr/bin");
        let directory = self.containerd.clone().unwrap_or_else(fetched);
        ensure!(
            directory.join("containerd").is_file(),
            "{} has no containerd: run qemu-fixtures/unpacked containerd sid first",
            directory.display()
        );
        Ok(Peer::Containerd(Containerd::two(directory, is_parallel)))
    }

    fn ours(&self) -> Result<Vec<Peer>> {
        let mut named = self.ours.clone();
        if named.is_empty() {
            named.push(format!("ours={}", Program::Imagepuller.path()?.display()));
        }
        let mut builds = Vec::new();
        for text in named {
            let Some((name, program)) = text.split_once('=') else {
                bail!("--ours takes NAME=PROGRAM, not {text}");
            };
            ensure!(Path::new(program).is_file(), "{program} is missing: run hack/build first");
            builds.extend(self.modes.iter().map(|mode| {
                Peer::Ours(Ours {
                    name: match mode {
                        Mode::Service => name.to_owned(),
                        Mode::Pull => format!("{name} (pull)"),
                    },
                    program: program.into(),
                    mode: *mode,
                })
            }));
        }
        Ok(builds)
    }
}

/// The checkout this program was built from.
pub fn workspace() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here)
}

//! The tools, each called as its manual says, with all that it keeps on the measured file system.

mod containerd;
mod containers;
mod ours;

use std::process::Command;

use anyhow::Result;

pub use containerd::Containerd;
pub use ours::Ours;

use crate::corpus::Image;
use crate::job::Job;
use crate::measure::Cost;
use crate::options::Mode;

/// Something that pulls images.
#[derive(Clone, Debug)]
pub enum Peer {
    /// This project's.
    Ours(Ours),
    /// `ctr images pull` to a running containerd.
    Containerd(Containerd),
    /// `skopeo copy` to an OCI layout, which unpacks nothing.
    Skopeo,
    /// `skopeo copy` to an OCI layout, then `umoci raw unpack`.
    SkopeoUmoci,
    /// `podman pull`, overlay driver.
    Podman,
    /// `buildah pull`, overlay driver.
    Buildah,
}

impl Peer {
    /// Its name in the table.
    pub fn name(&self) -> &str {
        match self {
            Self::Ours(ours) => &ours.name,
            Self::Containerd(containerd) => containerd.name,
            Self::Skopeo => "skopeo (no unpacking)",
            Self::SkopeoUmoci => "skopeo + umoci",
            Self::Podman => "podman",
            Self::Buildah => "buildah",
        }
    }

    /// Whether it is this project's.
    pub const fn is_ours(&self) -> bool {
        matches!(self, Self::Ours(_))
    }

    /// Whether it makes files of the image.
    pub const fn unpacks(&self) -> bool {
        !matches!(self, Self::Skopeo)
    }

    /// Whether it can pull the image: not everybody can decrypt.
    pub const fn takes(&self, image: &Image) -> bool {
        !image.is_encrypted || matches!(self, Self::Ours(_) | Self::Skopeo | Self::SkopeoUmoci)
    }

    /// The Debian packages it consists of, with versions.
    pub fn version(&self) -> String {
        let packages: &[&str] = match self {
            Self::Ours(ours) => {
                return match ours.mode {
                    Mode::Service => format!("{}: serve + request, with the mount", ours.name),
                    Mode::Pull => format!("{}: without a service", ours.name),
                };
            }
            Self::Containerd(containerd) => match containerd.version() {
                Some(version) => return version,
                None => &["containerd", "pigz"],
            },
            Self::Skopeo => &["skopeo"],
            Self::SkopeoUmoci => &["skopeo", "umoci"],
            Self::Podman => &["podman"],
            Self::Buildah => &["buildah"],
        };
        let versions: Vec<String> = packages
            .iter()
            .map(|package| {
                let asked =
                    Command::new("dpkg-query").args(["-W", "-f", "${Version}", package]).output();
                let version =
                    asked.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
                format!("{package} {}", version.unwrap_or_default())
            })
            .collect();
        versions.join(", ")
    }

    /// Pulls and unpacks; daemons are started before the clock is.
    pub fn pull(&self, job: Job<'_>) -> Result<Cost> {
        match self {
            Self::Ours(ours) => match ours.mode {
                Mode::Service => ours.ask(job),
                Mode::Pull => ours.pull(job),
            },
            Self::Containerd(containerd) => containerd.pull(job),
            Self::Skopeo => containers::skopeo(job),
            Self::SkopeoUmoci => containers::skopeo_umoci(job),
            Self::Podman => containers::pull(
                "podman",
                &["--events-backend", "none", "--cgroup-manager", "cgroupfs"],
                job,
            ),
            Self::Buildah => containers::pull("buildah", &[], job),
        }
    }
}

//! containerd's `config.toml`, versions 1 to 4: the registries of its CRI plugin.
//!
//! What the file imports is not read: `containerd config dump` prints all files as one, as
//! containerd itself merges them.
//!
//! With `config_path` (several directories joined by colons), the directories say how registries
//! are reached, as in [`certs_d`](crate::certs_d), and of the file only the credentials of `configs`
//! count beside them. Without it, `mirrors` and `configs` do, see `cri_registries`.
//!
//! - `tables`: what the file says. `config_path`: directories, and credentials beside them.
//!   `runtimes`: what handlers are told, by the files that belong together.
//!
//! From containerd's source: `cmd/containerd/server/config/config.go`,
//! `internal/cri/config/config.go`, `internal/cri/server/images/image_pull.go`.

mod config_path;
mod runtimes;
mod tables;

use std::path::{Path, PathBuf};

use crate::Loss;
use crate::certs_d::Directory;
use crate::cri_registries::{Engine, Placed, Registries, plans};
use crate::registry_file::assemble::assemble;
use crate::registry_file::{Import, ReadFile, Reader, Report};

pub use self::runtimes::{MAX_CONTAINERD_CONFIGS, Runtime, runtimes};

/// The longest file, imported ones included; containerd's own defaults are 10 KiB.
pub const MAX_CONTAINERD_CONFIG_BYTES: usize = 128 << 10;

/// Where containerd 2.2 and later look if neither `config_path` nor `mirrors` is set.
const DEFAULT_CONFIG_PATH: &str = "/etc/containerd/certs.d:/etc/docker/certs.d";

/// The first version of the file that only containerd 2 reads.
const VERSION_OF_TWO: i64 = 3;

const CONTAINERD: Engine = Engine {
    name: "containerd",
    identity_token: "identitytoken",
    no_endpoint: "the registry itself is asked, and not the mirrors of \"*\"",
    all_mirrors_configured: true,
};

/// What the file says about registries.
#[derive(Debug)]
pub struct ContainerdConfig {
    report: Report,
    registry: Registry,
}

/// The tables of the plugin.
struct Registry {
    config_path: Option<Placed<String>>,
    registries: Registries,
    /// Whether only containerd 2 reads the file.
    is_of_two: bool,
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Registry")
    }
}

/// Reads a file. What it imports is not read, which is as much of a `loss`: nothing of what
/// containerd itself has printed, which has that in it.
pub fn read(text: &[u8], source: &str, loss: Option<Loss>) -> ContainerdConfig {
    let mut no_file = |_: &Path| Err("not read at this point".to_owned());
    let mut reader = Reader::new(source, &mut no_file);
    let registry = Registry::read(text, loss, &mut reader);
    ContainerdConfig { report: reader.report, registry }
}

impl ContainerdConfig {
    /// The directories with a directory for each registry, in containerd's order. Those that are
    /// not there have nothing to say.
    #[must_use]
    pub fn config_paths(&self) -> Vec<PathBuf> {
        let joined = self.registry.directories().unwrap_or_default();
        let paths = joined.split(':').filter(|path| !path.is_empty());
        paths.map(PathBuf::from).collect()
    }

    /// Makes entries of the file, and of what is in the directories of
    /// [`config_paths`](Self::config_paths), in their order.
    pub fn import(self, roots: Vec<Vec<Directory>>, read_file: &mut ReadFile<'_>) -> Import {
        let Self { report, registry } = self;
        let mut reader = Reader::new("", read_file);
        reader.report = report;
        let plans = if registry.directories().is_some() {
            config_path::plans(registry, roots, &mut reader)
        } else {
            plans(&CONTAINERD, registry.registries, &mut reader)
        };
        assemble(plans, reader.report)
    }
}

impl Registry {
    /// The directories that count, joined by colons; `None` where `mirrors` and `configs` do.
    fn directories(&self) -> Option<&str> {
        let written = self.config_path.as_ref().map(|placed| placed.value.as_str());
        let written = written.filter(|paths| !paths.is_empty());
        let is_default = self.is_of_two && self.registries.mirrors.is_empty();
        written.or(is_default.then_some(DEFAULT_CONFIG_PATH))
    }
}

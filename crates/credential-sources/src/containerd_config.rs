//! containerd's `config.toml`, versions 1 to 4: the registries of its CRI plugin.
//!
//! The file may import others, which may import more. As containerd 2 has it, each is read once,
//! the importing one first, and a later one's keys win one by one; containerd 1 takes the whole
//! table of a plugin from the last file that has one, and where that differs, it is told.
//!
//! With `config_path` (several directories joined by colons), the directories say how registries
//! are reached, as in [`certs_d`](crate::certs_d), and of the file only the credentials of `configs`
//! count beside them. Without it, `mirrors` and `configs` do, see `cri_registries`.
//!
//! - `imports`: the files that belong together. `layer`: what one of them says. `config_path`:
//!   directories, and credentials beside them. `runtimes`: what handlers are told.
//!
//! From containerd's source: `cmd/containerd/server/config/config.go`,
//! `internal/cri/config/config.go`, `internal/cri/server/images/image_pull.go`.

mod config_path;
mod imports;
mod layer;
mod runtimes;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use crate::Finding;
use crate::certs_d::Directory;
use crate::cri_registries::{Config, Engine, Mirror, Placed, Registries, plans};
use crate::node_files::NodeFiles;
use crate::registry_file::assemble::assemble;
use crate::registry_file::{Import, ReadFile, Reader, Report};

use self::layer::{ConfigKeys, Layer};
use self::runtimes::Runtimes;

pub use self::runtimes::Runtime;

/// The longest file, imported ones included; containerd's own defaults are 10 KiB.
pub const MAX_CONTAINERD_CONFIG_BYTES: usize = 128 << 10;

/// The most files of one import. Free to change.
pub const MAX_CONTAINERD_CONFIGS: usize = 64;

/// Where containerd 2.2 and later look if neither `config_path` nor `mirrors` is set.
const DEFAULT_CONFIG_PATH: &str = "/etc/containerd/certs.d:/etc/docker/certs.d";

const CONTAINERD: Engine = Engine {
    name: "containerd",
    identity_token: "identitytoken",
    no_endpoint: "the registry itself is asked, and not the mirrors of \"*\"",
    all_mirrors_configured: true,
};

/// What the files say about registries.
#[derive(Debug)]
pub struct ContainerdConfig {
    report: Report,
    registry: Registry,
    runtimes: Runtimes,
}

/// The tables of all files, merged.
#[derive(Default)]
struct Registry {
    config_path: Option<Placed<String>>,
    mirrors: BTreeMap<String, Placed<Option<Vec<String>>>>,
    configs: BTreeMap<String, Placed<ConfigKeys>>,
    /// Whether only containerd 2 reads the file.
    is_of_two: bool,
    /// The last file with the table that containerd 1 takes as a whole.
    whole: Option<String>,
}

impl std::fmt::Debug for Registry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Registry")
    }
}

/// Reads a file, and those that it imports. Without a `path`, it came from a pipe, and no other is
/// read.
pub fn read(
    text: &[u8],
    source: &str,
    path: Option<&Path>,
    files: &mut dyn NodeFiles,
) -> ContainerdConfig {
    let mut no_file = |_: &Path| Err("not read at this point".to_owned());
    let mut reader = Reader::new(source, &mut no_file);
    let mut registry = Registry::default();
    let mut runtimes = Runtimes::default();
    imports::follow(text, path, files, &mut reader, &mut |mut layer, reader| {
        runtimes.add(std::mem::take(&mut layer.runtimes));
        registry.add(layer, reader);
    });
    runtimes.settle();
    ContainerdConfig { report: reader.report, registry, runtimes }
}

impl ContainerdConfig {
    /// The runtimes by name.
    #[must_use]
    pub fn runtimes(&self) -> &BTreeMap<String, Runtime> {
        &self.runtimes.by_name
    }

    /// What makes the files unusable, or one that is imported.
    #[must_use]
    pub fn faults(&self) -> &[Finding] {
        &self.report.faults
    }

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
        let Self { report, registry, .. } = self;
        let mut reader = Reader::new("", read_file);
        reader.report = report;
        let plans = if registry.directories().is_some() {
            config_path::plans(registry, roots, &mut reader)
        } else {
            plans(&CONTAINERD, registry.registries(), &mut reader)
        };
        assemble(plans, reader.report)
    }
}

impl Registry {
    /// Adds what another file says, which wins.
    fn add(&mut self, layer: Layer, reader: &mut Reader<'_, '_>) {
        self.is_of_two |= layer.is_of_two;
        if let Some(key) = layer.whole
            && let Some(before) = self.whole.replace(reader.source.clone())
            && self.says_something()
        {
            let text = format!(
                "containerd 1 takes this table and nothing of the one in {before}; containerd 2 \
                merges them, as is done here"
            );
            reader.lost(&key, text);
        }
        if layer.config_path.is_some() {
            self.config_path = layer.config_path;
        }
        for (name, mirror) in layer.mirrors {
            let known = self.mirrors.remove(&name).and_then(|known| known.value);
            let value = mirror.value.or(known);
            self.mirrors.insert(name, Placed { value, ..mirror });
        }
        for (name, config) in layer.configs {
            let mut value =
                self.configs.remove(&name).map_or_else(ConfigKeys::default, |known| known.value);
            value.add(config.value);
            self.configs.insert(name, Placed { value, ..config });
        }
    }

    fn says_something(&self) -> bool {
        let is_empty = self.mirrors.is_empty() && self.configs.is_empty();
        self.config_path.is_some() || !is_empty
    }

    /// The directories that count, joined by colons; `None` where `mirrors` and `configs` do.
    fn directories(&self) -> Option<&str> {
        let written = self.config_path.as_ref().map(|placed| placed.value.as_str());
        let written = written.filter(|paths| !paths.is_empty());
        let is_default = self.is_of_two && self.mirrors.is_empty();
        written.or(is_default.then_some(DEFAULT_CONFIG_PATH))
    }

    fn registries(self) -> Registries {
        let mirrors = self.mirrors.into_iter().map(|(name, mirror)| {
            let value =
                Mirror { endpoints: mirror.value.unwrap_or_default(), rewrite: BTreeMap::new() };
            let Placed { source, key, .. } = mirror;
            (name, Placed { source, key, value })
        });
        Registries { mirrors: mirrors.collect(), configs: configs(self.configs) }
    }
}

fn configs(keys: BTreeMap<String, Placed<ConfigKeys>>) -> BTreeMap<String, Placed<Config>> {
    let configs = keys.into_iter().map(|(name, placed)| {
        let Placed { source, key, value } = placed;
        let value = value.config();
        (name, Placed { source, key, value })
    });
    configs.collect()
}

//! The runtimes of containerd: what a handler is told and what a pod may hand on.
//!
//! Read are a `config.toml`, then the files that it imports, which may import more: each once, the
//! importing one first, and a later one's keys win one by one, as in containerd 2.
//!
//! What containerd would refuse in these tables counts as not there: the import of registries has
//! nothing to say about it, and who looks for faults sees what is missing.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use foreign_text::toml::{Field, Table};
use zeroize::Zeroizing;

use super::MAX_CONTAINERD_CONFIG_BYTES;
use super::tables::PLUGINS;
use crate::certs_d::{clean, shown_path};
use crate::glob::glob_matches;
use crate::node_files::{Hidden, NodeFiles, matching};
use crate::registry_file::{Reader, Report};

/// The plugin that has the runtimes since version 3.
const RUNTIME: &str = "io.containerd.cri.v1.runtime";

/// The most files of one configuration. Free to change.
pub const MAX_CONTAINERD_CONFIGS: usize = 64;

/// The runtimes by name of the `config.toml` at `path`, and what makes a file unusable.
pub fn runtimes(
    text: Zeroizing<Vec<u8>>,
    path: &Path,
    files: &mut dyn NodeFiles,
) -> (BTreeMap<String, Runtime>, Report) {
    let mut no_file = |_: &Path| Err("not read at this point".to_owned());
    let mut reader = Reader::new("", &mut no_file);
    let mut runtimes = Runtimes::default();
    let mut paths = vec![clean(path)];
    let mut main = Some(text);
    let mut next = 0;
    while let Some(path) = paths.get(next).cloned() {
        next += 1;
        reader.source = shown_path(&path);
        let text = main.take().map_or_else(|| files.read(&path, MAX_CONTAINERD_CONFIG_BYTES), Ok);
        match text {
            Ok(text) => runtimes.read(&text, &path, &mut paths, files, &mut reader),
            Err(why) => reader.fault("", why.to_string()),
        }
    }
    // Those that name none have the snapshotter of all.
    for runtime in runtimes.by_name.values_mut() {
        runtime.snapshotter = runtime.snapshotter.take().or_else(|| runtimes.snapshotter.clone());
    }
    (runtimes.by_name, reader.report)
}

/// Adds the files that an import stands for: itself, or with a `*` those that are there.
fn follow(
    import: &Path,
    paths: &mut Vec<PathBuf>,
    files: &mut dyn NodeFiles,
) -> Result<(), String> {
    let found = match import.to_string_lossy().contains('*') {
        true => matching(import, Hidden::Matched, MAX_CONTAINERD_CONFIGS, files),
        false => Some(vec![import.to_owned()]),
    };
    for path in found.ok_or_else(|| format!("{}: a malformed pattern", shown_path(import)))? {
        if paths.contains(&path) {
            continue;
        }
        if paths.len() == MAX_CONTAINERD_CONFIGS {
            return Err(format!("more than {MAX_CONTAINERD_CONFIGS} files in all"));
        }
        paths.push(path);
    }
    Ok(())
}

/// A runtime, which pods name as the handler of their runtime class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Runtime {
    /// The last file that has its table, printable; empty where none has.
    pub source: String,
    /// The main file of Kata's configuration, `options.ConfigPath`.
    pub config_path: Option<String>,
    /// The program of the shim, or the name that it is found by.
    pub program: Option<String>,
    /// Which annotations of a pod the runtime sees, as patterns.
    pub pod_annotations: Option<Vec<String>>,
    /// Its snapshotter, or the one of all runtimes that name none; `None` where that is
    /// containerd's own default.
    pub snapshotter: Option<String>,
}

impl Runtime {
    /// Whether the runtime sees the annotation `key` of a pod.
    #[must_use]
    pub fn passes(&self, key: &str) -> bool {
        let patterns = self.pod_annotations.iter().flatten();
        patterns.into_iter().any(|pattern| glob_matches(pattern, key))
    }

    /// What a later table says wins, key by key.
    fn add(&mut self, later: Self) {
        self.source = later.source;
        self.config_path = later.config_path.or(self.config_path.take());
        self.program = later.program.or(self.program.take());
        self.pod_annotations = later.pod_annotations.or(self.pod_annotations.take());
        self.snapshotter = later.snapshotter.or(self.snapshotter.take());
    }
}

/// The runtimes of all files.
#[derive(Default)]
struct Runtimes {
    by_name: BTreeMap<String, Runtime>,
    /// The snapshotter of those that name none.
    snapshotter: Option<String>,
}

impl Runtimes {
    /// Adds what a file says, which wins, and the files that it imports to `paths`.
    fn read(
        &mut self,
        text: &[u8],
        path: &Path,
        paths: &mut Vec<PathBuf>,
        files: &mut dyn NodeFiles,
        reader: &mut Reader<'_, '_>,
    ) {
        let Some(tree) = reader.toml(text, MAX_CONTAINERD_CONFIG_BYTES) else {
            return;
        };
        let mut keys = tree.table();
        for import in reader.texts(&mut keys, "imports") {
            let import = clean(&path.parent().unwrap_or(Path::new("/")).join(import));
            if let Err(why) = follow(&import, paths, files) {
                reader.fault("imports", why);
                break;
            }
        }
        let Some(mut plugins) = table(&mut keys, "plugins") else {
            return;
        };
        for name in [RUNTIME].into_iter().chain(PLUGINS) {
            if let Some(mut plugin) = table(&mut plugins, name) {
                self.take(&mut plugin, &reader.source);
            }
        }
    }

    /// Takes the runtimes out of the table of a plugin, and what the plugin of images says of their
    /// snapshotters.
    fn take(&mut self, plugin: &mut Table<'_, '_>, source: &str) {
        // That of the plugin of images since version 3 of the file, that of `containerd` before.
        self.name_snapshotter(text(plugin, "snapshotter"));
        if let Some(mut containerd) = table(plugin, "containerd") {
            self.name_snapshotter(text(&mut containerd, "snapshotter"));
            for field in fields(&mut containerd, "runtimes") {
                if let Ok(keys) = field.table() {
                    self.put(field.key, runtime(keys, source));
                }
            }
        }
        for field in fields(plugin, "runtime_platforms") {
            if let Ok(mut keys) = field.table() {
                let snapshotter = text(&mut keys, "snapshotter");
                let source = source.to_owned();
                let runtime = Runtime { source, snapshotter, ..Runtime::default() };
                self.put(field.key, runtime);
            }
        }
    }

    fn name_snapshotter(&mut self, name: Option<String>) {
        let name = name.filter(|name| !name.is_empty());
        self.snapshotter = name.or(self.snapshotter.take());
    }

    fn put(&mut self, name: &str, runtime: Runtime) {
        self.by_name.entry(name.to_owned()).or_default().add(runtime);
    }
}

fn runtime(mut keys: Table<'_, '_>, source: &str) -> Runtime {
    let path = text(&mut keys, "runtime_path").filter(|path| !path.is_empty());
    let kind = text(&mut keys, "runtime_type");
    let annotations = keys.take("pod_annotations").and_then(|field| {
        let items = field.items().ok()?;
        let texts = items.iter().filter_map(|item| item.text().ok());
        Some(texts.map(str::to_owned).collect())
    });
    let options = table(&mut keys, "options");
    Runtime {
        source: source.to_owned(),
        config_path: options.and_then(|mut options| text(&mut options, "ConfigPath")),
        program: path.or(kind),
        pod_annotations: annotations,
        snapshotter: text(&mut keys, "snapshotter").filter(|name| !name.is_empty()),
    }
}

fn table<'t, 'i>(above: &mut Table<'t, 'i>, key: &str) -> Option<Table<'t, 'i>> {
    above.take(key)?.table().ok()
}

fn fields<'t, 'i>(above: &mut Table<'t, 'i>, key: &str) -> Vec<Field<'t, 'i>> {
    let below = table(above, key).into_iter();
    below.flat_map(Table::rest).collect()
}

fn text(keys: &mut Table<'_, '_>, key: &str) -> Option<String> {
    keys.take(key)?.text().ok().map(str::to_owned)
}

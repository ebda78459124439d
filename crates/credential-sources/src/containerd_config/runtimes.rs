//! The runtimes of a `config.toml`: what a handler is told and what a pod may hand on.
//!
//! What containerd would refuse in these tables counts as not there: the import of registries has
//! nothing to say about it, and who looks for faults sees what is missing.

use std::collections::BTreeMap;

use foreign_text::toml::{Field, Table};

use crate::glob::glob_matches;

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

    /// What a later file says wins, key by key.
    fn add(&mut self, later: Self) {
        self.source = later.source;
        self.config_path = later.config_path.or(self.config_path.take());
        self.program = later.program.or(self.program.take());
        self.pod_annotations = later.pod_annotations.or(self.pod_annotations.take());
        self.snapshotter = later.snapshotter.or(self.snapshotter.take());
    }
}

/// The runtimes of all files.
#[derive(Debug, Default)]
pub(super) struct Runtimes {
    /// By name.
    pub(super) by_name: BTreeMap<String, Runtime>,
    /// The snapshotter of those that name none.
    snapshotter: Option<String>,
}

impl Runtimes {
    /// Adds what another file says, which wins.
    pub(super) fn add(&mut self, later: Self) {
        for (name, runtime) in later.by_name {
            self.by_name.entry(name).or_default().add(runtime);
        }
        self.snapshotter = later.snapshotter.or(self.snapshotter.take());
    }

    /// Gives the runtimes that name none the snapshotter of all, once all files are read.
    pub(super) fn settle(&mut self) {
        for runtime in self.by_name.values_mut() {
            let own = runtime.snapshotter.take();
            runtime.snapshotter = own.or_else(|| self.snapshotter.clone());
        }
    }

    /// Takes the runtimes out of the table of a plugin, and what the plugin of images says of their
    /// snapshotters.
    pub(super) fn take(&mut self, plugin: &mut Table<'_, '_>, source: &str) {
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

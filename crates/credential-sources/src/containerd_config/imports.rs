//! The files that belong together: `imports` of a `config.toml`, as containerd follows them.

use std::collections::{BTreeSet, VecDeque};
use std::path::{Path, PathBuf};

use super::layer::{self, Layer};
use super::{MAX_CONTAINERD_CONFIG_BYTES, MAX_CONTAINERD_CONFIGS};
use crate::certs_d::{clean, shown_path};
use crate::node_files::{Hidden, NodeFiles, matching};
use crate::printable;
use crate::registry_file::Reader;

/// Reads a file and all that it imports, in the order in which a later one wins. Each is given to
/// `take`, with the reader at its place.
pub(super) fn follow(
    text: &[u8],
    path: Option<&Path>,
    files: &mut dyn NodeFiles,
    reader: &mut Reader<'_, '_>,
    take: &mut dyn FnMut(Layer, &mut Reader<'_, '_>),
) {
    let mut queue = Queue::default();
    let Some(main) = layer::read(text, layer::Place::Main, reader) else {
        return;
    };
    match path {
        Some(path) => {
            let path = clean(path);
            queue.known.insert(path.clone());
            queue.add(&path, &main.imports, files, reader);
        }
        None if main.imports.is_empty() => {}
        None => {
            let why = "of standard input, where imports are relative to no file; `containerd \
                config dump` has them in it";
            reader.left_out("imports", why);
        }
    }
    take(main, reader);
    while let Some(path) = queue.pending.pop_front() {
        reader.source = shown_path(&path);
        let text = match files.read(&path, MAX_CONTAINERD_CONFIG_BYTES) {
            Ok(text) => text,
            Err(why) => {
                reader.fault("", why.to_string());
                continue;
            }
        };
        if let Some(layer) = layer::read(&text, layer::Place::Imported, reader) {
            queue.add(&path, &layer.imports, files, reader);
            take(layer, reader);
        }
    }
}

/// Files to read, each once, whoever imports it.
#[derive(Default)]
struct Queue {
    pending: VecDeque<PathBuf>,
    known: BTreeSet<PathBuf>,
}

impl Queue {
    /// Adds what the file at `parent` imports.
    fn add(
        &mut self,
        parent: &Path,
        imports: &[String],
        files: &mut dyn NodeFiles,
        reader: &mut Reader<'_, '_>,
    ) {
        for import in imports {
            let path = parent.parent().unwrap_or(Path::new("/")).join(import);
            let Some(paths) = resolved(&clean(&path), files) else {
                reader.fault("imports", format!("{}: a malformed pattern", printable(import)));
                continue;
            };
            for path in paths {
                if self.known.contains(&path) {
                    continue;
                }
                if self.known.len() == MAX_CONTAINERD_CONFIGS {
                    let text = format!("more than {MAX_CONTAINERD_CONFIGS} files in all");
                    reader.fault("imports", text);
                    return;
                }
                self.known.insert(path.clone());
                self.pending.push_back(path);
            }
        }
    }
}

/// The files that a path stands for: itself, or with a `*` those that are there. `None` where a
/// pattern is malformed.
fn resolved(path: &Path, files: &mut dyn NodeFiles) -> Option<Vec<PathBuf>> {
    if path.to_string_lossy().contains('*') {
        matching(path, Hidden::Matched, MAX_CONTAINERD_CONFIGS, files)
    } else {
        Some(vec![path.to_owned()])
    }
}

//! CRI-O's configuration, as far as it is about runtimes: `crio.conf`, and the files of
//! `crio.conf.d` behind it, of which later ones win key by key.
//!
//! From CRI-O's manual page `crio.conf(5)`. What CRI-O would refuse counts as not there.

use std::collections::BTreeMap;

use foreign_text::toml::{NotToml, Table, Tree};

/// The longest file. Free to change; CRI-O's own, with all comments, has 30 KiB.
pub const MAX_CRIO_CONFIG_BYTES: usize = 256 << 10;

/// A value, and where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Placed {
    /// The value.
    pub value: String,
    /// The file, as who added it calls it.
    pub source: String,
    /// The line, from 1.
    pub line: usize,
}

/// A runtime, which pods name as the handler of their runtime class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Runtime {
    /// The last file that has its table, as who added it calls it.
    pub source: String,
    /// The main file of Kata's configuration, `runtime_config_path`.
    pub config_path: Option<Placed>,
    /// `runtime_path`.
    pub program: Option<String>,
    /// Whether images are left to the guest, `runtime_pull_image`.
    pub pulls_in_guest: Option<bool>,
}

/// The runtimes by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CrioConfig {
    /// The runtimes by name.
    pub runtimes: BTreeMap<String, Runtime>,
}

impl CrioConfig {
    /// Adds what a file says, which wins over those before it; `source` is what to call it.
    ///
    /// # Errors
    ///
    /// [`NotToml`].
    pub fn add(&mut self, text: &[u8], source: &str) -> Result<(), NotToml> {
        let tree = Tree::parse(text)?;
        let runtimes = table(Some(tree.table()), "crio");
        let runtimes = table(table(runtimes, "runtime"), "runtimes");
        for field in runtimes.into_iter().flat_map(Table::rest) {
            if let Ok(keys) = field.table() {
                self.runtimes.entry(field.key.to_owned()).or_default().add(keys, source);
            }
        }
        Ok(())
    }
}

impl Runtime {
    fn add(&mut self, mut keys: Table<'_, '_>, source: &str) {
        source.clone_into(&mut self.source);
        if let Some(field) = keys.take("runtime_config_path")
            && let Ok(path) = field.text()
        {
            self.config_path = Some(placed(path, source, field.line));
        }
        if let Some(Ok(text)) = keys.take("runtime_path").map(|field| field.text()) {
            self.program = Some(text.to_owned());
        }
        if let Some(Ok(flag)) = keys.take("runtime_pull_image").map(|field| field.flag()) {
            self.pulls_in_guest = Some(flag);
        }
    }
}

fn placed(value: &str, source: &str, line: usize) -> Placed {
    Placed { value: value.to_owned(), source: source.to_owned(), line }
}

fn table<'t, 'i>(above: Option<Table<'t, 'i>>, key: &str) -> Option<Table<'t, 'i>> {
    above?.take(key)?.table().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn later_files_win_key_by_key() {
        let mut config = CrioConfig::default();
        let first = "[crio.runtime.runtimes.kata]\nruntime_path = \"/a\"\n\
            runtime_pull_image = true\nruntime_config_path = \"/c.toml\"\n[crio.image]\npause_image = \"x\"\n";
        config.add(first.as_bytes(), "a.conf").unwrap();
        let later = "[crio.runtime.runtimes.kata]\nruntime_path = \"/b\"\nruntime_pull_image = 1\n";
        config.add(later.as_bytes(), "b.conf").unwrap();
        config.add(b"[crio]\nruntime = 1\n", "c.conf").unwrap();
        config.add(b"[crio\n", "d.conf").unwrap_err();
        let expected = Runtime {
            source: "b.conf".into(),
            config_path: Some(placed("/c.toml", "a.conf", 4)),
            program: Some("/b".into()),
            pulls_in_guest: Some(true),
        };
        assert_eq!(config.runtimes["kata"], expected);
    }
}

//! CRI-O's configuration, as far as it is about runtimes: `crio.conf`, and the files of
//! `crio.conf.d` behind it, of which later ones win key by key.
//!
//! From CRI-O's manual page `crio.conf(5)`. What CRI-O would refuse counts as not there.

use std::collections::BTreeMap;

use foreign_text::toml::{NotToml, Table, Tree};

/// The longest file. Free to change; CRI-O's own, with all comments, has 30 KiB.
pub const MAX_CRIO_CONFIG_BYTES: usize = 256 << 10;

/// A runtime, which pods name as the handler of their runtime class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Runtime {
    /// The main file of Kata's configuration, `runtime_config_path`.
    pub config_path: Option<String>,
    /// `runtime_path`.
    pub program: Option<String>,
    /// Whether images are left to the guest, `runtime_pull_image`.
    pub pulls_in_guest: Option<bool>,
    /// How long the creation of a container may take, in seconds, `container_create_timeout`.
    pub create_timeout_secs: Option<u64>,
}

/// The runtimes by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CrioConfig {
    /// The runtimes by name.
    pub runtimes: BTreeMap<String, Runtime>,
}

impl CrioConfig {
    /// Adds what a file says, which wins over those before it.
    ///
    /// # Errors
    ///
    /// [`NotToml`].
    pub fn add(&mut self, text: &[u8]) -> Result<(), NotToml> {
        let tree = Tree::parse(text)?;
        let runtimes = table(Some(tree.table()), "crio");
        let runtimes = table(table(runtimes, "runtime"), "runtimes");
        for field in runtimes.into_iter().flat_map(Table::rest) {
            if let Ok(keys) = field.table() {
                self.runtimes
                    .entry(field.key.to_owned())
                    .or_default()
                    .add(keys);
            }
        }
        Ok(())
    }
}

impl Runtime {
    fn add(&mut self, mut keys: Table<'_, '_>) {
        for (key, value) in [
            ("runtime_config_path", &mut self.config_path),
            ("runtime_path", &mut self.program),
        ] {
            if let Some(Ok(text)) = keys.take(key).as_ref().map(|field| field.text()) {
                *value = Some(text.to_owned());
            }
        }
        if let Some(Ok(flag)) = keys.take("runtime_pull_image").map(|field| field.flag()) {
            self.pulls_in_guest = Some(flag);
        }
        let timeout = keys.take("container_create_timeout");
        let timeout = timeout.and_then(|field| u64::try_from(field.integer().ok()?).ok());
        self.create_timeout_secs = timeout.or(self.create_timeout_secs);
    }
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
        config.add(first.as_bytes()).unwrap();
        let later = "[crio.runtime.runtimes.kata]\nruntime_path = \"/b\"\nruntime_pull_image = 1\n\
            container_create_timeout = 600\n";
        config.add(later.as_bytes()).unwrap();
        config.add(b"[crio]\nruntime = 1\n").unwrap();
        config.add(b"[crio\n").unwrap_err();
        let expected = Runtime {
            config_path: Some("/c.toml".into()),
            program: Some("/b".into()),
            pulls_in_guest: Some(true),
            create_timeout_secs: Some(600),
        };
        assert_eq!(config.runtimes["kata"], expected);
    }
}

//! What the wrapper makes of its settings. The wrapper's own program has the rules; here is only
//! where they are plugged in, so that nothing is installed that it would refuse.

use std::fmt;
use std::fs::Metadata;
use std::path::PathBuf;

/// A settings file or drop-in, by its path on the node.
#[derive(Debug)]
pub struct SettingsFile<'a> {
    /// The path on the node.
    pub path: PathBuf,
    /// What it says.
    pub text: &'a [u8],
    /// Who may write it; `None` for a file that is not written yet.
    pub metadata: Option<Metadata>,
}

/// What settings mean for an installation.
#[derive(Debug)]
pub struct Meaning {
    /// Where the wrapper is turned off, as file and line; `None` where it is on.
    pub off: Option<String>,
    /// Every QEMU that the wrapper may become.
    pub qemu: Vec<PathBuf>,
}

/// The wrapper's rules.
#[derive(Clone, Copy)]
pub struct Rules {
    /// Whether a text could stand in a settings file; the error is the broken rule with its line.
    pub check_text: fn(&str) -> Result<(), String>,
    /// What a settings file and the drop-ins behind it mean together. The error is what the wrapper
    /// would say, with file, line and key.
    pub read: fn(&[SettingsFile<'_>]) -> Result<Meaning, String>,
    /// Whether a file with this name in `config.d` is a drop-in.
    pub is_drop_in: fn(&[u8]) -> bool,
}

impl Rules {
    /// The rules of a wrapper that takes every text and names no QEMU.
    pub const NONE: Self = Self {
        check_text: |_| Ok(()),
        read: |_| Ok(Meaning { off: None, qemu: Vec::new() }),
        is_drop_in: |name| name.ends_with(b".toml"),
    };
}

impl fmt::Debug for Rules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Rules")
    }
}

/// All rules are as good as each other where configurations are compared.
impl PartialEq for Rules {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Default for Rules {
    fn default() -> Self {
        Self::NONE
    }
}

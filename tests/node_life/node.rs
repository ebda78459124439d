//! A node, as a directory: Kata's own files in it, and everything that is put there.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use vm_harness::Scratch;

/// Kata's configuration directories, one per handler.
pub const HANDLERS: [&str; 2] = [
    "opt/kata/share/defaults/kata-containers/runtimes/qemu-snp",
    "opt/kata/share/defaults/kata-containers/runtimes/qemu-tdx",
];

/// Where the drop-in of a handler is, below its directory.
pub const DROP_IN: &str = "config.d/zz-kata-configdev.toml";

/// By path relative to the node: mode, and of what is no directory length and time of the last
/// change in nanoseconds.
pub type Found = BTreeMap<String, (u32, Option<(u64, i64, i64)>)>;

pub struct Node(PathBuf);

impl Node {
    /// A node with Kata: two handlers, whose QEMU is this machine's.
    pub fn new(scratch: &Scratch) -> Result<Self> {
        let node = Self(scratch.path().join("node"));
        for directory in HANDLERS.iter().chain(&["opt/kata/bin", "etc", "run"]) {
            fs::create_dir_all(node.path(directory))?;
        }
        let qemu = node.path("opt/kata/bin/qemu-system-x86_64");
        fs::write(&qemu, "#!/bin/sh\nexec /usr/bin/qemu-system-x86_64 \"$@\"\n")?;
        fs::set_permissions(&qemu, PermissionsExt::from_mode(0o755))?;
        let kata = format!("[hypervisor.qemu]\npath = {qemu:?}\n");
        for handler in HANDLERS {
            fs::write(node.path(handler).join("configuration.toml"), &kata)?;
        }
        Ok(node)
    }

    /// Where a path of the node, without the leading slash, is on this machine: its programs run
    /// here, so that is what they call it too.
    pub fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// A text as a node at `/` would have it.
    pub fn shown(&self, text: &str) -> String {
        text.replace(&self.0.display().to_string(), "")
    }

    /// What Kata starts in the place of QEMU for sandboxes of a handler.
    pub fn hypervisor(&self, handler: &str) -> Result<PathBuf> {
        let drop_in = self.path(handler).join(DROP_IN);
        let text = fs::read_to_string(&drop_in)
            .with_context(|| format!("{} points to no wrapper", drop_in.display()))?;
        let said = text.lines().find_map(|line| line.strip_prefix("path = "));
        Ok(said.context("no path")?.trim_matches('"').into())
    }

    /// Everything on the node.
    pub fn find(&self) -> Result<Found> {
        let mut found = Found::new();
        self.collect(&self.0, &mut found)?;
        Ok(found)
    }

    fn collect(&self, directory: &Path, found: &mut Found) -> Result<()> {
        for entry in fs::read_dir(directory)? {
            let path = entry?.path();
            let seen = path.symlink_metadata()?;
            if seen.is_dir() {
                self.collect(&path, found)?;
            }
            let state = (seen.len(), seen.mtime(), seen.mtime_nsec());
            let state = (!seen.is_dir()).then_some(state);
            let name = path.strip_prefix(&self.0)?.to_string_lossy().into_owned();
            found.insert(name, (seen.mode(), state));
        }
        Ok(())
    }
}

/// Prints what is on a node.
pub fn show(when: &str, found: &Found) {
    println!("\n$ find . # {when}");
    for (name, (mode, state)) in found {
        let end = if state.is_none() { "/" } else { "" };
        println!("{:04o} {name}{end}", mode & 0o7777);
    }
    println!();
}

/// The names that `found` has and `before` has not, or has with another state.
pub fn news<'f>(before: &Found, found: &'f Found) -> BTreeSet<&'f str> {
    let new = found.iter().filter(|(name, state)| before.get(*name) != Some(*state));
    new.map(|(name, _)| name.as_str()).collect()
}

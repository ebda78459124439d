//! What the guest boots with: a kernel and modules from Debian's package, as `qemu-fixtures/build` unpacks them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};

use crate::program::workspace;

/// Kernel and modules on disk.
#[derive(Debug)]
pub struct Fixture {
    /// The kernel image.
    pub kernel: PathBuf,
    /// The modules to load, each after those it depends on.
    pub modules: Vec<PathBuf>,
    /// The module that plays a TEE's report device; loaded where a scenario asks for it.
    pub tee_module: PathBuf,
}

impl Fixture {
    /// Finds what `qemu-fixtures/build` left in `target/fixtures`.
    ///
    /// # Errors
    ///
    /// Where it did not run.
    pub fn find() -> Result<Self> {
        let root = workspace().join("target/fixtures");
        let release = fs::read_to_string(root.join("kernel/release"))
            .context("no kernel in target/fixtures: run qemu-fixtures/build first")?;
        let release = release.trim();
        let tee_module = root.join("tee_fixture.ko");
        ensure!(
            tee_module.exists(),
            "{} is missing: run qemu-fixtures/build first",
            tee_module.display()
        );
        let wanted = fs::read_to_string(source("guest/modules"))?;
        let tree = root.join("kernel/lib/modules").join(release);
        Ok(Self {
            kernel: root.join(format!("kernel/boot/vmlinuz-{release}")),
            modules: load_order(&tree, wanted.split_whitespace())?,
            tee_module,
        })
    }
}

/// A file of `qemu-fixtures/`.
pub(crate) fn source(name: &str) -> PathBuf {
    workspace().join("qemu-fixtures").join(name)
}

/// Orders the modules `wanted`, and what they depend on, so that each can be loaded after those before it.
///
/// Unpacking a package makes no `modules.dep`, so the dependencies are read from the modules themselves.
fn load_order<'a>(tree: &Path, wanted: impl Iterator<Item = &'a str>) -> Result<Vec<PathBuf>> {
    let mut index = BTreeMap::new();
    find_modules(tree, &mut index)?;
    let mut order = Vec::new();
    for name in wanted {
        add(name, &index, &mut order)?;
    }
    Ok(order)
}

fn find_modules(folder: &Path, index: &mut BTreeMap<String, PathBuf>) -> Result<()> {
    for entry in
        fs::read_dir(folder).with_context(|| format!("failed to read {}", folder.display()))?
    {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            find_modules(&path, index)?;
        } else if let Some(name) = entry.file_name().to_string_lossy().strip_suffix(".ko") {
            index.insert(name.replace('-', "_"), path);
        }
    }
    Ok(())
}

fn add(name: &str, index: &BTreeMap<String, PathBuf>, order: &mut Vec<PathBuf>) -> Result<()> {
    let path = index
        .get(&name.replace('-', "_"))
        .with_context(|| format!("the kernel package has no module {name}"))?;
    if order.contains(path) {
        return Ok(());
    }
    for dependency in dependencies(&fs::read(path)?) {
        add(&dependency, index, order)?;
    }
    order.push(path.clone());
    Ok(())
}

/// Reads the `depends=` line of a module's `.modinfo` section: a list with commas, ended by a NUL.
fn dependencies(module: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"\0depends=";
    let Some(start) = module.windows(KEY.len()).position(|window| window == KEY) else {
        return Vec::new();
    };
    let value = module[start + KEY.len()..]
        .split(|byte| *byte == 0)
        .next()
        .unwrap_or_default();
    String::from_utf8_lossy(value)
        .split(',')
        .filter(|name| !name.is_empty())
        .map(ToOwned::to_owned)
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_are_read_from_modinfo() {
        let names = |module: &[u8]| dependencies(module).join(" ");
        assert_eq!(
            names(b"x\0license=GPL\0depends=virtio,virtio_ring\0retpoline=Y\0"),
            "virtio virtio_ring"
        );
        assert_eq!(names(b"x\0depends=\0name=x\0"), "");
        assert_eq!(names(b"no such section"), "");
    }

    #[test]
    fn modules_come_after_what_they_need() {
        let tree = tempfile::tempdir().unwrap();
        for (name, needs) in [("a-x.ko", "b,c"), ("b.ko", "c"), ("c.ko", "")] {
            fs::write(tree.path().join(name), format!("\0depends={needs}\0")).unwrap();
        }
        let order = load_order(tree.path(), ["a_x", "c"].into_iter()).unwrap();
        let names: Vec<_> = order
            .iter()
            .map(|p| p.file_name().unwrap().to_str().unwrap())
            .collect();
        assert_eq!(names, ["c.ko", "b.ko", "a-x.ko"]);
        assert!(load_order(tree.path(), ["absent"].into_iter()).is_err());
    }
}

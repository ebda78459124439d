//! What the guest boots with: a kernel and modules from Debian's package, as `qemu-fixtures/build`
//! unpacks them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use anyhow::{Context, Result, ensure};

use crate::program::workspace;

/// A kernel that `qemu-fixtures/build` fetched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kernel {
    /// Debian 12's own, 6.1.
    #[default]
    Bookworm,
    /// Debian 12's backport, 6.12.
    Backports,
}

impl Kernel {
    /// Where it is below `target/fixtures`.
    const fn folder(self) -> &'static str {
        match self {
            Self::Bookworm => "kernel",
            Self::Backports => "kernel-backports",
        }
    }

    /// The processor it runs on, as QEMU names it.
    ///
    /// QEMU 7.2 emulates `cmpxchg16b` so that 6.12 dies of it early in its boot, in two of five
    /// attempts; newer versions of both do not, and without the feature 6.12 does not use the
    /// instruction.
    pub(crate) const fn cpu(self) -> &'static str {
        match self {
            Self::Bookworm => "max",
            Self::Backports => "max,-cx16",
        }
    }
}

/// Kernel and modules on disk.
#[derive(Debug)]
pub struct Fixture {
    /// The kernel image.
    pub kernel: PathBuf,
    /// The modules to load, each after those it depends on.
    pub modules: Vec<PathBuf>,
    /// Modules for the jobs that load them: those that play a TEE, and what they need, which comes
    /// first.
    pub optional_modules: Vec<PathBuf>,
}

impl Fixture {
    /// Finds the default kernel.
    ///
    /// # Errors
    ///
    /// As [`Fixture::of`].
    pub fn find() -> Result<&'static Self> {
        Self::of(Kernel::default())
    }

    /// Finds what `qemu-fixtures/build` left in `target/fixtures`, once for each kernel: reading
    /// what all modules depend on takes longer than anything else before a boot.
    ///
    /// # Errors
    ///
    /// Where it did not run.
    pub fn of(kernel: Kernel) -> Result<&'static Self> {
        static FOUND: Mutex<[Option<&Fixture>; 2]> = Mutex::new([None; 2]);
        let mut found = FOUND.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(fixture) = found[kernel as usize] {
            return Ok(fixture);
        }
        let fixture = Box::leak(Box::new(Self::read(kernel)?));
        found[kernel as usize] = Some(fixture);
        Ok(fixture)
    }

    /// As [`Fixture::of`], with `more` modules after the default ones and no optional ones.
    ///
    /// # Errors
    ///
    /// As there.
    pub(crate) fn with_modules(kernel: Kernel, more: &str) -> Result<Self> {
        let (image, tree) = unpacked(kernel)?;
        let wanted = fs::read_to_string(source("guest/modules"))?;
        Ok(Self {
            kernel: image,
            modules: tree.load_order(&format!("{wanted}\n{more}"))?,
            optional_modules: Vec::new(),
        })
    }

    fn read(kernel: Kernel) -> Result<Self> {
        let (image, tree) = unpacked(kernel)?;
        let modules = tree.load_order(&fs::read_to_string(source("guest/modules"))?)?;
        let mut optional_modules = tree.load_order("loop\n")?;
        optional_modules.retain(|module| !modules.contains(module));
        let fixture = built(kernel.folder()).join("tee_fixture.ko");
        ensure!(fixture.exists(), missing(&fixture));
        optional_modules.push(fixture);
        Ok(Self { kernel: image, modules, optional_modules })
    }
}

/// The image of `kernel`, and its modules.
fn unpacked(kernel: Kernel) -> Result<(PathBuf, Tree)> {
    let folder = modules_folder(kernel)?;
    let release = folder.file_name().unwrap_or_default().to_string_lossy();
    let image = built(kernel.folder()).join(format!("boot/vmlinuz-{release}"));
    Ok((image, Tree::read(&folder)?))
}

/// `lib/modules/RELEASE` of a kernel, as depmod leaves it.
///
/// # Errors
///
/// Where `qemu-fixtures/build` did not run.
pub fn modules_folder(kernel: Kernel) -> Result<PathBuf> {
    let root = built(kernel.folder());
    let release = root.join("release");
    let release = fs::read_to_string(&release).with_context(|| missing(&release))?;
    Ok(root.join("lib/modules").join(release.trim()))
}

/// What `qemu-fixtures/build` made under this name.
pub(crate) fn built(name: &str) -> PathBuf {
    workspace().join("target/fixtures").join(name)
}

fn missing(path: &Path) -> String {
    format!("{} is missing: run qemu-fixtures/build first", path.display())
}

/// A file of `qemu-fixtures/`.
pub(crate) fn source(name: &str) -> PathBuf {
    workspace().join("qemu-fixtures").join(name)
}

/// The modules that belong to a kernel, by name with underscores.
struct Tree {
    files: BTreeMap<String, PathBuf>,
    /// Those that are part of the kernel image.
    builtin: BTreeSet<String>,
}

impl Tree {
    fn read(folder: &Path) -> Result<Self> {
        let mut files = BTreeMap::new();
        find_modules(folder, &mut files)?;
        let list = folder.join("modules.builtin");
        let list = fs::read_to_string(&list)
            .with_context(|| format!("failed to read {}", list.display()))?;
        let builtin =
            list.lines().filter_map(|path| module_name(path.rsplit('/').next()?)).collect();
        Ok(Self { files, builtin })
    }

    /// Orders the modules `wanted`, and what they depend on, so that each can be loaded after those
    /// before it.
    ///
    /// Unpacking a package makes no `modules.dep`, so the dependencies are read from the modules
    /// themselves.
    fn load_order(&self, wanted: &str) -> Result<Vec<PathBuf>> {
        let mut order = Vec::new();
        for name in wanted.split_whitespace() {
            self.add(name, &mut order)?;
        }
        Ok(order)
    }

    fn add(&self, name: &str, order: &mut Vec<PathBuf>) -> Result<()> {
        let name = name.replace('-', "_");
        if self.builtin.contains(&name) {
            return Ok(());
        }
        let path = self
            .files
            .get(&name)
            .with_context(|| format!("the kernel package has no module {name}"))?;
        if order.contains(path) {
            return Ok(());
        }
        for dependency in dependencies(&fs::read(path)?) {
            self.add(&dependency, order)?;
        }
        order.push(path.clone());
        Ok(())
    }
}

/// The name of the module in a file of this name.
fn module_name(file: &str) -> Option<String> {
    Some(file.strip_suffix(".ko")?.replace('-', "_"))
}

fn find_modules(folder: &Path, files: &mut BTreeMap<String, PathBuf>) -> Result<()> {
    for entry in
        fs::read_dir(folder).with_context(|| format!("failed to read {}", folder.display()))?
    {
        let entry = entry?;
        let path = entry.path();
        if entry.file_type()?.is_dir() {
            find_modules(&path, files)?;
        } else if let Some(name) = module_name(&entry.file_name().to_string_lossy()) {
            files.insert(name, path);
        }
    }
    Ok(())
}

/// Reads the `depends=` line of a module's `.modinfo` section: a list with commas, ended by a NUL.
fn dependencies(module: &[u8]) -> Vec<String> {
    const KEY: &[u8] = b"\0depends=";
    let Some(start) = module.windows(KEY.len()).position(|window| window == KEY) else {
        return Vec::new();
    };
    let value = module[start + KEY.len()..].split(|byte| *byte == 0).next().unwrap_or_default();
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
        let folder = tempfile::tempdir().unwrap();
        for (name, needs) in [("a-x.ko", "b,c"), ("b.ko", "c,in-kernel"), ("c.ko", "")] {
            fs::write(folder.path().join(name), format!("\0depends={needs}\0")).unwrap();
        }
        fs::write(folder.path().join("modules.builtin"), "kernel/drivers/in-kernel.ko\n").unwrap();
        let tree = Tree::read(folder.path()).unwrap();
        let order = tree.load_order("a_x\nin_kernel\nc\n").unwrap();
        let names: Vec<_> =
            order.iter().map(|p| p.file_name().unwrap().to_str().unwrap()).collect();
        assert_eq!(names, ["c.ko", "b.ko", "a-x.ko"]);
        assert!(tree.load_order("absent").is_err());
    }
}

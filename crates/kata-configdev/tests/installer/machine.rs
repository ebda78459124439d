//! A node's directories, a container's, and the kubelet's work between them.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use kata_configdev::settings::RULES;
use node_installer::{Error, Options};
use tempfile::TempDir;

pub const PASSWORD: &str = "correct-horse-battery";

pub const SETTINGS: &str = "etc/kata-configdev/config.toml";
pub const DOCUMENT: &str = "opt/kata-configdev/default/etc/host-config/imagepuller.toml";
pub const WRAPPER: &str = "opt/kata-configdev/default/bin/kata-configdev-qemu";
pub const MANIFEST: &str = "opt/kata-configdev/installed.json";
pub const DROP_INS: [&str; 2] = [
    "opt/kata/qemu-snp/config.d/zz-kata-configdev.toml",
    "opt/kata/qemu-tdx/config.d/zz-kata-configdev.toml",
];

/// What a set has before its secret comes.
pub const NOTHING_YET: &str = "# No secret has come yet.\n";

/// A valid document; `name` makes it another one.
pub fn document(name: &str) -> String {
    format!("[registries.\"{name}.corp\"]\nusername = \"robot\"\npassword = \"{PASSWORD}\"\n")
}

/// A document with two problems, one of them in a value.
pub fn broken() -> String {
    format!("{}auth = \"{PASSWORD}!\"\nmiror = \"x\"\n", document("broken"))
}

pub struct Machine {
    directory: TempDir,
    generation: u32,
    /// More lines of the set in the configuration.
    pub more: String,
}

impl Machine {
    pub fn new() -> Self {
        let machine =
            Self { directory: tempfile::tempdir().unwrap(), generation: 0, more: String::new() };
        for handler in ["qemu-snp", "qemu-tdx"] {
            let directory = machine.host(&format!("opt/kata/{handler}"));
            fs::create_dir_all(&directory).unwrap();
            let main = directory.join(format!("configuration-{handler}.toml"));
            fs::write(main, "[hypervisor.qemu]\npath = \"/opt/kata/bin/qemu\"\n").unwrap();
        }
        machine.program("opt/kata/bin/qemu");
        fs::create_dir(machine.host("etc")).unwrap();
        fs::write(machine.path("wrapper"), "the wrapper, first version").unwrap();
        machine
    }

    /// Puts something executable on the node.
    pub fn program(&self, name: &str) {
        let path = self.host(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, "").unwrap();
        fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
    }

    /// A file in the container.
    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// A file on the node.
    pub fn host(&self, name: &str) -> PathBuf {
        self.path("host").join(name)
    }

    pub fn read(&self, name: &str) -> String {
        fs::read_to_string(self.host(name)).unwrap()
    }

    /// Whether the installed document says something that no secret says.
    pub fn has_stand_in(&self) -> bool {
        fs::read_to_string(self.host(DOCUMENT))
            .is_ok_and(|text| text == NOTHING_YET || text.starts_with("node-error"))
    }

    /// The configuration's text, without sets.
    pub fn head(&self) -> String {
        format!(
            "host = {:?}\nprefix = \"/opt/kata-configdev\"\nwrapper = {:?}\nlisten \
            = \"127.0.0.1:0\"\nbinaries = [\"/opt/kata/bin\"]\n",
            self.path("host"),
            self.path("wrapper")
        )
    }

    /// The configuration's text with one set for two handlers.
    pub fn configuration(&self) -> String {
        format!(
            "{}[sets.default]\nsecret = {:?}\n{}handlers = \
            [\"/opt/kata/qemu-snp\", \"/opt/kata/qemu-tdx\"]\n\
             settings = {{ qemu = \"/opt/kata/bin/qemu\", annotation-allow = [\"/etc/allowed\"] \
             }}\n",
            self.head(),
            self.path("secret"),
            self.more
        )
    }

    pub fn options(&self) -> Options {
        parse(&self.configuration()).unwrap()
    }

    /// Mounts a secret with the keys as the kubelet does, or changes the one that is mounted.
    pub fn mount(&mut self, keys: &[(&str, &str)]) {
        mount(&self.path("secret"), &mut self.generation, keys);
    }

    /// Mounts the secret `name` with the keys, or changes it.
    pub fn mount_other(&mut self, name: &str, keys: &[(&str, &str)]) {
        mount(&self.path(name), &mut self.generation, keys);
    }

    /// Mounts the document under the default key.
    pub fn mount_document(&mut self, text: &str) {
        self.mount(&[("imagepuller.toml", text)]);
    }

    /// Every file and directory of the node with its inode, mode, and times.
    pub fn state(&self) -> BTreeMap<PathBuf, (u64, u32, i64, i64, u64)> {
        let mut state = BTreeMap::new();
        collect(&self.path("host"), &mut state);
        state
    }

    /// The regular files on the node, but for those of Kata itself.
    pub fn files(&self) -> Vec<String> {
        let bin = self.host("opt/kata/bin");
        let is_of_kata = |path: &PathBuf| {
            let name = path.file_name().unwrap().to_str().unwrap();
            path.starts_with(&bin) || name.starts_with("configuration-")
        };
        let files = self.state().into_keys().filter(|path| path.is_file());
        let files = files.filter(|path| !is_of_kata(path));
        let relative = |path: PathBuf| {
            let path = path.strip_prefix(self.path("host")).unwrap().to_owned();
            path.into_os_string().into_string().unwrap()
        };
        files.map(relative).collect()
    }
}

pub fn parse(text: &str) -> Result<Options, Error> {
    Options::parse(text.as_bytes(), RULES)
}

pub fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o7777
}

/// The steps of the kubelet: a new directory, the links of the keys, and the exchange of `..data`. A
/// key of a projected volume is a path.
pub fn mount(directory: &Path, generation: &mut u32, keys: &[(&str, &str)]) {
    fs::create_dir_all(directory).unwrap();
    *generation += 1;
    let payload = format!("..2026_01_01_00_00_00.{generation}");
    fs::create_dir(directory.join(&payload)).unwrap();
    for (key, text) in keys {
        let path = directory.join(&payload).join(key);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, PermissionsExt::from_mode(0o400)).unwrap();
    }
    let first = |key: &str| key.split('/').next().unwrap().to_owned();
    let names: BTreeSet<String> = keys.iter().map(|(key, _)| first(key)).collect();
    let old = fs::read_link(directory.join("..data"));
    symlink(&payload, directory.join("..data_tmp")).unwrap();
    fs::rename(directory.join("..data_tmp"), directory.join("..data")).unwrap();
    for name in &names {
        // A key that was there before keeps its link.
        let _ = symlink(Path::new("..data").join(name), directory.join(name));
    }
    for entry in fs::read_dir(directory).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        if !name.starts_with("..") && !names.contains(&name) {
            fs::remove_file(entry.path()).unwrap();
        }
    }
    if let Ok(old) = old {
        fs::remove_dir_all(directory.join(old)).unwrap();
    }
}

fn collect(directory: &Path, state: &mut BTreeMap<PathBuf, (u64, u32, i64, i64, u64)>) {
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let metadata = path.symlink_metadata().unwrap();
        let seen = (
            metadata.ino(),
            metadata.mode(),
            metadata.mtime(),
            metadata.mtime_nsec(),
            metadata.len(),
        );
        if metadata.is_dir() {
            collect(&path, state);
        }
        state.insert(path, seen);
    }
}

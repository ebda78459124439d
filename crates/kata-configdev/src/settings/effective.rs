//! The settings that result from all files, and where each value came from.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::at_line::AtLine;
use super::files::Files;
use super::text::{Layer, QemuLayer};
use super::{Qemu, Settings, SettingsError};
use crate::further_disk::MAX_DISKS;
use crate::namespace_path;

/// The key whose registries need the other keys of its table.
const REGISTRIES: &str = "credential-providers.registries";

/// The key that the size of one scratch disk is held against.
const MAX_TOTAL: &str = "scratch.max-total";

/// The settings of a node with the origin of each.
#[derive(Clone, Debug)]
pub struct Effective {
    /// What holds.
    pub settings: Settings,
    /// The files that were read, in the order in which later ones win.
    pub files: Vec<PathBuf>,
    /// Where each value came from.
    pub origins: Origins,
}

/// Where each value of [`Settings`] came from, by its key: `document`, `qemu.q35`,
/// `credential-providers.config`. Keys that no file has are not in it.
#[derive(Clone, Debug, Default)]
pub struct Origins(BTreeMap<String, Origin>);

impl Origins {
    /// Where the value of `key` came from.
    #[must_use]
    pub fn of(&self, key: &str) -> &Origin {
        self.0.get(key).unwrap_or(&Origin::BuiltIn)
    }
}

/// Where one value came from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// No file has the key.
    #[default]
    BuiltIn,
    /// This line of this file.
    File {
        /// The file.
        path: Rc<Path>,
        /// The line, from 1.
        line: usize,
    },
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::BuiltIn => f.write_str("built in"),
            Self::File { path, line } => write!(f, "{}:{line}", path.display()),
        }
    }
}

impl Effective {
    /// Reads the settings file `path` and its drop-ins; see [`Settings::load`].
    ///
    /// # Errors
    ///
    /// [`SettingsError`].
    pub fn load(path: &Path) -> Result<Self, SettingsError> {
        Self::of(Files::read(path))
    }

    /// What the files say together; one that cannot be read or understood is never skipped.
    ///
    /// # Errors
    ///
    /// [`SettingsError`].
    pub fn of(files: Files) -> Result<Self, SettingsError> {
        let mut effective = Self::built_in();
        for (path, text) in files {
            let layer = Layer::parse(&text?).map_err(|(line, rule)| SettingsError::Text {
                path: path.clone(),
                line,
                rule,
            })?;
            effective.put(&path, layer);
            effective.files.push(path);
        }
        effective.check_together()?;
        Ok(effective)
    }

    /// What the files say of `enabled` and `qemu`, whatever else is wrong with them: the rest is
    /// built in. What the administrator cannot have written alone says nothing.
    #[must_use]
    pub fn salvage(files: &Files) -> Self {
        let mut effective = Self::built_in();
        for (path, text) in files.readable() {
            effective.put(path, Layer::salvage(text));
        }
        effective
    }

    fn built_in() -> Self {
        Self {
            settings: Settings::default(),
            files: Vec::new(),
            origins: Origins::default(),
        }
    }

    /// Lets `layer`, of the file `path`, win in every key that it has.
    fn put(&mut self, path: &Path, layer: Layer) {
        let settings = &mut self.settings;
        let mut values = Values {
            path: path.into(),
            origins: &mut self.origins.0,
        };
        values.put("enabled", layer.enabled, &mut settings.enabled);
        if let Some(qemu) = layer.qemu {
            values.put_qemu(&mut settings.qemu, qemu);
        }
        let document = layer.document.map(AtLine::some);
        values.put("document", document, &mut settings.document);
        let missing = layer.missing_document.map(AtLine::some);
        values.put("missing-document", missing, &mut settings.missing_document);
        let engine = layer.engine.map(AtLine::some);
        values.put("engine", engine, &mut settings.engine);
        let fallback = layer.namespace_fallback;
        values.put(
            "namespace-fallback",
            fallback,
            &mut settings.namespace_fallback,
        );
        let only = layer.only_registries.map(AtLine::some);
        values.put("only-registries", only, &mut settings.only_registries);
        for (name, list) in layer.namespaces {
            let key = format!("namespaces.{name}.only-registries");
            let namespace = settings.namespaces.entry(name).or_default();
            let list = list.map(AtLine::some);
            values.put(&key, list, &mut namespace.only_registries);
        }
        let allowed = layer.annotation_allow;
        values.put("annotation-allow", allowed, &mut settings.annotation_allow);
        let without_spec = layer.without_spec.map(AtLine::some);
        values.put("without-spec", without_spec, &mut settings.without_spec);
        values.put("transport", layer.transport, &mut settings.transport);
        let capacity = layer.capacity.map(AtLine::some);
        values.put("capacity", capacity, &mut settings.capacity);
        values.put("run-root", layer.run_root, &mut settings.run_root);
        values.put("refuse", layer.refuse, &mut settings.refuse);
        values.put("guest-pull", layer.guest_pull, &mut settings.guest_pull);
        for (magic, disk) in layer.disks {
            let key = format!("disks.{magic}");
            let mut value = disk.value.clone();
            values.put(&key, Some(disk), &mut value);
            settings.disks.insert(magic, value);
        }
        let (found, providers) = (
            layer.credential_providers,
            &mut settings.credential_providers,
        );
        let config = found.config.map(AtLine::some);
        values.put("credential-providers.config", config, &mut providers.config);
        let bin_dir = found.bin_dir.map(AtLine::some);
        values.put(
            "credential-providers.bin-dir",
            bin_dir,
            &mut providers.bin_dir,
        );
        let registries = found.registries;
        values.put(REGISTRIES, registries, &mut providers.registries);
        let deadline = found.deadline;
        values.put(
            "credential-providers.deadline-secs",
            deadline,
            &mut providers.deadline,
        );
        values.put(
            "credential-providers.leave-to-agent",
            found.leave_to_agent,
            &mut providers.leave_to_agent,
        );
        let (found, scratch) = (layer.scratch, &mut settings.scratch);
        values.put(
            "scratch.size",
            found.size.map(AtLine::some),
            &mut scratch.size,
        );
        values.put("scratch.directory", found.directory, &mut scratch.directory);
        let max_total = found.max_total.map(AtLine::some);
        values.put(MAX_TOTAL, max_total, &mut scratch.max_total);
    }

    /// Requires what the files have to say together: the credential providers to ask where they
    /// name registries, room for one scratch disk at least, few further disks, whose serials
    /// differ, and the engine where they have something by namespace, apart from the rest.
    fn check_together(&self) -> Result<(), SettingsError> {
        let missing = self.settings.credential_providers.missing();
        if let Some(missing) = missing {
            return Err(self.broken(REGISTRIES, format!("{REGISTRIES}: {missing} is missing")));
        }
        if let Some(rule) = self.settings.scratch.contradiction() {
            return Err(self.broken(MAX_TOTAL, rule.to_owned()));
        }
        if let Some((key, rule)) = namespace_path::contradiction(&self.settings) {
            return Err(self.broken(key, rule));
        }
        if let (Some(name), None) = (self.settings.namespaces.keys().next(), self.settings.engine) {
            let rule = "namespaces: needs engine = \"containerd\" or engine = \"cri-o\": what \
                starts the containers of this node";
            let key = format!("namespaces.{name}.only-registries");
            return Err(self.broken(&key, rule.to_owned()));
        }
        let mut serials = BTreeSet::new();
        for (number, (magic, disk)) in self.settings.disks.iter().enumerate() {
            let rule = if number >= MAX_DISKS {
                format!("more than {MAX_DISKS} disks")
            } else if !serials.insert(&disk.serial) {
                format!("another disk has the serial {:?}", disk.serial)
            } else {
                continue;
            };
            let key = format!("disks.{magic}");
            return Err(self.broken(&key, format!("{key}: {rule}")));
        }
        Ok(())
    }

    /// The error about a key that some file has.
    fn broken(&self, key: &str, rule: String) -> SettingsError {
        let (path, line) = match self.origins.of(key) {
            Origin::File { path, line } => (path.to_path_buf(), *line),
            Origin::BuiltIn => (self.files.first().cloned().unwrap_or_default(), 0),
        };
        SettingsError::Text { path, line, rule }
    }
}

/// The values of one file on their way into the settings.
struct Values<'a> {
    path: Rc<Path>,
    origins: &'a mut BTreeMap<String, Origin>,
}

impl Values<'_> {
    fn put<T>(&mut self, key: &str, found: Option<AtLine<T>>, value: &mut T) {
        if let Some(found) = found {
            *value = found.value;
            let path = Rc::clone(&self.path);
            let line = found.line;
            self.origins.insert(key.into(), Origin::File { path, line });
        }
    }

    /// A path replaces what earlier files said about every machine type; a table only the types
    /// that it has.
    fn put_qemu(&mut self, qemu: &mut Qemu, layer: QemuLayer) {
        let entries = match layer {
            QemuLayer::All(found) => {
                qemu.by_machine.clear();
                self.origins.retain(|key, _| !key.starts_with("qemu."));
                [("default".to_owned(), found)].into()
            }
            QemuLayer::ByMachine(entries) => entries,
        };
        for (machine, found) in entries {
            let key = format!("qemu.{machine}");
            if machine == "default" {
                self.put(&key, Some(found), &mut qemu.default);
            } else {
                self.put(
                    &key,
                    Some(found),
                    qemu.by_machine.entry(machine).or_default(),
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use tempfile::TempDir;

    use super::*;
    use crate::further_disk::FurtherDisk;
    use crate::namespace::Engine;
    use crate::refusal::Refuse;
    use crate::sandbox_spec::WithoutSpec;
    use crate::settings::NamespaceFallback;
    use crate::transport::Transport;

    fn write(dir: &TempDir, name: &str, text: &str) {
        let path = dir.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o644)).unwrap();
    }

    /// A main file and drop-ins `config.d/NAME`.
    fn node(main: &str, drop_ins: &[(&str, &str)]) -> TempDir {
        let dir = tempfile::tempdir().unwrap();
        write(&dir, "config.toml", main);
        for (name, text) in drop_ins {
            write(&dir, &format!("config.d/{name}"), text);
        }
        dir
    }

    fn load(dir: &TempDir) -> Result<Effective, String> {
        Effective::load(&dir.path().join("config.toml")).map_err(|error| error.to_string())
    }

    fn qemu(default: &str, by_machine: &[(&str, &str)]) -> Qemu {
        Qemu {
            default: default.into(),
            by_machine: by_machine
                .iter()
                .map(|(machine, path)| ((*machine).into(), path.into()))
                .collect(),
        }
    }

    #[test]
    fn all_keys_and_their_defaults() {
        let all = "qemu = \"/opt/kata/bin/qemu\"\ndocument = \"/etc/d.toml\"\n\
                   annotation-allow = [\"/etc/a\", \"/etc/b/\"]\ntransport = \"file\"\n\
                   capacity = \"64K\"\nrun-root = \"/x\"\nwithout-spec = \"none\"\n\
                    refuse = \"disk\"\nguest-pull = true\nenabled = false\n\
                    missing-document = \"late\"\nengine = \"cri-o\"\n\
                    namespace-fallback = \"/etc/o.toml\"\n\
                   [disks.timesync]\nsource = \"/etc/ntp.conf\"\n";
        let timesync = "timesync".parse().unwrap();
        let ntp = FurtherDisk::new(timesync, "/etc/ntp.conf".into(), None, None).unwrap();
        assert_eq!(
            load(&node(all, &[])).unwrap().settings,
            Settings {
                enabled: false,
                qemu: qemu("/opt/kata/bin/qemu", &[]),
                document: Some("/etc/d.toml".into()),
                missing_document: Some(puller_config::NodeError::new("late")),
                engine: Some(Engine::CriO),
                namespace_fallback: NamespaceFallback::Document("/etc/o.toml".into()),
                annotation_allow: vec!["/etc/a".into(), "/etc/b/".into()],
                transport: Transport::File,
                capacity: "65536".parse().ok(),
                run_root: "/x".into(),
                without_spec: Some(WithoutSpec::None),
                refuse: Refuse::Disk,
                guest_pull: true,
                disks: [(timesync, ntp)].into(),
                ..Settings::default()
            }
        );
        let none = load(&node("", &[])).unwrap();
        assert_eq!(none.settings, Settings::default());
        assert_eq!(none.settings.run_root, Path::new("/run"));
        assert_eq!(none.settings.qemu, qemu("/usr/bin/qemu-system-x86_64", &[]));
        assert_eq!(*none.origins.of("qemu.default"), Origin::BuiltIn);
    }

    #[test]
    fn later_files_win_per_key() {
        let dir = node(
            "document = \"/main\"\ntransport = \"file\"\nannotation-allow = [\"/a\", \"/b\"]\n",
            &[
                ("90-last.toml", "document = \"/90\"\n"),
                (
                    "10-first.toml",
                    "\ndocument = \"/10\"\nannotation-allow = []\n",
                ),
                ("9-text.toml", "run-root = \"/nine\"\n"),
                ("50-disabled.toml.bak", "document = 7\n"),
                (".60-hidden.toml", "document = 7\n"),
                ("README", "no TOML"),
            ],
        );
        let effective = load(&dir).unwrap();
        let names: Vec<_> = effective
            .files
            .iter()
            .map(|path| path.file_name().unwrap().to_str().unwrap())
            .collect();
        // By bytes, as Kata sorts its own drop-ins: "9-" is behind "10-" and before "90-".
        assert_eq!(
            names,
            [
                "config.toml",
                "10-first.toml",
                "9-text.toml",
                "90-last.toml"
            ]
        );
        let settings = &effective.settings;
        assert_eq!(settings.document.as_deref(), Some(Path::new("/90")));
        assert!(settings.annotation_allow.is_empty());
        assert_eq!(settings.transport, Transport::File);
        assert_eq!(settings.run_root, Path::new("/nine"));
        let origin = |origin: &Origin| {
            let shown = origin.to_string();
            let place = dir.path().to_str().unwrap();
            shown.strip_prefix(place).unwrap_or(&shown).to_owned()
        };
        for (key, expected) in [
            ("document", "/config.d/90-last.toml:1"),
            ("annotation-allow", "/config.d/10-first.toml:3"),
            ("transport", "/config.toml:2"),
            ("qemu.default", "built in"),
        ] {
            assert_eq!(origin(effective.origins.of(key)), expected, "{key}");
        }
    }

    #[test]
    fn disks_are_merged_by_magic() {
        let disk = |magic: &str, more: &str| format!("disks.{magic} = {{source = \"/x\"{more}}}\n");
        let one = disk("timesync", "");
        let load = |drop_in: &str| load(&node(&one, &[("a.toml", drop_in)]));
        let merged = load(&(disk("othersss", "") + &disk("timesync", ", max-bytes = 5"))).unwrap();
        let sizes = merged.settings.disks.values().map(|disk| disk.max_bytes);
        assert_eq!(sizes.collect::<Vec<_>>(), [4 << 20, 5]);
        let origin = merged.origins.of("disks.timesync").to_string();
        assert!(origin.ends_with("/config.d/a.toml:2"), "{origin}");
        let many: String = (0..MAX_DISKS)
            .map(|n| disk(&format!("disk-{n:03}"), ""))
            .collect();
        for (drop_in, rule) in [
            (
                disk("othersss", ", serial = \"timesync\""),
                "another disk has the serial",
            ),
            (many, "timesync: more than 8 disks"),
        ] {
            let message = load(&drop_in).unwrap_err();
            assert!(message.contains(rule), "{message}");
        }
    }

    #[test]
    fn qemu_is_merged_by_machine_type() {
        let cases: [(&str, &[&str], Qemu); 6] = [
            (
                "[qemu]\nq35 = \"/q\"\n",
                &[],
                qemu("/usr/bin/qemu-system-x86_64", &[("q35", "/q")]),
            ),
            (
                "[qemu]\nq35 = \"/q\"\ndefault = \"/d\"\n",
                &[],
                qemu("/d", &[("q35", "/q")]),
            ),
            (
                "[qemu]\nq35 = \"/q\"\n",
                &["[qemu]\nmicrovm = \"/m\"\n", "qemu.q35 = \"/other\"\n"],
                qemu(
                    "/usr/bin/qemu-system-x86_64",
                    &[("microvm", "/m"), ("q35", "/other")],
                ),
            ),
            (
                "qemu = \"/d\"\n",
                &["qemu.q35 = \"/q\"\n"],
                qemu("/d", &[("q35", "/q")]),
            ),
            (
                "[qemu]\nq35 = \"/q\"\ndefault = \"/d\"\n",
                &["qemu = \"/all\"\n"],
                qemu("/all", &[]),
            ),
            (
                "qemu = { s390-ccw-virtio = \"/s\" }\n",
                &[],
                qemu("/usr/bin/qemu-system-x86_64", &[("s390-ccw-virtio", "/s")]),
            ),
        ];
        for (main, drop_ins, expected) in cases {
            let names: Vec<String> = (0..drop_ins.len()).map(|n| format!("{n}.toml")).collect();
            let files: Vec<_> = names
                .iter()
                .map(String::as_str)
                .zip(drop_ins.iter().copied())
                .collect();
            let effective = load(&node(main, &files)).unwrap();
            assert_eq!(effective.settings.qemu, expected, "{main} {drop_ins:?}");
            for machine in expected.by_machine.keys() {
                let origin = effective.origins.of(&format!("qemu.{machine}"));
                assert_ne!(*origin, Origin::BuiltIn, "{machine}");
            }
            assert_eq!(
                effective.origins.0.len() - expected.by_machine.len(),
                usize::from(expected.default != Path::new("/usr/bin/qemu-system-x86_64"))
            );
        }
    }

    #[test]
    fn a_drop_in_that_cannot_be_used_is_not_skipped() {
        let broken = |name: &str, change: &dyn Fn(&Path)| {
            let dir = node("", &[("50-a.toml", "document = \"/x\"\n")]);
            change(&dir.path().join("config.d"));
            let message = load(&dir).unwrap_err();
            assert!(message.contains(name), "{message}");
            message
        };
        let set_mode =
            |path: &Path, mode| std::fs::set_permissions(path, PermissionsExt::from_mode(mode));
        let message = broken("50-a.toml", &|dir| {
            set_mode(&dir.join("50-a.toml"), 0o666).unwrap();
        });
        assert!(message.contains("mode 0666"), "{message}");
        let message = broken("/config.d", &|dir| set_mode(dir, 0o777).unwrap());
        assert!(message.contains("mode 0777"), "{message}");
        let message = broken("60-link.toml", &|dir| {
            symlink("50-a.toml", dir.join("60-link.toml")).unwrap();
        });
        assert!(message.contains("symbolic link"), "{message}");
        let message = broken("60-folder.toml", &|dir| {
            std::fs::create_dir(dir.join("60-folder.toml")).unwrap();
        });
        assert!(message.contains("not a regular file"), "{message}");
        let message = broken("60-bad.toml:2", &|dir| {
            let path = dir.join("60-bad.toml");
            std::fs::write(&path, "\ndocumnet = \"/x\"\n").unwrap();
            set_mode(&path, 0o600).unwrap();
        });
        assert!(message.contains("documnet"), "{message}");
        let message = broken("config.d", &|dir| {
            std::fs::remove_dir_all(dir).unwrap();
            std::fs::write(dir, "").unwrap();
        });
        assert!(message.contains("Not a directory"), "{message}");
    }
}

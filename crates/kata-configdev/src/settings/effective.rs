//! The settings that result from all files, and where each value came from.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use super::credential_providers::ProvidersLayer;
use super::text::{AtLine, Layer, QemuLayer};
use super::{Settings, SettingsError, drop_ins, read_layer};
use crate::host_file::HostFile;

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

/// Where each value of [`Settings`] came from.
#[derive(Clone, Debug, Default)]
pub struct Origins {
    /// `qemu`: by machine type, with `default` among them.
    pub qemu: BTreeMap<String, Origin>,
    /// `document`.
    pub document: Origin,
    /// `annotation-allow`.
    pub annotation_allow: Origin,
    /// `transport`.
    pub transport: Origin,
    /// `capacity`.
    pub capacity: Origin,
    /// `run-root`.
    pub run_root: Origin,
    /// `credential-providers`.
    pub credential_providers: ProvidersOrigins,
}

/// Where each value of `credential-providers` came from.
#[derive(Clone, Debug, Default)]
pub struct ProvidersOrigins {
    /// `config`.
    pub config: Origin,
    /// `bin-dir`.
    pub bin_dir: Origin,
    /// `registries`.
    pub registries: Origin,
    /// `deadline-secs`.
    pub deadline: Origin,
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
        let file = HostFile::open(path).map_err(|fault| fault.at(path))?;
        let mut layers = vec![(path.to_owned(), read_layer(path, file)?)];
        layers.extend(drop_ins::read(path)?);
        let mut effective = Self {
            settings: Settings::default(),
            files: Vec::new(),
            origins: Origins::default(),
        };
        effective
            .origins
            .qemu
            .insert("default".into(), Origin::BuiltIn);
        for (path, layer) in layers {
            effective.put(&path, layer);
            effective.files.push(path);
        }
        effective.check_providers()?;
        Ok(effective)
    }

    /// Lets `layer` win in every key that it has.
    fn put(&mut self, path: &Path, layer: Layer) {
        let path: Rc<Path> = path.into();
        let Self {
            settings, origins, ..
        } = self;
        if let Some(qemu) = layer.qemu {
            put_qemu(settings, origins, qemu, &path);
        }
        put_value(
            layer.document.map(AtLine::some),
            &mut settings.document,
            &mut origins.document,
            &path,
        );
        put_value(
            layer.annotation_allow,
            &mut settings.annotation_allow,
            &mut origins.annotation_allow,
            &path,
        );
        put_value(
            layer.transport,
            &mut settings.transport,
            &mut origins.transport,
            &path,
        );
        put_value(
            layer.capacity.map(AtLine::some),
            &mut settings.capacity,
            &mut origins.capacity,
            &path,
        );
        put_value(
            layer.run_root,
            &mut settings.run_root,
            &mut origins.run_root,
            &path,
        );
        put_providers(settings, origins, layer.credential_providers, &path);
    }

    /// Requires that registries are named together with whom to ask about them, whichever files do
    /// so.
    fn check_providers(&self) -> Result<(), SettingsError> {
        let providers = &self.settings.credential_providers;
        let Some(missing) = providers.missing() else {
            return Ok(());
        };
        let rule = format!("credential-providers.registries: {missing} is missing");
        Err(match &self.origins.credential_providers.registries {
            Origin::File { path, line } => SettingsError::Text {
                path: path.to_path_buf(),
                line: *line,
                rule,
            },
            Origin::BuiltIn => SettingsError::Text {
                path: self.files.first().cloned().unwrap_or_default(),
                line: 0,
                rule,
            },
        })
    }
}

fn put_providers(
    settings: &mut Settings,
    origins: &mut Origins,
    layer: ProvidersLayer,
    path: &Rc<Path>,
) {
    let values = &mut settings.credential_providers;
    let origins = &mut origins.credential_providers;
    put_value(
        layer.config.map(AtLine::some),
        &mut values.config,
        &mut origins.config,
        path,
    );
    put_value(
        layer.bin_dir.map(AtLine::some),
        &mut values.bin_dir,
        &mut origins.bin_dir,
        path,
    );
    put_value(
        layer.registries,
        &mut values.registries,
        &mut origins.registries,
        path,
    );
    put_value(
        layer.deadline,
        &mut values.deadline,
        &mut origins.deadline,
        path,
    );
}

fn put_value<T>(layer: Option<AtLine<T>>, value: &mut T, origin: &mut Origin, path: &Rc<Path>) {
    if let Some(found) = layer {
        *value = found.value;
        *origin = Origin::File {
            path: Rc::clone(path),
            line: found.line,
        };
    }
}

/// A path replaces what earlier files said about every machine type; a table only the types that it
/// has.
fn put_qemu(settings: &mut Settings, origins: &mut Origins, layer: QemuLayer, path: &Rc<Path>) {
    let entries = match layer {
        QemuLayer::All(found) => {
            settings.qemu.by_machine.clear();
            origins.qemu.clear();
            [("default".to_owned(), found)].into()
        }
        QemuLayer::ByMachine(entries) => entries,
    };
    for (machine, AtLine { line, value }) in entries {
        let origin = Origin::File {
            path: Rc::clone(path),
            line,
        };
        origins.qemu.insert(machine.clone(), origin);
        if machine == "default" {
            settings.qemu.default = value;
        } else {
            settings.qemu.by_machine.insert(machine, value);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, symlink};

    use tempfile::TempDir;

    use super::*;
    use crate::settings::{Qemu, Transport};

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
                   capacity = \"64K\"\nrun-root = \"/x\"\n";
        assert_eq!(
            load(&node(all, &[])).unwrap().settings,
            Settings {
                qemu: qemu("/opt/kata/bin/qemu", &[]),
                document: Some("/etc/d.toml".into()),
                annotation_allow: vec!["/etc/a".into(), "/etc/b/".into()],
                transport: Transport::File,
                capacity: "65536".parse().ok(),
                run_root: "/x".into(),
                ..Settings::default()
            }
        );
        let none = load(&node("", &[])).unwrap();
        assert_eq!(none.settings, Settings::default());
        assert_eq!(none.settings.run_root, Path::new("/run"));
        assert_eq!(none.settings.qemu, qemu("/usr/bin/qemu-system-x86_64", &[]));
        assert_eq!(none.origins.qemu["default"], Origin::BuiltIn);
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
        let origins = &effective.origins;
        assert_eq!(origin(&origins.document), "/config.d/90-last.toml:1");
        assert_eq!(
            origin(&origins.annotation_allow),
            "/config.d/10-first.toml:3"
        );
        assert_eq!(origin(&origins.transport), "/config.toml:2");
        assert_eq!(origin(&origins.qemu["default"]), "built in");
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
            let origins: Vec<_> = effective.origins.qemu.keys().map(String::as_str).collect();
            let mut machines: Vec<_> = expected.by_machine.keys().map(String::as_str).collect();
            machines.push("default");
            machines.sort_unstable();
            assert_eq!(origins, machines);
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

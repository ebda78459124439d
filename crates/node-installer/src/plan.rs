//! The files that should be on the node.

use std::collections::BTreeMap;

use zeroize::Zeroizing;

use crate::engine::Engine;
use crate::group::{GROUPS, Group};
use crate::kata::DropInFate;
use crate::kind::{DOCUMENT, DROP_IN, Kind, PROGRAM, WRAPPER, handler_of};
use crate::manifest::Entry;
use crate::source::is_name;
use crate::wrapper_settings::settings_text;
use crate::{HostPath, Options, Set};

/// What a set gives to guests is here, below the set's directory, unless it has a place in memory.
const HOST_CONFIG: &str = "etc/host-config";

/// The settings' path below that of its set; once its directory is there, the set's wrapper looks
/// nowhere else.
const OWN_SETTINGS: &str = "etc/kata-configdev/config.toml";

/// The programs of a set.
pub(crate) struct Programs {
    pub(crate) wrapper: Zeroizing<Vec<u8>>,
    pub(crate) program: Option<Zeroizing<Vec<u8>>>,
}

/// A file that should be on the node.
pub(crate) struct PlannedFile {
    pub(crate) kind: Kind,
    /// The set that it is of.
    pub(crate) set: String,
    pub(crate) path: HostPath,
    /// The file's mode; that of a directory which has to be made for it follows from it.
    pub(crate) mode: u32,
    /// What it should say; `None`: whatever is there stays.
    pub(crate) content: Option<Zeroizing<Vec<u8>>>,
}

/// What the settings of a set say because of what is seen on the node.
#[derive(Default)]
pub(crate) struct View {
    /// The QEMU of Kata's configuration, where it is needed and known.
    pub(crate) qemu: Option<HostPath>,
    /// The container engine of the node, where it is needed and known.
    pub(crate) engine: Option<Engine>,
    /// Whether guests pull.
    pub(crate) guest_pulls: bool,
    /// For a set that is turned off while its QEMU is not known: the settings that are on the
    /// node, turned off.
    pub(crate) turned_off: Option<Zeroizing<Vec<u8>>>,
    /// What becomes of the drop-ins; that of a handler which is not in it is written.
    pub(crate) fates: BTreeMap<HostPath, DropInFate>,
}

impl View {
    /// Whether the settings of `set` can be written. Without the engine a sandbox would be given
    /// a document by what its pod's author says; a set that is turned off gives nothing.
    pub(crate) fn is_settled(&self, set: &Set) -> bool {
        self.is_qemu_known(set) && self.is_engine_known(set)
    }

    /// Whether the container engine is known, where the set needs it.
    pub(crate) fn is_engine_known(&self, set: &Set) -> bool {
        self.engine.is_some() || !set.needs_engine() || !set.enabled
    }

    /// Whether QEMU is known.
    pub(crate) fn is_qemu_known(&self, set: &Set) -> bool {
        self.qemu.is_some() || !set.needs_qemu_of_kata()
    }
}

/// What becomes of a file that is made of secrets.
pub(crate) enum SecretFile {
    /// A valid one, or what takes its place until the secrets come.
    Made(Zeroizing<Vec<u8>>),
    /// A secret is not valid or cannot be read, so that the previous one stays.
    Unusable,
}

/// The paths of all files of a set, in the order of [`files`].
pub(crate) fn paths(options: &Options, name: &str, set: &Set) -> Vec<HostPath> {
    let mut paths = vec![
        wrapper_path(options, name),
        program_path(options, name),
        document_path(options, name),
        set.settings_file.clone(),
    ];
    let used = set.groups().into_iter().filter(|group| group.is_used());
    // One file for each document, whose names nobody knows yet; what counts is the directory.
    paths.extend(used.map(|group| group_directory(options, name, &group).join("any")));
    paths.extend(set.handlers.iter().map(drop_in_path));
    paths
}

/// The files of a set in the order in which they are written: Kata is pointed to the wrapper last.
pub(crate) fn files(
    options: &Options,
    name: &str,
    set: &Set,
    programs: &Programs,
    document: Option<SecretFile>,
    view: &View,
) -> Vec<PlannedFile> {
    let wanted = |kind, path, mode, content: Option<Zeroizing<Vec<u8>>>| PlannedFile {
        kind,
        set: name.to_owned(),
        path,
        mode,
        content,
    };
    let secret = |kind, path, file| secret_file(kind, name, path, file);
    let text = |text: String| Some(Zeroizing::new(text.into_bytes()));
    let mut files = vec![wanted(
        Kind::Wrapper,
        wrapper_path(options, name),
        0o755,
        Some(programs.wrapper.clone()),
    )];
    if let Some(program) = &programs.program {
        let path = program_path(options, name);
        files.push(wanted(Kind::Program, path, 0o755, Some(program.clone())));
    }
    let path = document_path(options, name);
    files.extend(document.map(|document| secret(Kind::Document, path, document)));
    let settings = settings_text(options, name, set, view);
    let settings = match view.is_settled(set) {
        true => text(settings),
        false => view.turned_off.clone(),
    };
    let path = set.settings_file.clone();
    files.push(wanted(Kind::Settings, path, 0o644, settings));
    let drop_in = drop_in_text(options, name);
    files.extend(set.handlers.iter().filter_map(|handler| {
        let content = match view.fates.get(handler).unwrap_or(&DropInFate::Written) {
            DropInFate::Written => text(drop_in.clone()),
            DropInFate::Left => None,
            DropInFate::Removed => return None,
        };
        Some(wanted(Kind::DropIn, drop_in_path(handler), 0o644, content))
    }));
    files
}

/// A file that is made of secrets; `unit` is what it is listed under.
pub(crate) fn secret_file(kind: Kind, unit: &str, path: HostPath, file: SecretFile) -> PlannedFile {
    let content = match file {
        SecretFile::Made(content) => Some(content),
        SecretFile::Unusable => None,
    };
    PlannedFile { kind, set: unit.to_owned(), path, mode: 0o600, content }
}

fn drop_in_text(options: &Options, name: &str) -> String {
    let path = toml::Value::from(wrapper_path(options, name).as_str());
    format!(
        "# Written by the node installer of kata-configdev.\n[hypervisor.qemu]\npath = {path}\n"
    )
}

/// Where the wrapper of the set `name` goes.
pub(crate) fn wrapper_path(options: &Options, name: &str) -> HostPath {
    options.prefix.join(name).join("bin").join(WRAPPER)
}

/// Where the command for people goes.
pub(crate) fn program_path(options: &Options, name: &str) -> HostPath {
    options.prefix.join(name).join("bin").join(PROGRAM)
}

/// Where the document of the set `name` goes.
pub(crate) fn document_path(options: &Options, name: &str) -> HostPath {
    secret_directory(options, name).join(DOCUMENT)
}

/// Where the documents of a group go.
pub(crate) fn group_directory(options: &Options, name: &str, group: &Group<'_>) -> HostPath {
    secret_directory(options, name).join(group.directory)
}

/// The directories of documents that are there even where no document is: an empty one says that
/// every document which there is has come.
pub(crate) fn document_directories(options: &Options) -> Vec<HostPath> {
    let of_set = |(name, set): (&String, &Set)| {
        let groups = set.groups().into_iter().filter(|group| group.is_used());
        let directories = groups.map(|group| group_directory(options, name, &group));
        directories.collect::<Vec<_>>()
    };
    options.sets.iter().flat_map(of_set).collect()
}

/// Where the set `name` can have settings of its own.
pub(crate) fn own_settings_path(options: &Options, name: &str) -> HostPath {
    options.prefix.join(name).join(OWN_SETTINGS)
}

/// Where what the set `name` gives to guests goes; closed to everybody else.
pub(crate) fn secret_directory(options: &Options, name: &str) -> HostPath {
    match &options.document_dir {
        Some(directory) => directory.join(name),
        None => options.prefix.join(name).join(HOST_CONFIG),
    }
}

/// Where an installation can have what it lists, for who removes it.
#[derive(Debug)]
pub(crate) struct Places {
    pub(crate) prefix: HostPath,
    pub(crate) document_dirs: Vec<HostPath>,
}

impl Places {
    /// Those of a configuration.
    pub(crate) fn of(options: &Options) -> Self {
        Self {
            prefix: options.prefix.clone(),
            document_dirs: options.document_dir.iter().cloned().collect(),
        }
    }

    /// Whether a file of this kind can be there. Of a wrapper, a program and settings the digest
    /// says so: nothing of theirs is removed without it.
    pub(crate) fn fit(&self, entry: &Entry) -> bool {
        match entry.kind {
            Kind::Document => self.has_secret(&entry.path),
            Kind::DropIn => handler_of(&entry.path).is_some(),
            Kind::Wrapper | Kind::Program | Kind::Settings => true,
        }
    }

    /// Whether a document of any set can be at `path`.
    fn has_secret(&self, path: &HostPath) -> bool {
        let (Some(directory), name) = path.split() else {
            return false;
        };
        let own = (name == DOCUMENT).then(|| directory.clone());
        let (above, group) = directory.split();
        let is_of_group = GROUPS.contains(&group) && name.ends_with(".toml");
        let mut directories = own.into_iter().chain(above.filter(|_| is_of_group));
        directories.any(|directory| self.is_of_set(&directory))
    }

    /// Whether it is the [`secret_directory`] of any set.
    fn is_of_set(&self, directory: &HostPath) -> bool {
        let mut names = directory.as_str().split('/').filter(|name| is_name(name));
        let is_of = |name: &str| {
            let mut memory = self.document_dirs.iter();
            self.prefix.join(name).join(HOST_CONFIG) == *directory
                || memory.any(|memory| memory.join(name) == *directory)
        };
        names.any(is_of)
    }
}

/// Whether the settings of any set can be at `path`.
pub(crate) fn is_settings_path(path: &HostPath) -> bool {
    path.as_str().ends_with(&format!("/{OWN_SETTINGS}"))
}

fn drop_in_path(handler: &HostPath) -> HostPath {
    handler.join("config.d").join(DROP_IN)
}

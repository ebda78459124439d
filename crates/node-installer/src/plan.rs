//! The files that should be on the node.

use foreign_text::hex;
use zeroize::Zeroizing;

use crate::{HostPath, Options, Set};

/// The wrapper's name, on the node as in the container.
const WRAPPER: &str = "kata-configdev-qemu";

/// The document's path below that of its set.
const DOCUMENT: &str = "/etc/host-config/imagepuller.toml";

/// What a set gives to guests is below this.
const HOST_CONFIG: &str = "/etc/host-config/";

/// The settings' path below that of its set; once its directory is there, the set's wrapper looks
/// nowhere else.
const OWN_SETTINGS: &str = "etc/kata-configdev/config.toml";

/// The drop-in of a handler. Kata reads `config.d` by name; its installer keeps 10 to 30 for
/// itself.
pub(crate) const DROP_IN: &str = "50-configdev.toml";

/// The setting that says that guests pull, so that a refusal which a guest's puller tells is read.
const GUEST_PULL: &str = "guest-pull";

/// A file that should be on the node.
pub(crate) struct PlannedFile {
    /// What it is for, in messages.
    pub(crate) what: &'static str,
    pub(crate) path: HostPath,
    /// The file's mode; that of a directory which has to be made for it follows from it.
    pub(crate) mode: u32,
    /// What it should say; `None`: whatever is there stays.
    pub(crate) content: Option<Zeroizing<Vec<u8>>>,
    /// Whether the directory two levels up must be there already, because it is Kata's.
    pub(crate) in_handler: bool,
}

/// What becomes of a set's document.
pub(crate) enum Document {
    /// There is no secret, or no such key in it.
    Absent,
    /// A valid one.
    Valid(Zeroizing<Vec<u8>>),
    /// There is one that is not valid or cannot be read, so that the previous one stays.
    Unusable,
}

/// A further disk of a set whose secret has its key: the magic, and the file; `None` for one that
/// cannot be read, so that the previous one stays.
pub(crate) type Disk<'a> = (&'a str, Option<Zeroizing<Vec<u8>>>);

/// The paths of all files of a set, in the order of [`files`].
pub(crate) fn paths(options: &Options, name: &str, set: &Set) -> Vec<HostPath> {
    let mut paths = vec![
        wrapper_path(options, name),
        document_path(options, name),
        set.settings_file.clone(),
    ];
    let magics = set.disks.keys();
    paths.extend(magics.map(|magic| disk_path(options, name, magic)));
    paths.extend(set.handlers.iter().map(drop_in_path));
    paths
}

/// The files of a set in the order in which they are written: Kata is pointed to the wrapper last.
pub(crate) fn files(
    options: &Options,
    name: &str,
    set: &Set,
    wrapper: &Zeroizing<Vec<u8>>,
    document: Document,
    disks: Vec<Disk<'_>>,
    guest_pulls: bool,
) -> Vec<PlannedFile> {
    let wanted = |what, path, mode, content: Option<Zeroizing<Vec<u8>>>| PlannedFile {
        what,
        path,
        mode,
        content,
        in_handler: false,
    };
    let text = |text: String| Some(Zeroizing::new(text.into_bytes()));
    let mut files = vec![wanted(
        "wrapper",
        wrapper_path(options, name),
        0o755,
        Some(wrapper.clone()),
    )];
    // A secret that is there but not usable never means "no configuration": the settings go on
    // naming the document, and where there never was a valid one, the wrapper fails the sandbox
    // instead of leaving it to pull anonymously.
    let named = !matches!(document, Document::Absent);
    let content = match document {
        Document::Absent => None,
        Document::Valid(content) => Some(Some(content)),
        Document::Unusable => Some(None),
    };
    if let Some(content) = content {
        files.push(wanted(
            "document",
            document_path(options, name),
            0o600,
            content,
        ));
    }
    let magics: Vec<&str> = disks.iter().map(|(magic, _)| *magic).collect();
    let settings = settings_text(options, name, set, named, &magics, guest_pulls);
    files.extend(disks.into_iter().map(|(magic, content)| {
        let path = disk_path(options, name, magic);
        wanted("disk", path, 0o600, content)
    }));
    files.push(wanted(
        "settings",
        set.settings_file.clone(),
        0o644,
        text(settings),
    ));
    let drop_in = drop_in_text(options, name);
    files.extend(set.handlers.iter().map(|handler| PlannedFile {
        in_handler: true,
        ..wanted(
            "drop-in",
            drop_in_path(handler),
            0o644,
            text(drop_in.clone()),
        )
    }));
    files
}

/// The text of a set's settings file. What the administrator says of `guest-pull` wins over
/// `guest_pulls`, what Kata's configuration says.
pub(crate) fn settings_text(
    options: &Options,
    name: &str,
    set: &Set,
    with_document: bool,
    disks: &[&str],
    guest_pulls: bool,
) -> String {
    let mut settings = set.settings.clone();
    if guest_pulls {
        settings.entry(GUEST_PULL).or_insert(true.into());
    }
    let said = settings.remove("disks");
    match said.unwrap_or_else(|| toml::Table::new().into()) {
        // Those of the secret; what the administrator says of one is kept.
        toml::Value::Table(mut table) => {
            table.retain(|magic, _| disks.contains(&magic) || !set.disks.contains_key(magic));
            for magic in disks {
                let path = disk_path(options, name, magic).as_str().to_owned();
                let disk = table.entry(*magic).or_insert(toml::Table::new().into());
                if let Some(disk) = disk.as_table_mut() {
                    disk.insert("source".into(), path.into());
                }
            }
            if !table.is_empty() {
                settings.insert("disks".into(), table.into());
            }
        }
        // The rules of the settings refuse it.
        other => {
            settings.insert("disks".into(), other);
        }
    }
    if with_document {
        let path = document_path(options, name).as_str().to_owned();
        settings.insert("document".into(), path.into());
    }
    format!(
        "# Written by the node installer of kata-configdev; change its configuration \
        instead.\n{settings}"
    )
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

/// Where the document of the set `name` goes.
pub(crate) fn document_path(options: &Options, name: &str) -> HostPath {
    options
        .prefix
        .join(name)
        .join(DOCUMENT.trim_start_matches('/'))
}

/// Where the file of a further disk goes: in hexadecimal, because a magic may hold a slash.
fn disk_path(options: &Options, name: &str, magic: &str) -> HostPath {
    let file = format!("{HOST_CONFIG}disk-{}", hex::encode(magic.as_bytes()));
    options.prefix.join(name).join(file.trim_start_matches('/'))
}

/// Where the set `name` can have settings of its own.
pub(crate) fn own_settings_path(options: &Options, name: &str) -> HostPath {
    options.prefix.join(name).join(OWN_SETTINGS)
}

/// Whether `path` is that of a document or of a further disk's file.
pub(crate) fn is_document(path: &HostPath) -> bool {
    path.as_str().contains(HOST_CONFIG)
}

/// The handler's directory, if `path` is that of a drop-in.
pub(crate) fn handler_of(path: &HostPath) -> Option<HostPath> {
    let (directory, name) = path.split();
    let directory = directory.filter(|_| name == DROP_IN)?;
    let (handler, between) = directory.split();
    handler.filter(|_| between == "config.d")
}

fn drop_in_path(handler: &HostPath) -> HostPath {
    handler.join("config.d").join(DROP_IN)
}

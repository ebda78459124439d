//! Directories with a registry's settings: containerd's `certs.d` with `hosts.toml`, Docker's and
//! podman's with certificates.
//!
//! A directory is named after its registry: `registry.corp`, `registry.corp:5000`, containerd also
//! `registry.corp_5000_` and `_default` for every registry without a directory. A `hosts.toml` that
//! is not empty counts alone, as for containerd; otherwise `*.crt` are certificate authorities, and
//! the first `*.cert` with its `*.key` is the client's certificate.
//!
//! A `hosts.toml` that cannot be read forbids its registry. containerd would log it and go on with
//! the certificates beside it.

mod hosts_toml;

use std::path::{Component, Path, PathBuf};

use registry_config::{Registry, Roots};
use zeroize::Zeroizing;

use crate::printable;
use crate::registry_file::assemble::assemble;
use crate::registry_file::plan::{Link, Plan};
use crate::registry_file::{ClientFiles, Import, ReadFile, Reader, forbidden};

pub use hosts_toml::MAX_HOSTS_TOML_BYTES;

/// The file that counts alone.
pub const HOSTS_TOML: &str = "hosts.toml";

/// What the names of certificate authorities, client certificates and their private keys end with.
const AUTHORITY: &str = ".crt";
const CERTIFICATE: &str = ".cert";
const PRIVATE_KEY: &str = ".key";

/// The directory for all other registries.
pub(crate) const DEFAULT: &str = "_default";

/// One registry's directory.
#[derive(Clone, Debug)]
pub struct Directory {
    /// Its own name, which says the registry's.
    pub name: String,
    /// Its path, for messages and for the files in it.
    pub path: PathBuf,
    /// Its `hosts.toml`, where there is one, or why it or the directory cannot be read.
    pub hosts_toml: Option<Result<HostsToml, String>>,
    /// The names of its other files.
    pub files: Vec<String>,
}

/// The bytes of a `hosts.toml`, which may hold a password. `Debug` shows only their number.
#[derive(Clone)]
pub struct HostsToml(pub Zeroizing<Vec<u8>>);

impl std::fmt::Debug for HostsToml {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "HostsToml({} bytes)", self.0.len())
    }
}

/// Reads all directories. Their CA files are read by `read_file`, with absolute paths or such that
/// begin with a directory's.
pub fn read(directories: Vec<Directory>, read_file: &mut ReadFile<'_>) -> Import {
    let mut reader = Reader::new("", read_file);
    let plans = plans(directories, &mut reader);
    assemble(plans, reader.report)
}

/// Who is asked for the images of each registry. Of two directories for one the first plan counts.
pub(crate) fn plans(mut directories: Vec<Directory>, reader: &mut Reader<'_, '_>) -> Vec<Plan> {
    directories.sort_by_key(|directory| (rank(&directory.name), directory.name.clone()));
    directories.iter().map(|directory| plan(directory, reader)).collect()
}

/// Of two directories for one registry containerd takes the one without a colon, and images say
/// `docker.io`.
fn rank(name: &str) -> u8 {
    match name {
        "docker.io" => 0,
        name if name.contains(':') => 2,
        _ => 1,
    }
}

/// The registry's name in the document's words.
fn registry_name(directory: &str) -> String {
    if directory == DEFAULT {
        return ".".into();
    }
    let with_port = directory
        .strip_suffix('_')
        .and_then(|rest| rest.rsplit_once('_'))
        .filter(|(host, port)| !host.is_empty() && !port.is_empty());
    match with_port {
        Some((host, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => {
            format!("{host}:{port}")
        }
        // `.corp` and `.` would be a suffix and everything in the document.
        _ if directory.starts_with('.') => format!("/{directory}"),
        _ => directory.into(),
    }
}

fn plan(directory: &Directory, reader: &mut Reader<'_, '_>) -> Plan {
    reader.source = shown_path(&directory.path);
    let links = match &directory.hosts_toml {
        Some(Ok(HostsToml(text))) if !text.is_empty() => {
            reader.source = shown_path(&directory.path.join(HOSTS_TOML));
            let links = hosts_toml::links(text, directory, reader);
            tell_unnamed(directory, reader);
            links
        }
        Some(Err(why)) => {
            reader.left_out("", why);
            vec![Link::registry(String::new(), forbidden())]
        }
        _ => vec![Link::registry(String::new(), certificate_files(directory, reader))],
    };
    reader.plan(registry_name(&directory.name), String::new(), links)
}

/// Whether a file of this name says something about its directory's registry.
pub fn counts(name: &str) -> bool {
    [HOSTS_TOML, AUTHORITY, CERTIFICATE, PRIVATE_KEY].iter().any(|suffix| name.ends_with(suffix))
}

/// Tells of certificates and keys that would count without the `hosts.toml`, which names them not.
fn tell_unnamed(directory: &Directory, reader: &mut Reader<'_, '_>) {
    for name in &directory.files {
        if counts(name) && !reader.has_read(&joined(&directory.path, Path::new(name))) {
            let text = format!("{} has no effect beside this file", printable(name));
            reader.note("", text);
        }
    }
}

/// What the files of a directory without `hosts.toml` say.
fn certificate_files(directory: &Directory, reader: &mut Reader<'_, '_>) -> Registry {
    let mut names: Vec<_> = directory.files.iter().map(String::as_str).collect();
    names.sort_unstable();
    let (authorities, others): (Vec<_>, Vec<_>) =
        names.into_iter().partition(|name| name.ends_with(AUTHORITY));
    let (clients, others): (Vec<_>, Vec<_>) =
        others.into_iter().partition(|name| name.ends_with(CERTIFICATE));
    let clients: Vec<_> =
        clients.iter().map(|certificate| client_files(certificate, &others, directory)).collect();
    for name in others {
        let path = directory.path.join(name);
        let why = if clients.iter().any(|files| files.private_key == path) {
            continue;
        } else if name.ends_with(PRIVATE_KEY) {
            "no certificate (*.cert) of the same name belongs to it"
        } else {
            "neither a certificate authority (*.crt) nor hosts.toml"
        };
        reader.left_out(&printable(name), why);
    }
    let settings = Registry {
        ca_certs: roots(&authorities, directory, reader),
        client: reader.client(clients, false),
        ..Registry::default()
    };
    reader.usable(settings)
}

/// A `*.cert` and its `*.key`. Without one containerd looks for the key in the `*.cert`.
fn client_files(certificate: &str, others: &[&str], directory: &Directory) -> ClientFiles {
    let stem = certificate.strip_suffix(CERTIFICATE).unwrap_or(certificate);
    let name = format!("{stem}{PRIVATE_KEY}");
    let private_key = if others.contains(&name.as_str()) { &name } else { certificate };
    ClientFiles {
        certificate: directory.path.join(certificate),
        private_key: directory.path.join(private_key),
        key: printable(certificate),
    }
}

/// The certificates of CA files; `None` where no file is named.
fn roots(names: &[&str], directory: &Directory, reader: &mut Reader<'_, '_>) -> Option<Roots> {
    let paths = names.iter().map(|name| joined(&directory.path, Path::new(name)));
    reader.roots(paths.map(|path| {
        let shown = shown_path(&path);
        (path, shown)
    }))
}

/// A path below a directory, as Go joins them: `..` goes back by a name, whatever that name is.
/// Absolute ones stay as they are.
fn joined(directory: &Path, path: &Path) -> PathBuf {
    if path.is_absolute() {
        return path.to_owned();
    }
    clean(&directory.join(path))
}

/// A path as Go cleans it.
pub(crate) fn clean(path: &Path) -> PathBuf {
    let mut clean = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                clean.pop();
            }
            Component::CurDir => {}
            other => clean.push(other),
        }
    }
    clean
}

pub(crate) fn shown_path(path: &Path) -> String {
    printable(&path.to_string_lossy())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_name_registries() {
        for (directory, name) in [
            ("_default", "."),
            ("registry.corp", "registry.corp"),
            ("registry.corp_5000_", "registry.corp:5000"),
            ("registry.corp:5000", "registry.corp:5000"),
            ("my_registry.corp", "my_registry.corp"),
            ("[::1]_5000_", "[::1]:5000"),
            ("_5000_", "_5000_"),
            (".corp", "/.corp"),
        ] {
            assert_eq!(registry_name(directory), name);
        }
    }
}

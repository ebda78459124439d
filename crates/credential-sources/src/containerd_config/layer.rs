//! What one file says about registries.

use std::collections::BTreeMap;

use foreign_text::toml::{Table, join};
use zeroize::Zeroizing;

use super::MAX_CONTAINERD_CONFIG_BYTES;
use super::runtimes::Runtimes;
use crate::cri_registries::{Auth, Config, Placed, Tls};
use crate::registry_file::Reader;

/// The plugins that had the registries, in the versions 1, 2 and 3 of the file.
const CRI: &str = "cri";
const GRPC_CRI: &str = "io.containerd.grpc.v1.cri";
const IMAGES: &str = "io.containerd.cri.v1.images";

/// The plugin that has the runtimes since version 3.
const RUNTIME: &str = "io.containerd.cri.v1.runtime";

/// The last version of the file.
const MAX_VERSION: i64 = 4;

/// The first version that only containerd 2 reads.
const VERSION_OF_TWO: i64 = 3;

/// Whether a file was named, or imported by another.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Main,
    Imported,
}

/// A file.
#[derive(Default)]
pub(super) struct Layer {
    /// Other files, as they are written.
    pub(super) imports: Vec<String>,
    /// The directories of registries, joined by colons.
    pub(super) config_path: Option<Placed<String>>,
    /// Endpoints by registry, where they are written.
    pub(super) mirrors: BTreeMap<String, Placed<Option<Vec<String>>>>,
    /// Credentials and TLS by host.
    pub(super) configs: BTreeMap<String, Placed<ConfigKeys>>,
    /// What handlers are told.
    pub(super) runtimes: Runtimes,
    /// The key of the table that containerd 1 takes as a whole, where it reads one.
    pub(super) whole: Option<String>,
    /// Whether only containerd 2 reads the file.
    pub(super) is_of_two: bool,
}

/// The keys of an entry of `configs` that are there, each for itself.
#[derive(Default)]
pub(super) struct ConfigKeys {
    auth: BTreeMap<&'static str, Zeroizing<String>>,
    tls: BTreeMap<&'static str, String>,
    skip_verify: Option<bool>,
}

const AUTH_KEYS: [&str; 4] = ["username", "password", "auth", "identitytoken"];
const TLS_KEYS: [&str; 3] = ["ca_file", "cert_file", "key_file"];

impl ConfigKeys {
    /// Adds the keys of a later file, which win.
    pub(super) fn add(&mut self, later: Self) {
        self.auth.extend(later.auth);
        self.tls.extend(later.tls);
        self.skip_verify = later.skip_verify.or(self.skip_verify);
    }

    /// Takes what it says about TLS away; whether that was anything.
    pub(super) fn forget_tls(&mut self) -> bool {
        let tls = std::mem::take(&mut self.tls);
        let skip_verify = self.skip_verify.take();
        !tls.is_empty() || skip_verify.is_some()
    }

    /// What is absent is empty.
    pub(super) fn config(mut self) -> Config {
        let mut auth = |key| self.auth.remove(key).unwrap_or_default();
        let auth = Auth {
            username: auth("username"),
            password: auth("password"),
            auth: auth("auth"),
            identity_token: auth("identitytoken"),
        };
        let mut tls = |key| self.tls.remove(key).unwrap_or_default();
        let tls = Tls {
            ca_file: tls("ca_file"),
            cert_file: tls("cert_file"),
            key_file: tls("key_file"),
            insecure_skip_verify: self.skip_verify.unwrap_or_default(),
        };
        Config { auth: auth.says_something().then_some(auth), tls: Some(tls) }
    }
}

/// Reads a file. `None` where it cannot be read, which is reported.
pub(super) fn read(bytes: &[u8], place: Place, reader: &mut Reader<'_, '_>) -> Option<Layer> {
    let tree = reader.toml(bytes, MAX_CONTAINERD_CONFIG_BYTES)?;
    let mut keys = tree.table();
    let version = version(&mut keys, reader)?;
    let imports = reader.texts(&mut keys, "imports");
    let mut layer = Layer {
        imports: imports.into_iter().map(str::to_owned).collect(),
        is_of_two: version >= VERSION_OF_TWO,
        ..Layer::default()
    };
    if let Some(plugins) = reader.table(&mut keys, "plugins") {
        layer.plugins(plugins, version, place, reader);
    }
    Some(layer)
}

/// The version of the file; 0 where it says none, which is read as 1.
fn version(keys: &mut Table<'_, '_>, reader: &mut Reader<'_, '_>) -> Option<i64> {
    let Some(field) = keys.take("version") else {
        return Some(0);
    };
    let text = match field.integer() {
        Ok(version @ 0..=MAX_VERSION) => return Some(version),
        Ok(_) => format!("not a version that is known here: 1 to {MAX_VERSION}"),
        Err(wrong) => wrong.to_string(),
    };
    reader.fault(&field.path, text);
    None
}

impl Layer {
    /// Reads the first table of registries that counts in this version, and tells of the others.
    fn plugins(
        &mut self,
        mut plugins: Table<'_, '_>,
        version: i64,
        place: Place,
        reader: &mut Reader<'_, '_>,
    ) {
        let readable: &[&str] = match version {
            0 | 1 => &[CRI, GRPC_CRI, IMAGES],
            2 => &[GRPC_CRI, IMAGES],
            _ => &[IMAGES],
        };
        if let Some(mut plugin) = plugins.take(RUNTIME).and_then(|field| field.table().ok()) {
            self.runtimes.take(&mut plugin, &reader.source);
        }
        let mut is_read = false;
        for name in [CRI, GRPC_CRI, IMAGES] {
            let Some(mut plugin) = reader.table(&mut plugins, name) else {
                continue;
            };
            if name != IMAGES && readable.contains(&name) {
                self.whole = Some(plugin.path.clone());
            }
            if readable.contains(&name) {
                self.runtimes.take(&mut plugin, &reader.source);
            }
            let Some(registry) = reader.table(&mut plugin, "registry") else {
                continue;
            };
            if !readable.contains(&name) {
                let why = format!("containerd has no such table in version {version} of the file");
                reader.left_out(&registry.path, why);
            } else if is_read {
                let why = "this file has the table of another version too, which counts";
                reader.left_out(&registry.path, why);
            } else {
                is_read = true;
                if version < 2 && name != CRI && place == Place::Main {
                    let text = "containerd 1 reads it only with \"version = 2\" in the file; \
                        containerd 2 does without, as is done here";
                    reader.lost(&registry.path, text);
                }
                self.registry(registry, reader);
            }
        }
    }

    fn registry(&mut self, mut keys: Table<'_, '_>, reader: &mut Reader<'_, '_>) {
        let key = join(&keys.path, "config_path");
        let value = reader.text_if_there(&mut keys, "config_path");
        self.config_path = value.map(|value| placed(&key, value.to_owned(), reader));
        let mirrors = reader.table(&mut keys, "mirrors");
        for field in mirrors.into_iter().flat_map(Table::rest) {
            if let Some(mut mirror) = reader.as_table(&field) {
                let endpoints = reader.texts_if_there(&mut mirror, "endpoint");
                reader.tell_rest(mirror);
                let endpoints = endpoints.map(|all| all.into_iter().map(str::to_owned).collect());
                let mirror = placed(&field.path, endpoints, reader);
                self.mirrors.insert(field.key.to_owned(), mirror);
            }
        }
        let configs = reader.table(&mut keys, "configs");
        for field in configs.into_iter().flat_map(Table::rest) {
            if let Some(config) = reader.as_table(&field) {
                let config = self.config(config, reader);
                let config = placed(&field.path, config, reader);
                self.configs.insert(field.key.to_owned(), config);
            }
        }
        self.auths(reader.table(&mut keys, "auths"), reader);
        let headers = reader.table(&mut keys, "headers");
        for field in headers.into_iter().flat_map(Table::rest) {
            reader.left_out(&field.path, "the puller sends no headers of others");
        }
        reader.tell_rest(keys);
    }

    fn config(&self, mut keys: Table<'_, '_>, reader: &mut Reader<'_, '_>) -> ConfigKeys {
        let mut config = ConfigKeys::default();
        if let Some(auth) = reader.table(&mut keys, "auth") {
            config.auth = auth_keys(auth, reader);
        }
        if let Some(mut tls) = reader.table(&mut keys, "tls") {
            if self.is_of_two {
                let why = "containerd 2 has no such table; hosts.toml in a directory of \
                    \"config_path\" says it";
                reader.left_out(&tls.path, why);
            } else {
                for key in TLS_KEYS {
                    if let Some(text) = reader.text_if_there(&mut tls, key) {
                        config.tls.insert(key, text.to_owned());
                    }
                }
                config.skip_verify = reader.flag_if_there(&mut tls, "insecure_skip_verify");
                reader.tell_rest(tls);
            }
        }
        reader.tell_rest(keys);
        config
    }

    /// `auths`, the credentials of `configs` before there were any. They win.
    fn auths(&mut self, auths: Option<Table<'_, '_>>, reader: &mut Reader<'_, '_>) {
        for field in auths.into_iter().flat_map(Table::rest) {
            let Some(auth) = reader.as_table(&field) else {
                continue;
            };
            let auth = auth_keys(auth, reader);
            let host = match field.key.split_once("://") {
                Some((_, rest)) => rest.split('/').next().unwrap_or_default(),
                None => field.key,
            };
            let path = join("auths", host);
            let entry = self.configs.entry(host.to_owned());
            let entry = entry.or_insert_with(|| placed(&path, ConfigKeys::default(), reader));
            entry.value.auth = auth;
        }
    }
}

fn auth_keys(
    mut keys: Table<'_, '_>,
    reader: &mut Reader<'_, '_>,
) -> BTreeMap<&'static str, Zeroizing<String>> {
    let mut auth = BTreeMap::new();
    for key in AUTH_KEYS {
        if let Some(text) = reader.text_if_there(&mut keys, key) {
            auth.insert(key, Zeroizing::new(text.to_owned()));
        }
    }
    reader.tell_rest(keys);
    auth
}

fn placed<T>(key: &str, value: T, reader: &Reader<'_, '_>) -> Placed<T> {
    Placed { source: reader.source.clone(), key: key.to_owned(), value }
}

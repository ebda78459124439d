//! What the file says about registries.

use std::collections::BTreeMap;

use foreign_text::toml::{Table, join};
use zeroize::Zeroizing;

use super::{MAX_CONTAINERD_CONFIG_BYTES, Registry, VERSION_OF_TWO};
use crate::Loss;
use crate::cri_registries::{Auth, Config, Mirror, Placed, Registries, Tls};
use crate::registry_file::Reader;

/// The plugins that had the registries, in the versions 1, 2 and 3 of the file.
pub(super) const PLUGINS: [&str; 3] = [CRI, GRPC_CRI, IMAGES];
const CRI: &str = "cri";
const GRPC_CRI: &str = "io.containerd.grpc.v1.cri";
const IMAGES: &str = "io.containerd.cri.v1.images";

/// The last version of the file.
const MAX_VERSION: i64 = 4;

impl Registry {
    /// Reads a file. It says nothing where it cannot be read, which is reported.
    pub(super) fn read(bytes: &[u8], loss: Option<Loss>, reader: &mut Reader<'_, '_>) -> Self {
        let registries = Registries { mirrors: BTreeMap::new(), configs: BTreeMap::new() };
        let mut registry = Self { config_path: None, registries, is_of_two: false };
        let tree = reader.toml(bytes, MAX_CONTAINERD_CONFIG_BYTES);
        let Some(mut keys) = tree.as_ref().map(|tree| tree.table()) else {
            return registry;
        };
        let Some(version) = version(&mut keys, reader) else {
            return registry;
        };
        registry.is_of_two = version >= VERSION_OF_TWO;
        if !reader.texts(&mut keys, "imports").is_empty() {
            let why = "left out: `containerd config dump` prints all files as one; import that";
            match loss {
                Some(Loss::Lost) => reader.lost("imports", why),
                Some(_) => {
                    reader.note("imports", "not read: right only of a `containerd config dump`")
                }
                None => {}
            }
        }
        if let Some(plugins) = reader.table(&mut keys, "plugins") {
            registry.plugins(plugins, version, reader);
        }
        registry
    }

    /// Reads the first table of registries that counts in this version, and tells of the others.
    fn plugins(&mut self, mut plugins: Table<'_, '_>, version: i64, reader: &mut Reader<'_, '_>) {
        let readable: &[&str] = match version {
            0 | 1 => &PLUGINS,
            2 => &[GRPC_CRI, IMAGES],
            _ => &[IMAGES],
        };
        let mut is_read = false;
        for name in PLUGINS {
            let plugin = reader.table(&mut plugins, name);
            let Some(keys) = plugin.and_then(|mut plugin| reader.table(&mut plugin, "registry"))
            else {
                continue;
            };
            if !readable.contains(&name) {
                let why = format!("containerd has no such table in version {version} of the file");
                reader.left_out(&keys.path, why);
            } else if is_read {
                let why = "this file has the table of another version too, which counts";
                reader.left_out(&keys.path, why);
            } else {
                is_read = true;
                if version < 2 && name != CRI {
                    let text = "containerd 1 reads it only with \"version = 2\" in the file; \
                        containerd 2 does without, as is done here";
                    reader.lost(&keys.path, text);
                }
                self.registry(keys, reader);
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
                let endpoints = reader.texts(&mut mirror, "endpoint");
                reader.tell_rest(mirror);
                let endpoints = endpoints.into_iter().map(str::to_owned).collect();
                let mirror = Mirror { endpoints, rewrite: BTreeMap::new() };
                let mirror = placed(&field.path, mirror, reader);
                self.registries.mirrors.insert(field.key.to_owned(), mirror);
            }
        }
        let configs = reader.table(&mut keys, "configs");
        for field in configs.into_iter().flat_map(Table::rest) {
            if let Some(config) = reader.as_table(&field) {
                let config = self.config(config, reader);
                let config = placed(&field.path, config, reader);
                self.registries.configs.insert(field.key.to_owned(), config);
            }
        }
        self.auths(reader.table(&mut keys, "auths"), reader);
        let headers = reader.table(&mut keys, "headers");
        for field in headers.into_iter().flat_map(Table::rest) {
            reader.left_out(&field.path, "the puller sends no headers of others");
        }
        reader.tell_rest(keys);
    }

    fn config(&self, mut keys: Table<'_, '_>, reader: &mut Reader<'_, '_>) -> Config {
        let auth = reader.table(&mut keys, "auth").and_then(|auth| credentials(auth, reader));
        let mut tls = None;
        if let Some(mut keys) = reader.table(&mut keys, "tls") {
            if self.is_of_two {
                let why = "containerd 2 has no such table; hosts.toml in a directory of \
                    \"config_path\" says it";
                reader.left_out(&keys.path, why);
            } else {
                let mut text = |key| reader.text(&mut keys, key).to_owned();
                let (ca_file, cert_file, key_file) =
                    (text("ca_file"), text("cert_file"), text("key_file"));
                let insecure_skip_verify = reader.flag(&mut keys, "insecure_skip_verify");
                reader.tell_rest(keys);
                tls = Some(Tls { ca_file, cert_file, key_file, insecure_skip_verify });
            }
        }
        reader.tell_rest(keys);
        Config { auth, tls }
    }

    /// `auths`, the credentials of `configs` before there were any. They win.
    fn auths(&mut self, auths: Option<Table<'_, '_>>, reader: &mut Reader<'_, '_>) {
        for field in auths.into_iter().flat_map(Table::rest) {
            let Some(auth) = reader.as_table(&field) else {
                continue;
            };
            let auth = credentials(auth, reader);
            let host = match field.key.split_once("://") {
                Some((_, rest)) => rest.split('/').next().unwrap_or_default(),
                None => field.key,
            };
            let path = join("auths", host);
            let entry = self.registries.configs.entry(host.to_owned());
            let entry = entry.or_insert_with(|| placed(&path, Config::default(), reader));
            entry.value.auth = auth;
        }
    }
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

fn credentials(mut keys: Table<'_, '_>, reader: &mut Reader<'_, '_>) -> Option<Auth> {
    let mut text = |key| Zeroizing::new(reader.text(&mut keys, key).to_owned());
    let auth = Auth {
        username: text("username"),
        password: text("password"),
        auth: text("auth"),
        identity_token: text("identitytoken"),
    };
    reader.tell_rest(keys);
    auth.says_something().then_some(auth)
}

fn placed<T>(key: &str, value: T, reader: &Reader<'_, '_>) -> Placed<T> {
    Placed { source: reader.source.clone(), key: key.to_owned(), value }
}

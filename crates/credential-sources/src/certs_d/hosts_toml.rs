//! containerd's `hosts.toml`.

use std::path::Path;

use foreign_text::toml::{Field, Table};
use registry_config::{Credentials, Registry, Secret};

use super::{Directory, joined, roots};
use crate::registry_file::endpoint::{ApiPath, Endpoint};
use crate::registry_file::plan::{Link, Names};
use crate::registry_file::{ClientFiles, Reader, decode_auth, forbidden};
use crate::registry_file::{rewrite, shown_address};

/// The longest `hosts.toml`; real ones have a few hundred bytes.
pub const MAX_HOSTS_TOML_BYTES: usize = 64 << 10;

/// The part of a host's keys that is not its settings.
struct Host {
    settings: Registry,
    api: ApiPath,
    /// The rules for names there; `None` where they cannot be said.
    rules: Option<Vec<Names>>,
}

/// The hosts that a file has asked, in order. Nobody is trusted where it is no TOML or something in
/// it has a wrong type: what it was meant to change is not known.
pub(super) fn links(bytes: &[u8], directory: &Directory, reader: &mut Reader<'_, '_>) -> Vec<Link> {
    reader.is_wrong = Some(false);
    let Some(tree) = reader.toml(bytes, MAX_HOSTS_TOML_BYTES) else {
        return vec![Link::registry(String::new(), forbidden())];
    };
    let mut keys = tree.table();
    let server = reader.text(&mut keys, "server");
    let hosts = reader.table(&mut keys, "host");
    let mut links = Vec::new();
    for mut host in hosts.into_iter().flat_map(Table::rest) {
        host.path = format!("host.\"{}\"", shown_address(host.key));
        if let Some(keys) = reader.as_table(&host) {
            links.append(&mut mirror(host.key, keys, directory, reader));
        }
    }
    links.append(&mut own_links(server, keys, directory, reader));
    if reader.is_wrong == Some(true) {
        links.iter_mut().for_each(|link| link.settings = forbidden());
    }
    links
}

/// A `[host."ADDRESS"]`; nothing where it has no part in pulls.
fn mirror(
    address: &str,
    mut keys: Table<'_, '_>,
    directory: &Directory,
    reader: &mut Reader<'_, '_>,
) -> Vec<Link> {
    let key = keys.path.clone();
    if !can_pull(&mut keys, reader) {
        reader.note(&key, "has no part: nothing is pulled from it");
        return Vec::new();
    }
    let host = host(keys, directory, reader);
    host_links(address, &key, &host, reader)
}

/// The root of the file: the registry itself, or what stands in its place, asked after all hosts.
fn own_links(
    server: &str,
    mut keys: Table<'_, '_>,
    directory: &Directory,
    reader: &mut Reader<'_, '_>,
) -> Vec<Link> {
    let can_pull = can_pull(&mut keys, reader);
    let host = host(keys, directory, reader);
    match (server, can_pull) {
        // Without a server, containerd forgets the capabilities of the root.
        ("", _) => vec![Link::registry(String::new(), host.settings)],
        (_, true) => host_links(server, "server", &host, reader),
        _ => Vec::new(),
    }
}

/// Whether a host is asked. Images are pinned by digest, for which containerd asks those that can
/// pull.
fn can_pull(keys: &mut Table<'_, '_>, reader: &mut Reader<'_, '_>) -> bool {
    let capabilities = reader.texts(keys, "capabilities");
    let is_pull = |name: &&str| name.eq_ignore_ascii_case("pull");
    capabilities.is_empty() || capabilities.iter().any(is_pull)
}

fn host_links(address: &str, key: &str, host: &Host, reader: &mut Reader<'_, '_>) -> Vec<Link> {
    let Some(rules) = &host.rules else {
        return reader.passed_over(key, &host.settings);
    };
    let endpoint = Endpoint::with_rules(address, host.api, rules);
    reader.links(key, "containerd", endpoint, &host.settings)
}

/// The keys that a host and the root have in common.
fn host(mut keys: Table<'_, '_>, directory: &Directory, reader: &mut Reader<'_, '_>) -> Host {
    let ca = reader.texts(&mut keys, "ca");
    let skip_verify = reader.flag(&mut keys, "skip_verify");
    let is_exact = reader.flag(&mut keys, "override_path");
    let client = keys.take("client");
    let client = client.map_or_else(Vec::new, |field| client_files(&field, directory, reader));
    if let Some(field) = keys.take("proxy") {
        let why = "the document's proxies hold for all registries; write them as [extra-env]";
        reader.left_out(&field.path, why);
    }
    let rewrite = reader.table(&mut keys, "rewrite");
    let rules = rewrite.into_iter().flat_map(Table::rest);
    let rules = rules.map(|field| (field.path.clone(), field.key, field.text()));
    let rules = rewrite::all(rules, reader);
    if let Some(field) = keys.take("dial_timeout") {
        let text = "has no part: the puller has limits of its own";
        reader.note(&field.path, text);
    }
    let header = reader.table(&mut keys, "header");
    reader.tell_rest(keys);
    let credentials = header.and_then(|header| credentials(header, reader));
    let settings = Registry {
        credentials: credentials.unwrap_or_default(),
        ca_certs: roots(&ca, directory, reader),
        client: reader.client(client, skip_verify),
        insecure_skip_verify: skip_verify,
        ..Registry::default()
    };
    Host {
        settings: reader.usable(settings),
        api: if is_exact { ApiPath::Exactly } else { ApiPath::Below },
        rules,
    }
}

/// The client certificates: a file with both parts, or a list of such files and of pairs.
fn client_files(
    field: &Field<'_, '_>,
    directory: &Directory,
    reader: &mut Reader<'_, '_>,
) -> Vec<ClientFiles> {
    let items = match field.text() {
        Ok(_) => Ok(vec![field.clone()]),
        Err(_) => field.items(),
    };
    let items = match items {
        Ok(items) => items,
        Err(wrong) => {
            reader.broken(&field.path, wrong);
            return Vec::new();
        }
    };
    let mut files = Vec::new();
    for item in items {
        match pair(&item) {
            Some((certificate, private_key)) => files.push(ClientFiles {
                certificate: joined(&directory.path, Path::new(certificate)),
                private_key: joined(&directory.path, Path::new(private_key)),
                key: item.path,
            }),
            None => reader.broken(&item.path, "neither a file nor a pair of files"),
        }
    }
    files
}

/// The files of a certificate and of its key; the same one where no other is named.
fn pair<'t>(item: &Field<'t, '_>) -> Option<(&'t str, &'t str)> {
    if let Ok(both) = item.text() {
        return Some((both, both));
    }
    let files = item.items().ok()?;
    let [certificate, private_key] = files.as_slice() else {
        return None;
    };
    let (certificate, private_key) = (certificate.text().ok()?, private_key.text().ok()?);
    match private_key {
        "" => Some((certificate, certificate)),
        private_key => Some((certificate, private_key)),
    }
}

/// The credentials in a host's headers. A header's value is never shown.
fn credentials(header: Table<'_, '_>, reader: &mut Reader<'_, '_>) -> Option<Credentials> {
    let mut credentials = None;
    for field in header.rest() {
        if !field.key.eq_ignore_ascii_case("authorization") {
            reader.left_out(&field.path, "the puller sends no headers of others");
            continue;
        }
        match value(&field).and_then(authorization) {
            Some(found) => credentials = Some(found),
            None => reader.broken(
                &field.path,
                "neither \"Basic\" with a user name and a password nor \"Bearer\"",
            ),
        }
    }
    credentials
}

/// A header's value: a string, or a list of one.
fn value<'t>(field: &Field<'t, '_>) -> Option<&'t str> {
    match field.items() {
        Ok(items) if items.len() == 1 => items[0].text().ok(),
        _ => field.text().ok(),
    }
}

/// The credentials in an `Authorization` header.
fn authorization(value: &str) -> Option<Credentials> {
    let (scheme, rest) = value.trim().split_once(' ')?;
    let rest = rest.trim();
    if scheme.eq_ignore_ascii_case("basic") {
        return decode_auth(rest);
    }
    let is_bearer = scheme.eq_ignore_ascii_case("bearer") && !rest.is_empty();
    is_bearer.then(|| Credentials::RegistryToken(Secret::from(rest.to_owned())))
}

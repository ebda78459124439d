//! containerd's `hosts.toml`.

use std::sync::Arc;

use puller_config::Secret;
use toml::de::DeValue;

use super::{Directory, roots};
use crate::registry_file::endpoint::{ApiPath, Endpoint};
use crate::registry_file::plan::{Link, Target};
use crate::registry_file::shown::shown_address;
use crate::registry_file::toml_keys::{Keys, Tree};
use crate::registry_file::{ReadFile, Report, Settings, decode_auth};
use crate::{Offered, printable};

/// The longest `hosts.toml`; real ones have a few hundred bytes.
pub const MAX_HOSTS_TOML_BYTES: usize = 64 << 10;

/// Who is asked according to a file, in order. `None` where it cannot be read, which is reported.
pub(super) fn links(
    bytes: &[u8],
    source: &str,
    directory: &Directory,
    read_file: &mut ReadFile<'_>,
    report: &mut Report,
) -> Option<Vec<Link>> {
    let tree = Tree::parse(bytes, MAX_HOSTS_TOML_BYTES, source, report)?;
    let mut keys = tree.keys(source);
    let mut reader = Reader {
        source,
        directory,
        read_file,
        report,
    };
    let server = keys.text("server", reader.report).unwrap_or_default();
    let hosts = keys.table("host", reader.report);
    let mut links = Vec::new();
    if let Some(hosts) = hosts {
        for (address, keys) in hosts.into_tables(shown_address, reader.report) {
            links.extend(reader.host(address, keys));
        }
    }
    links.extend(reader.server(server, keys));
    Some(links)
}

/// What all hosts of a file have in common.
struct Reader<'r, 'f> {
    source: &'r str,
    directory: &'r Directory,
    read_file: &'r mut ReadFile<'f>,
    report: &'r mut Report,
}

/// The part of a host's keys that is not its settings.
struct Host {
    settings: Settings,
    api: ApiPath,
    can_pull: bool,
    /// Whether it has the images under other names.
    renames: bool,
}

impl Reader<'_, '_> {
    /// A `[host."ADDRESS"]`; `None` where it has no part in pulls.
    fn host(&mut self, address: &str, keys: Keys<'_, '_>) -> Option<Link> {
        let key = keys.path.clone();
        let host = self.keys(keys);
        if !host.can_pull {
            self.report
                .note(self.source, &key, "has no part: nothing is pulled from it");
            return None;
        }
        Some(self.link(address, key, host))
    }

    /// The root of the file: the registry itself, or what stands in its place, asked after all
    /// hosts.
    fn server(&mut self, server: &str, keys: Keys<'_, '_>) -> Option<Link> {
        let host = self.keys(keys);
        if server.is_empty() {
            // Without a server, containerd forgets the capabilities of the root.
            return Some(Link {
                key: "server".into(),
                target: Target::Registry,
                settings: host.settings,
            });
        }
        host.can_pull
            .then(|| self.link(server, "server".into(), host))
    }

    fn link(&mut self, address: &str, key: String, host: Host) -> Link {
        let endpoint = if host.renames {
            Err("the document does not rename repositories (\"rewrite\")")
        } else {
            Endpoint::parse(address, host.api)
        };
        let target = match endpoint {
            Ok(endpoint) => {
                if endpoint.had_user {
                    self.report.lost(
                        self.source,
                        &key,
                        "the user name and password of the address \
                    are left out; containerd does not use them",
                    );
                }
                Target::Address(endpoint)
            }
            Err(reason) => {
                self.report
                    .lost(self.source, &key, format!("left out: {reason}"));
                Target::Inexpressible
            }
        };
        Link {
            key,
            target,
            settings: host.settings,
        }
    }

    /// The keys that a host and the root have in common.
    fn keys(&mut self, mut keys: Keys<'_, '_>) -> Host {
        let report = &mut *self.report;
        let ca = keys.texts("ca", report).unwrap_or_default();
        let skip_verify = keys.flag("skip_verify", report).unwrap_or_default();
        let capabilities = keys.texts("capabilities", report).unwrap_or_default();
        let is_exact = keys.flag("override_path", report).unwrap_or_default();
        for (key, text) in [
            (
                "client",
                "left out: the document has no client certificates",
            ),
            (
                "proxy",
                "left out: the document's proxies hold for all registries; write them as \
                [extra-env]",
            ),
        ] {
            if keys.take(key).is_some() {
                report.lost(self.source, &keys.name(key), text);
            }
        }
        let renames = keys.take("rewrite").is_some();
        if keys.take("dial_timeout").is_some() {
            report.note(
                self.source,
                &keys.name("dial_timeout"),
                "has no part: the puller has limits of its own",
            );
        }
        let header = keys.table("header", report);
        keys.tell_rest(report);
        let credentials = header.and_then(|header| self.header(header));
        let report = &mut *self.report;
        Host {
            settings: Settings {
                credentials: credentials.map(Arc::new),
                roots: roots(&ca, self.source, self.directory, self.read_file, report),
                skip_verify,
                plain_http: false,
            },
            api: if is_exact {
                ApiPath::Exactly
            } else {
                ApiPath::Below
            },
            renames,
            // Images are pinned by digest, for which containerd asks hosts that can pull.
            can_pull: capabilities.is_empty()
                || capabilities
                    .iter()
                    .any(|name| name.eq_ignore_ascii_case("pull")),
        }
    }

    /// The credentials in a host's headers. A header's value is shown to nobody.
    fn header(&mut self, header: Keys<'_, '_>) -> Option<Offered> {
        let path = header.path.clone();
        let mut credentials = None;
        for (name, value) in header.into_fields() {
            let key = format!("{path}.{}", printable(name));
            if !name.eq_ignore_ascii_case("authorization") {
                self.report.lost(
                    self.source,
                    &key,
                    "left out: the puller sends no headers of others",
                );
                continue;
            }
            let text = match value {
                DeValue::String(text) => Some(text.as_ref()),
                DeValue::Array(items) if items.len() == 1 => items[0].get_ref().as_str(),
                _ => None,
            };
            match text.and_then(authorization) {
                Some(found) => credentials = Some(found),
                None => self.report.lost(
                    self.source,
                    &key,
                    "left out: neither \"Basic\" with a user name and a password nor \"Bearer\"",
                ),
            }
        }
        credentials
    }
}

/// The credentials in an `Authorization` header.
fn authorization(value: &str) -> Option<Offered> {
    let (scheme, rest) = value.trim().split_once(' ')?;
    let rest = rest.trim();
    if scheme.eq_ignore_ascii_case("basic") {
        return decode_auth(rest);
    }
    let is_bearer = scheme.eq_ignore_ascii_case("bearer") && !rest.is_empty();
    is_bearer.then(|| Offered::RegistryToken(Secret::from(rest.to_owned())))
}

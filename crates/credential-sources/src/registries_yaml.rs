//! `registries.yaml` of K3s and RKE2.
//!
//! `mirrors` says where a registry's images are asked for, `configs` how each host is reached. The
//! registry itself is always asked last (`--disable-default-registry-endpoint` is an option of K3s
//! that the file does not show). `*` stands for every registry without a key of its own, except for
//! credentials: containerd looks those up by the host's own name and sends those of `*` to nobody.
//! Of several credentials for a host, containerd's order holds: user name and password, then the
//! identity token, then `auth`.

mod text;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use puller_config::{RegistryHost, Secret};

use crate::registry_file::assemble::assemble;
use crate::registry_file::endpoint::{ApiPath, Endpoint};
use crate::registry_file::plan::{Link, Plan, Target};
use crate::registry_file::shown::{join, shown_address};
use crate::registry_file::{Certificates, Import, ReadFile, Report, Roots, Settings, decode_auth};
use crate::{Offered, printable};

use self::text::{Auth, Config, File, Mirror, Tls};

/// The longest file; a thousand registries have less.
pub const MAX_REGISTRIES_YAML_BYTES: usize = 256 << 10;

/// The name of all registries without one of their own.
const ALL: &str = "*";

/// Reads a file. The CA files that it names are read by `read_file`, with absolute paths only.
pub fn read(bytes: &[u8], source: &str, read_file: &mut ReadFile<'_>) -> Import {
    let mut report = Report::default();
    let source = printable(source);
    let plans = match text::parse(bytes) {
        Ok(file) => plans(&file, &source, read_file, &mut report),
        Err(reason) => {
            report.fault(&source, "", reason);
            Vec::new()
        }
    };
    assemble(plans, report)
}

fn plans(
    file: &File,
    source: &str,
    read_file: &mut ReadFile<'_>,
    report: &mut Report,
) -> Vec<Plan> {
    tell_unknown(&file.unknown, source, "", report);
    let mut configs = Vec::new();
    for (host, config) in &file.configs {
        let settings = settings(config, host, source, read_file, report);
        configs.push(Configured {
            name: host,
            host: RegistryHost::parse(host).ok(),
            settings,
        });
    }
    let mut plans: BTreeMap<&str, Plan> = BTreeMap::new();
    for (name, mirror) in &file.mirrors {
        let key = join("mirrors", name);
        let links = links(mirror, source, &key, &configs, report);
        plans.insert(name, plan(name, key, source, links));
    }
    for Configured { name, .. } in &configs {
        plans
            .entry(name)
            .or_insert_with(|| plan(name, join("configs", name), source, Vec::new()));
    }
    let mut plans: Vec<_> = plans
        .into_iter()
        .map(|(name, mut plan)| {
            plan.links.push(Link {
                key: plan.key.clone(),
                target: Target::Registry,
                settings: settings_of(&configs, name),
            });
            plan
        })
        .collect();
    // Of several names for Docker Hub images have this one.
    plans.sort_by_key(|plan| plan.name != "docker.io");
    plans
}

fn plan(name: &str, key: String, source: &str, links: Vec<Link>) -> Plan {
    Plan {
        name: document_name(name),
        source: source.to_owned(),
        key,
        links,
        is_blocked: false,
    }
}

/// The name in the document's words, in which a leading dot would mean something else than in this
/// file.
fn document_name(name: &str) -> String {
    match name {
        ALL => ".".into(),
        name if name.starts_with('.') => format!("/{name}"),
        name => name.into(),
    }
}

/// How one host is reached.
struct Configured<'f> {
    name: &'f str,
    host: Option<RegistryHost>,
    settings: Settings,
}

/// The settings of a host: those of its name, else of another name for it.
fn settings_of(configs: &[Configured<'_>], host: &str) -> Settings {
    let named = || configs.iter().find(|config| config.name == host);
    let same = || {
        let host = RegistryHost::parse(host).ok();
        configs
            .iter()
            .find(|config| host.is_some() && config.host == host)
    };
    named()
        .or_else(same)
        .map(|config| config.settings.clone())
        .unwrap_or_default()
}

/// Who is asked for a registry's images before the registry itself.
fn links(
    mirror: &Mirror,
    source: &str,
    key: &str,
    configs: &[Configured<'_>],
    report: &mut Report,
) -> Vec<Link> {
    tell_unknown(&mirror.unknown, source, key, report);
    if mirror.endpoints.is_empty() {
        report.note(
            source,
            key,
            "has no endpoint: at most the node's embedded registry, which guests do not reach",
        );
    }
    let mut links = Vec::new();
    for (index, address) in mirror.endpoints.iter().enumerate() {
        let key = format!("{key}.endpoint[{index}] {}", shown_address(address));
        let endpoint = if mirror.renames {
            Err("the document does not rename repositories (\"rewrite\")")
        } else {
            endpoint(address)
        };
        match endpoint {
            Err(reason) => report.lost(source, &key, format!("left out: {reason}")),
            Ok(endpoint) => {
                if endpoint.had_user {
                    report.lost(
                        source,
                        &key,
                        "the user name and password of the address are left \
                    out; K3s does not use them",
                    );
                }
                links.push(Link {
                    key,
                    settings: settings_of(configs, &endpoint.authority),
                    target: Target::Address(endpoint),
                });
            }
        }
    }
    links
}

/// An endpoint's path is the API's own, unless it has none.
fn endpoint(address: &str) -> Result<Endpoint, &'static str> {
    let authority = address.split_once("://").map_or(address, |(_, rest)| rest);
    let api = match authority.split_once('/') {
        None | Some((_, "" | "v2")) => ApiPath::Below,
        Some(_) => ApiPath::Exactly,
    };
    Endpoint::parse(address, api)
}

fn settings(
    config: &Config,
    host: &str,
    source: &str,
    read_file: &mut ReadFile<'_>,
    report: &mut Report,
) -> Settings {
    let key = join("configs", host);
    tell_unknown(&config.unknown, source, &key, report);
    let mut settings = Settings::default();
    if let Some(auth) = &config.auth {
        let key = join(&key, "auth");
        if host == ALL {
            report.lost(
                source,
                &key,
                "left out: containerd sends it to no registry, and a \
            document would have it sent to every registry without an entry",
            );
        } else {
            settings.credentials = credentials(auth, source, &key, report).map(Arc::new);
        }
    }
    if let Some(tls) = &config.tls {
        let key = join(&key, "tls");
        tell_unknown(&tls.unknown, source, &key, report);
        settings.skip_verify = tls.insecure_skip_verify;
        settings.roots = roots(tls, source, &key, read_file, report);
        if !tls.cert_file.is_empty() || !tls.key_file.is_empty() {
            report.lost(
                source,
                &key,
                "cert_file and key_file are left out: the document has no client certificates",
            );
        }
    }
    settings
}

fn credentials(auth: &Auth, source: &str, key: &str, report: &mut Report) -> Option<Offered> {
    tell_unknown(&auth.unknown, source, key, report);
    let mut found = Vec::new();
    if !auth.username.is_empty() {
        found.push((
            "username",
            Offered::Password {
                username: auth.username.to_string(),
                password: Secret::from(auth.password.clone()),
            },
        ));
    } else if !auth.password.is_empty() {
        report.lost(source, key, "password is left out: there is no username");
    }
    if !auth.identity_token.is_empty() {
        found.push((
            "identity_token",
            Offered::IdentityToken(Secret::from(auth.identity_token.clone())),
        ));
    }
    if !auth.auth.is_empty() {
        match decode_auth(&auth.auth) {
            Some(pair) => found.push(("auth", pair)),
            None => report.fault(
                source,
                &join(key, "auth"),
                "not base64 of \"user:password\"",
            ),
        }
    }
    for (name, _) in found.iter().skip(1) {
        report.note(
            source,
            &join(key, name),
            format!("has no effect beside {}", found[0].0),
        );
    }
    found.into_iter().next().map(|(_, offered)| offered)
}

fn roots(
    tls: &Tls,
    source: &str,
    key: &str,
    read_file: &mut ReadFile<'_>,
    report: &mut Report,
) -> Option<Roots> {
    if tls.ca_file.is_empty() {
        return None;
    }
    let key = join(key, "ca_file");
    let path = Path::new(&tls.ca_file);
    if !path.is_absolute() {
        report.fault(
            source,
            &key,
            "not an absolute path: what it is relative to is not known here",
        );
        return None;
    }
    let mut certificates = Certificates::default();
    certificates.add_file(path, read_file, (source, &key), report);
    (!certificates.is_empty()).then_some(Roots::These(certificates))
}

fn tell_unknown(unknown: &[String], source: &str, key: &str, report: &mut Report) {
    for name in unknown {
        report.lost(
            source,
            &join(key, name),
            "left out: not a key that is known here",
        );
    }
}

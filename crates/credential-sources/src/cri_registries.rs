//! The registries of containerd's CRI plugin, which `registries.yaml` of K3s has in the same words.
//!
//! `mirrors` says where a registry's images are asked for, `configs` how each host is reached, and
//! the registry itself is asked last. `*` stands for every registry without a key of its own,
//! except for credentials: containerd looks those up by the host's own name and never sends those
//! of `*`. Of several credentials for a host, containerd's order holds: user name and password,
//! then the identity token, then `auth`.

mod model;

use std::collections::BTreeMap;
use std::path::PathBuf;

use foreign_text::toml::join;
use registry_config::{Credentials, Registry, RegistryHost, Roots, Secret};

use crate::registry_file::endpoint::{ApiPath, Endpoint};
use crate::registry_file::plan::{Link, Plan};
use crate::registry_file::{ClientFiles, Reader, decode_auth};
use crate::registry_file::{rewrite, shown_address};

pub(crate) use model::{Auth, Config, Mirror, Placed, Registries, Tls};

/// The name of all registries without one of their own.
const ALL: &str = "*";

/// The program that reads a file, where its readings differ.
pub(crate) struct Engine {
    /// Its name.
    pub(crate) name: &'static str,
    /// What it calls an identity token.
    pub(crate) identity_token: &'static str,
    /// What a registry of `mirrors` without an endpoint means to it.
    pub(crate) no_endpoint: &'static str,
    /// Whether a registry that only `configs` has is asked at the mirrors of `*`.
    pub(crate) all_mirrors_configured: bool,
}

/// Who is asked for the images of each registry.
pub(crate) fn plans(
    engine: &Engine,
    registries: Registries,
    reader: &mut Reader<'_, '_>,
) -> Vec<Plan> {
    let hosts = Hosts::read(engine, registries.configs, reader);
    let mut mirrors = BTreeMap::new();
    for (name, Placed { source, key, value }) in registries.mirrors {
        reader.source = source;
        let links = links(engine, &value, &key, &hosts, reader);
        mirrors.insert(name.clone(), reader.plan(document_name(&name), key, links));
    }
    let of_all = mirrors.get(ALL).filter(|_| engine.all_mirrors_configured);
    let of_all = of_all.map_or_else(Vec::new, |plan| plan.links.clone());
    let mut plans = BTreeMap::new();
    for Host { name, plan, .. } in hosts.0.iter() {
        let mut plan = plan.clone();
        if name != ALL {
            plan.links.clone_from(&of_all);
        }
        plans.insert(name.clone(), plan);
    }
    plans.extend(mirrors);
    let with_registry = plans.into_iter().map(|(name, mut plan)| {
        plan.links.push(Link::registry(plan.key.clone(), hosts.settings_of(&name)));
        plan
    });
    let mut plans: Vec<_> = with_registry.collect();
    // Of several names for Docker Hub images have this one.
    plans.sort_by_key(|plan| plan.name != "docker.io");
    plans
}

/// The name in the document's words, in which a leading dot would mean something else than in this
/// file.
pub(crate) fn document_name(name: &str) -> String {
    match name {
        ALL => ".".into(),
        name if name.starts_with('.') => format!("/{name}"),
        name => name.into(),
    }
}

/// How the hosts of `configs` are reached.
pub(crate) struct Hosts(pub(crate) Vec<Host>);

/// How one host is reached.
pub(crate) struct Host {
    pub(crate) name: String,
    pub(crate) host: Option<RegistryHost>,
    pub(crate) settings: Registry,
    /// Its own images, without a host that is asked for them.
    pub(crate) plan: Plan,
}

impl Hosts {
    pub(crate) fn read(
        engine: &Engine,
        configs: BTreeMap<String, Placed<Config>>,
        reader: &mut Reader<'_, '_>,
    ) -> Self {
        let mut hosts = Vec::new();
        for (name, Placed { source, key, value }) in configs {
            reader.source = source;
            hosts.push(Host {
                settings: settings(engine, value, &name, &key, reader),
                host: RegistryHost::parse(&name).ok(),
                plan: reader.plan(document_name(&name), key, Vec::new()),
                name,
            });
        }
        Self(hosts)
    }

    /// The settings of a host: those of its name, else of another name for it.
    pub(crate) fn settings_of(&self, name: &str) -> Registry {
        let host = RegistryHost::parse(name).ok();
        let same = |known: &&Host| host.is_some() && known.host == host;
        let found = self.0.iter().find(|known| known.name == name);
        let found = found.or_else(|| self.0.iter().find(same));
        found.map_or_else(Registry::default, |known| known.settings.clone())
    }
}

/// Who is asked for a registry's images before the registry itself.
fn links(
    engine: &Engine,
    mirror: &Mirror,
    key: &str,
    hosts: &Hosts,
    reader: &mut Reader<'_, '_>,
) -> Vec<Link> {
    if mirror.endpoints.is_empty() {
        reader.note(key, format!("has no endpoint: {}", engine.no_endpoint));
    }
    let rules = mirror.rewrite.iter();
    let rules =
        rules.map(|(from, to)| (join(&join(key, "rewrite"), from), from.as_str(), Ok(to.as_str())));
    let rules = rewrite::all(rules, reader);
    let mut links = Vec::new();
    for (index, address) in mirror.endpoints.iter().enumerate() {
        let key = format!("{key}.endpoint[{index}] {}", shown_address(address));
        let endpoint =
            Endpoint::with_rules(address, api_path(address), rules.as_deref().unwrap_or_default());
        let settings = match &endpoint {
            Ok((endpoint, _)) => hosts.settings_of(&endpoint.authority),
            Err(_) => Registry::default(),
        };
        links.append(&mut match &rules {
            Some(_) => reader.links(&key, engine.name, endpoint, &settings),
            None => reader.passed_over(&key, &settings),
        });
    }
    links
}

/// An endpoint's path is the API's own, unless it has none.
fn api_path(address: &str) -> ApiPath {
    let authority = address.split_once("://").map_or(address, |(_, rest)| rest);
    match authority.split_once('/') {
        None | Some((_, "" | "v2")) => ApiPath::Below,
        Some(_) => ApiPath::Exactly,
    }
}

fn settings(
    engine: &Engine,
    config: Config,
    host: &str,
    key: &str,
    reader: &mut Reader<'_, '_>,
) -> Registry {
    let mut settings = Registry::default();
    if let Some(auth) = config.auth {
        let key = join(key, "auth");
        if host == ALL {
            let why = "containerd sends it to no registry, and a document would have it sent to \
            every registry without an entry";
            reader.left_out(&key, why);
        } else {
            settings.credentials = credentials(engine, auth, &key, reader).unwrap_or_default();
        }
    }
    if let Some(tls) = config.tls {
        let key = join(key, "tls");
        settings.insecure_skip_verify = tls.insecure_skip_verify;
        settings.ca_certs = roots(&tls, &key, reader);
        let files = client_files(&tls, &key, reader);
        settings.client = reader.client(files, tls.insecure_skip_verify);
    }
    reader.usable(settings)
}

fn credentials(
    engine: &Engine,
    auth: Auth,
    key: &str,
    reader: &mut Reader<'_, '_>,
) -> Option<Credentials> {
    let has_some = !auth.password.is_empty() || !auth.auth.is_empty();
    let mut found = Vec::new();
    if !auth.username.is_empty() {
        let username = auth.username.to_string();
        let password = Secret::from(auth.password);
        found.push(("username", Credentials::Basic { username, password }));
    } else if !auth.password.is_empty() {
        reader.lost(key, "password is left out: there is no username");
    }
    if !auth.identity_token.is_empty() {
        let token = Secret::from(auth.identity_token);
        let offered = Credentials::IdentityToken { username: None, token };
        found.push((engine.identity_token, offered));
    }
    if !auth.auth.is_empty() {
        match decode_auth(&auth.auth) {
            Some(pair) => found.push(("auth", pair)),
            None => reader.left_out(&join(key, "auth"), "not base64 of \"user:password\""),
        }
    }
    reader.is_broken |= found.is_empty() && has_some;
    let mut found = found.into_iter();
    let (first, offered) = found.next()?;
    for (name, _) in found {
        reader.note(&join(key, name), format!("has no effect beside {first}"));
    }
    Some(offered)
}

fn roots(tls: &Tls, key: &str, reader: &mut Reader<'_, '_>) -> Option<Roots> {
    if tls.ca_file.is_empty() {
        return None;
    }
    let key = join(key, "ca_file");
    let path = PathBuf::from(&tls.ca_file);
    if !path.is_absolute() {
        reader.broken(&key, "not an absolute path: what it is relative to is not known here");
        return None;
    }
    reader.roots([(path, key)])
}

/// The files of the client certificate; what is wrong with their names is told.
fn client_files(tls: &Tls, key: &str, reader: &mut Reader<'_, '_>) -> Option<ClientFiles> {
    if tls.cert_file.is_empty() && tls.key_file.is_empty() {
        return None;
    }
    let files = ClientFiles {
        certificate: PathBuf::from(&tls.cert_file),
        private_key: PathBuf::from(&tls.key_file),
        key: join(key, "cert_file"),
    };
    if files.certificate.is_absolute() && files.private_key.is_absolute() {
        return Some(files);
    }
    reader.broken(key, "cert_file and key_file must stand together, as absolute paths");
    None
}

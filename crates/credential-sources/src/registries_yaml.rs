//! `registries.yaml` of K3s and RKE2.
//!
//! `mirrors` says where a registry's images are asked for, `configs` how each host is reached. The
//! registry itself is always asked last (`--disable-default-registry-endpoint` is an option of K3s
//! that the file does not show). `*` stands for every registry without a key of its own, except for
//! credentials: containerd looks those up by the host's own name and never sends those of `*`.
//! Of several credentials for a host, containerd's order holds: user name and password, then the
//! identity token, then `auth`.

mod text;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use foreign_text::toml::join;
use puller_config::{MAX_REWRITES, RegistryHost, Rewrite, Secret};

use crate::Offered;
use crate::registry_file::assemble::assemble;
use crate::registry_file::endpoint::{ApiPath, Endpoint};
use crate::registry_file::plan::{Link, Plan, Target};
use crate::registry_file::shown_address;
use crate::registry_file::{ClientFiles, Import, ReadFile, Reader, Roots, Settings, decode_auth};

use self::text::{Auth, Config, File, Mirror, Tls};

/// The longest file; a thousand registries have less.
pub const MAX_REGISTRIES_YAML_BYTES: usize = 256 << 10;

/// The name of all registries without one of their own.
const ALL: &str = "*";

/// Reads a file. The CA files that it names are read by `read_file`, with absolute paths only.
pub fn read(bytes: &[u8], source: &str, read_file: &mut ReadFile<'_>) -> Import {
    let mut reader = Reader::new(source, read_file);
    let plans = match text::parse(bytes, |key| reader.unknown(key)) {
        Ok(file) => plans(file, &mut reader),
        Err(reason) => {
            reader.fault("", reason);
            Vec::new()
        }
    };
    assemble(plans, reader.report)
}

fn plans(file: File, reader: &mut Reader<'_, '_>) -> Vec<Plan> {
    let mut hosts = Vec::new();
    for (name, config) in file.configs {
        let settings = settings(config.unwrap_or_default(), &name, reader);
        hosts.push(Host {
            host: RegistryHost::parse(&name).ok(),
            name,
            settings,
        });
    }
    let mut plans = BTreeMap::new();
    for Host { name, .. } in &hosts {
        let plan = reader.plan(document_name(name), join("configs", name), Vec::new());
        plans.insert(name.clone(), plan);
    }
    for (name, mirror) in file.mirrors {
        let key = join("mirrors", &name);
        let links = links(&mirror.unwrap_or_default(), &key, &hosts, reader);
        let plan = reader.plan(document_name(&name), key, links);
        plans.insert(name, plan);
    }
    let with_registry = plans.into_iter().map(|(name, mut plan)| {
        plan.links.push(Link {
            key: plan.key.clone(),
            target: Target::Registry,
            settings: settings_of(&hosts, &name),
            rewrites: Vec::new(),
        });
        plan
    });
    let mut plans: Vec<_> = with_registry.collect();
    // Of several names for Docker Hub images have this one.
    plans.sort_by_key(|plan| plan.name != "docker.io");
    plans
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
struct Host {
    name: String,
    host: Option<RegistryHost>,
    settings: Settings,
}

/// The settings of a host: those of its name, else of another name for it.
fn settings_of(hosts: &[Host], name: &str) -> Settings {
    let host = RegistryHost::parse(name).ok();
    let same = |known: &&Host| host.is_some() && known.host == host;
    let found = hosts.iter().find(|known| known.name == name);
    let found = found.or_else(|| hosts.iter().find(same));
    found.map_or_else(Settings::default, |known| known.settings.clone())
}

/// Who is asked for a registry's images before the registry itself.
fn links(mirror: &Mirror, key: &str, hosts: &[Host], reader: &mut Reader<'_, '_>) -> Vec<Link> {
    if mirror.endpoints.is_empty() {
        let text =
            "has no endpoint: at most the node's embedded registry, which guests do not reach";
        reader.note(key, text);
    }
    let rewrites = rewrites(mirror, key, reader);
    let mut links = Vec::new();
    for (index, address) in mirror.endpoints.iter().enumerate() {
        let key = format!("{key}.endpoint[{index}] {}", shown_address(address));
        let endpoint = match &rewrites {
            Some(_) => endpoint(address),
            None => Err("a rule of \"rewrite\" cannot be said"),
        };
        let settings = match &endpoint {
            Ok(endpoint) => settings_of(hosts, &endpoint.authority),
            Err(_) => Settings::default(),
        };
        links.push(Link {
            target: reader.target(&key, "K3s", endpoint),
            key,
            settings,
            rewrites: rewrites.clone().unwrap_or_default(),
        });
    }
    links
}

/// The rules for names at the endpoints; `None` where one of them cannot be said: without it the
/// endpoint would be asked for other names.
fn rewrites(mirror: &Mirror, key: &str, reader: &mut Reader<'_, '_>) -> Option<Vec<Rewrite>> {
    let mut rules = Some(Vec::new());
    let key = join(key, "rewrite");
    for (from, to) in &mirror.rewrite {
        match Rewrite::parse(from, to) {
            Ok(rule) => rules.iter_mut().for_each(|rules| rules.push(rule.clone())),
            Err(why) => {
                reader.left_out(&join(&key, from), why);
                rules = None;
            }
        }
    }
    if mirror.rewrite.len() > MAX_REWRITES {
        reader.left_out(&key, format!("a mirror has at most {MAX_REWRITES} rules"));
        rules = None;
    }
    rules
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

fn settings(config: Config, host: &str, reader: &mut Reader<'_, '_>) -> Settings {
    let key = join("configs", host);
    let mut settings = Settings::default();
    if let Some(auth) = config.auth {
        let key = join(&key, "auth");
        if host == ALL {
            let why = "containerd sends it to no registry, and a document would have it sent to \
            every registry without an entry";
            reader.left_out(&key, why);
        } else {
            settings.credentials = credentials(auth, &key, reader).map(Arc::new);
        }
    }
    if let Some(tls) = config.tls {
        let key = join(&key, "tls");
        settings.skip_verify = tls.insecure_skip_verify;
        settings.roots = roots(&tls, &key, reader);
        let files = client_files(&tls, &key, reader);
        settings.client = reader.client(files, tls.insecure_skip_verify);
    }
    settings
}

fn credentials(auth: Auth, key: &str, reader: &mut Reader<'_, '_>) -> Option<Offered> {
    let mut found = Vec::new();
    if !auth.username.is_empty() {
        let username = auth.username.to_string();
        let password = Secret::from(auth.password);
        found.push(("username", Offered::Password { username, password }));
    } else if !auth.password.is_empty() {
        reader.lost(key, "password is left out: there is no username");
    }
    if !auth.identity_token.is_empty() {
        let token = Secret::from(auth.identity_token);
        found.push(("identity_token", Offered::IdentityToken(token)));
    }
    if !auth.auth.is_empty() {
        match decode_auth(&auth.auth) {
            Some(pair) => found.push(("auth", pair)),
            None => reader.fault(&join(key, "auth"), "not base64 of \"user:password\""),
        }
    }
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
        let text = "not an absolute path: what it is relative to is not known here";
        reader.fault(&key, text);
        return None;
    }
    reader.roots([(path, key)])
}

/// The files of the client certificate; what is wrong with their names is a fault.
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
    let text = "cert_file and key_file must stand together, as absolute paths";
    reader.fault(key, text);
    None
}

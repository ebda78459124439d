//! The directories of `config_path`, and the credentials of `configs` beside them.

use registry_config::{Registry as Entry, RegistryHost};

use super::{CONTAINERD, Registry};
use crate::certs_d::{self, DEFAULT, Directory, shown_path};
use crate::cri_registries::{Host, Hosts};
use crate::registry_file::Reader;
use crate::registry_file::plan::{Link, Plan, Target};

/// The document's name for all registries without a directory.
const ALL: &str = ".";

/// Who is asked for the images of each registry.
pub(super) fn plans(
    mut registry: Registry,
    roots: Vec<Vec<Directory>>,
    reader: &mut Reader<'_, '_>,
) -> Vec<Plan> {
    tell_ignored(&mut registry, reader);
    let is_default = registry.config_path.is_none();
    if is_default && roots.iter().any(|root| !root.is_empty()) {
        let text = "is not set, and these directories are where containerd 2.2 and later look; \
            earlier ones look nowhere";
        reader.lost("config_path", text);
    }
    let hosts = Hosts::read(&CONTAINERD, registry.registries.configs, reader);
    let mut plans = directories(roots, reader);
    let missing = hosts.0.iter().filter(|known| {
        !known.settings.credentials.is_anonymous()
            && !plans.iter().any(|plan| asks(plan, &known.host))
    });
    let of_all = plans.iter().find(|plan| plan.name == ALL);
    let missing: Vec<_> = missing.map(|known| plan_of(known, of_all)).collect();
    plans.extend(missing);
    for plan in &mut plans {
        give_credentials(plan, &hosts, reader);
    }
    plans
}

/// Tells what containerd has no use for beside `config_path`.
fn tell_ignored(registry: &mut Registry, reader: &mut Reader<'_, '_>) {
    let why = "containerd refuses it beside \"config_path\", which counts here";
    for mirror in std::mem::take(&mut registry.registries.mirrors).into_values() {
        reader.source = mirror.source;
        reader.left_out(&mirror.key, why);
    }
    for config in registry.registries.configs.values_mut() {
        if config.value.tls.take().is_some() {
            reader.source.clone_from(&config.source);
            reader.left_out(&format!("{}.tls", config.key), why);
        }
    }
    if let Some(placed) = &registry.config_path {
        reader.source.clone_from(&placed.source);
    }
}

/// The plans of all directories. containerd looks into the next one only for what the one before
/// has not, and `_default` has all.
fn directories(roots: Vec<Vec<Directory>>, reader: &mut Reader<'_, '_>) -> Vec<Plan> {
    let mut plans = Vec::new();
    let mut default: Option<String> = None;
    for directories in roots {
        if let Some(default) = &default {
            for directory in &directories {
                reader.source = shown_path(&directory.path);
                let why = format!("containerd goes by {default} before it gets here");
                reader.left_out("", why);
            }
            continue;
        }
        let found = directories.iter().find(|known| known.name == DEFAULT);
        default = found.map(|found| shown_path(&found.path));
        plans.extend(certs_d::plans(directories, reader));
    }
    plans
}

/// The plan of a host without a directory: that of `_default`, or none but itself.
fn plan_of(known: &Host, of_all: Option<&Plan>) -> Plan {
    if let Some(of_all) = of_all {
        return Plan { name: known.plan.name.clone(), ..of_all.clone() };
    }
    let mut plan = known.plan.clone();
    plan.links.push(Link::registry(plan.key.clone(), Entry::default()));
    plan
}

/// Whether a host is asked for the images of a plan.
fn asks(plan: &Plan, host: &Option<RegistryHost>) -> bool {
    let own = RegistryHost::parse(&plan.name).ok();
    let is_at = |link: &Link| match &link.target {
        Target::Address(endpoint) => host.as_ref() == Some(&endpoint.host),
        _ => false,
    };
    host.is_some() && (own == *host || plan.links.iter().any(is_at))
}

/// Gives each host of a plan the credentials that the file has for it.
fn give_credentials(plan: &mut Plan, hosts: &Hosts, reader: &mut Reader<'_, '_>) {
    for link in &mut plan.links {
        let name = match &link.target {
            Target::Address(endpoint) => endpoint.authority.as_str(),
            // All hosts have as many names: nobody's credentials are for them all.
            Target::Registry if !plan.name.starts_with('.') => plan.name.as_str(),
            _ => continue,
        };
        let Entry { credentials: found, ca_certs, .. } = hosts.settings_of(name);
        // Without its TLS a host has some only where its credentials cannot be used.
        if ca_certs.is_some() {
            link.settings.ca_certs = ca_certs;
        }
        match (link.settings.credentials.is_anonymous(), found.is_anonymous()) {
            (_, true) => {}
            (true, false) => link.settings.credentials = found,
            (false, false) => {
                reader.source.clone_from(&plan.source);
                let text = "its header is sent, and not the credentials that containerd's \
                    configuration has for the host";
                reader.note(&link.key, text);
            }
        }
    }
}

//! `registries.conf` (version 2) of podman, CRI-O, skopeo and buildah: the part that the document
//! can say.
//!
//! A `[[registry]]` is taken over where its prefix is a whole host (or `*.` and a domain), and for
//! some repositories where a mirror's `prefix` can say it, see `repositories`. A path in the
//! location of a mirror stands in the place of the table's prefix, or before the repository's name:
//! that is the `name` of a mirror. A registry that is asked only at places that cannot be said is
//! forbidden.
//!
//! `insecure` becomes `insecure-skip-verify`, which includes plain HTTP, though without
//! credentials.

mod repositories;

use std::collections::BTreeSet;
use std::path::Path;

use cdh_config::registries_conf::{self, Mirror, Odd, Registry};
use foreign_text::toml::{Field, Table};
use registry_config::{Registry as Entry, RegistryHost};

use self::repositories::{Group, Mirrors};
use crate::printable;
use crate::registry_file::assemble::assemble;
use crate::registry_file::endpoint::{ApiPath, Endpoint};
use crate::registry_file::plan::{Link, Names, Plan, Target};
use crate::registry_file::{Import, Reader, forbidden_by};

/// The longest file; a thousand registries have less.
pub const MAX_REGISTRIES_CONF_BYTES: usize = 128 << 10;

/// Keys of the file that concern names without a registry, of which the guest gets none.
const SHORT_NAMES: [&str; 4] = [
    "unqualified-search-registries",
    "short-name-mode",
    "aliases",
    "additional-layer-store-auth-helper",
];

/// Reads a file.
pub fn read(bytes: &[u8], source: &str) -> Import {
    let mut no_file = |_: &Path| Err("the file names no other file".to_owned());
    let mut reader = Reader::new(source, &mut no_file);
    let tree = reader.toml(bytes, MAX_REGISTRIES_CONF_BYTES);
    let plans = tree.map_or_else(Vec::new, |tree| plans(tree.table(), &mut reader));
    assemble(plans, reader.report)
}

fn plans(keys: Table<'_, '_>, reader: &mut Reader<'_, '_>) -> Vec<Plan> {
    let mut conf = registries_conf::read(keys);
    for Field { key, path, .. } in &conf.others {
        match *key {
            key if SHORT_NAMES.contains(&key) => {
                reader.note(path, "has no part: guests get complete names");
            }
            "credential-helpers" => {
                let why = "no helper runs in a guest; import what they hold as docker-config";
                reader.left_out(path, why);
            }
            "registries" => {
                let why = "only version 2 of the format is read, with [[registry]]";
                reader.left_out(path, why);
            }
            _ => reader.unknown(path),
        }
    }
    let mut unreadable = BTreeSet::new();
    for Odd { path, wrong, .. } in &conf.odd {
        let mut registries = conf.registries.iter_mut();
        // Without its prefix nobody knows which registry a table is about.
        let registry = registries.find(|registry| {
            path.starts_with(&registry.path)
                && *path != format!("{}.prefix", registry.path)
                && !prefix_of(registry).is_empty()
        });
        match (wrong, registry) {
            (None, _) => reader.unknown(path),
            (Some(wrong), None) => reader.fault(path, wrong.to_string()),
            // Perhaps it is not to be asked; its mirrors are, as far as they can be read.
            (Some(wrong), Some(registry)) => {
                reader.lost(path, format!("{wrong}: the registry itself is not asked"));
                registry.blocked = true;
                unreadable.insert(prefix_of(registry));
            }
        }
    }
    let tables = conf.registries.iter();
    let tables: Vec<_> = tables.map(|registry| (prefix_of(registry), registry.blocked)).collect();
    for registry in &mut conf.registries {
        let by_digest = registry.mirror_by_digest_only;
        registry.mirrors.retain_mut(|mirror| {
            let has_part = by_digest || mirror.pull_from_mirror != "tag-only";
            if !has_part {
                let key = mirror_key(mirror);
                reader.note(&key, "has no part: guests pull by digest");
            }
            let blocking = blocking(mirror.location, &tables).filter(|_| has_part);
            let Some(prefix) = blocking else {
                return has_part;
            };
            reader.lost(&mirror_key(mirror), forbidden_by(&printable(prefix)));
            // An engine passes over a blocked one, and goes by no file that is not right.
            mirror.location = "";
            unreadable.contains(prefix)
        });
        let is_moved = !registry.blocked && !repositories::is_own(registry);
        let blocking = blocking(registry.location, &tables).filter(|_| is_moved);
        if let Some(prefix) = blocking {
            reader.lost(&format!("{}.location", registry.path), forbidden_by(&printable(prefix)));
            registry.blocked = true;
        }
    }
    let (groups, left_out) = repositories::groups(&conf.registries);
    for (registry, why) in left_out {
        let key = format!("{} {}", registry.path, printable(prefix_of(registry)));
        let what = match registry.blocked {
            true => "nobody is asked, its mirrors are left out",
            false => "left out",
        };
        reader.lost(&key, format!("{what}: it is for some repositories, and {why}"));
    }
    let registries = conf.registries.iter();
    let whole = registries.filter(|registry| repositories::split(prefix_of(registry)).is_none());
    let mut plans: Vec<_> = whole.filter_map(|registry| plan(registry, reader)).collect();
    for group in &groups {
        add_mirrors(group, &mut plans, reader);
    }
    plans
}

/// Puts the mirrors of some repositories of a host into its plan, which perhaps has to be made.
fn add_mirrors(group: &Group<'_, '_>, plans: &mut Vec<Plan>, reader: &mut Reader<'_, '_>) {
    let Mirrors { mut links, falls_back, blocked, own } = group.mirrors(reader);
    let of_whole =
        |plan: &&mut Plan| group.whole.is_some_and(|whole| plan.name == prefix_of(whole));
    if let Some(plan) = plans.iter_mut().find(of_whole) {
        plan.blocked = blocked;
        if !links.is_empty() {
            links.append(&mut plan.links);
            plan.links = links;
            plan.falls_back = falls_back;
        }
        return;
    }
    if let Some(domain) =
        plans.iter().filter(|plan| group.is_in(plan)).max_by_key(|plan| plan.name.len())
    {
        let (name, key) = (group.name(), group.key());
        plans.push(Plan { name, key, blocked, ..domain.clone() });
        return;
    }
    let key = links.first().map_or_else(|| group.key(), |link| link.key.clone());
    links.push(Link::registry(key.clone(), own));
    plans.push(Plan { falls_back, blocked, ..reader.plan(group.name(), key, links) });
}

/// The prefix of the blocked table in which a place lies. The engines look each place up again
/// before they ask there: the table with the longest prefix decides, of two the first.
fn blocking<'t>(location: &str, tables: &[(&'t str, bool)]) -> Option<&'t str> {
    let around = tables.iter().rev();
    let around = around.filter(|(prefix, _)| holds_for(prefix, location));
    let (prefix, is_blocked) = around.max_by_key(|(prefix, _)| prefix.len())?;
    is_blocked.then_some(*prefix)
}

/// Whether a table with this prefix holds for images at a location.
fn holds_for(prefix: &str, location: &str) -> bool {
    let rest = match prefix.strip_prefix('*') {
        Some(domain) => location
            .split_once(domain)
            .filter(|(below, _)| !below.contains('/'))
            .map(|(_, rest)| rest),
        None => location.strip_prefix(prefix.trim_end_matches('/')),
    };
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([':', '/', '@']))
}

/// What a table is for.
fn prefix_of<'t>(registry: &Registry<'t>) -> &'t str {
    match registry.prefix {
        "" => registry.location,
        prefix => prefix,
    }
}

fn plan(registry: &Registry<'_>, reader: &mut Reader<'_, '_>) -> Option<Plan> {
    let location = registry.location;
    let prefix = prefix_of(registry);
    let key = format!("{} {}", registry.path, printable(prefix));
    let Some(name) = name(prefix) else {
        let why = match prefix.contains("://") {
            true => "not a host such as \"registry.corp:5000\"",
            false => "a document's mirrors are those of a whole host, not of some repositories",
        };
        reader.left_out(&key, why);
        return None;
    };
    let mirrors = registry.mirrors.iter();
    let mut links: Vec<_> = mirrors.flat_map(|mirror| mirror_links(mirror, None, reader)).collect();
    // The mirrors of a blocked registry are asked all the same.
    let is_blocked = registry.blocked && links.is_empty();
    if !registry.blocked {
        links.append(&mut own_links(prefix, location, &key, registry.insecure, reader));
    }
    Some(Plan { is_blocked, ..reader.plan(name, key, links) })
}

/// The document's name for a prefix; `None` where it is not of whole hosts.
fn name(prefix: &str) -> Option<String> {
    match prefix.strip_prefix("*.") {
        Some(domain) if domain.contains(['/', '*', ':', '@']) => None,
        Some(domain) => Some(format!(".{domain}")),
        // A leading dot would be a suffix in the document.
        None if prefix.contains(['/', '*', '@']) || prefix.starts_with('.') => None,
        None => Some(prefix.to_owned()),
    }
}

/// Where the registry's images are, if no mirror has them.
fn own_links(
    prefix: &str,
    location: &str,
    key: &str,
    is_insecure: bool,
    reader: &mut Reader<'_, '_>,
) -> Vec<Link> {
    let registry = Link::registry(key.to_owned(), insecure(is_insecure));
    if location.is_empty() || location == prefix {
        vec![registry]
    } else if prefix.starts_with("*.") {
        let text =
            "location is left out: the document asks each of many registries under its own name";
        reader.lost(key, text);
        vec![Link { target: Target::Inexpressible, ..registry }]
    } else {
        let mut links = links(location, None, &format!("{key}.location"), is_insecure, reader);
        links.iter_mut().for_each(|link| link.key = key.to_owned());
        links
    }
}

fn mirror_key(mirror: &Mirror<'_>) -> String {
    format!("{} {}", mirror.path, printable(mirror.location))
}

fn mirror_links(
    mirror: &Mirror<'_>,
    prefix: Option<&str>,
    reader: &mut Reader<'_, '_>,
) -> Vec<Link> {
    links(mirror.location, prefix, &mirror_key(mirror), mirror.insecure, reader)
}

/// A location, which is a host without a scheme, and what stands there in the place of the prefix,
/// or before the names of repositories.
fn links(
    location: &str,
    prefix: Option<&str>,
    key: &str,
    is_insecure: bool,
    reader: &mut Reader<'_, '_>,
) -> Vec<Link> {
    let endpoint = endpoint(location, prefix);
    if is_insecure && endpoint.is_ok() {
        let text = "is not asked over plain HTTP; if it does not speak TLS, write its address with \
        \"http://\" into the document";
        reader.lost(key, text);
    }
    reader.links(key, "the engine", endpoint, &insecure(is_insecure))
}

fn endpoint(location: &str, prefix: Option<&str>) -> Result<(Endpoint, Vec<Names>), &'static str> {
    let (address, path) = registries_conf::split(location);
    // Docker Hub is served under another name than the one that its images carry.
    let address = match RegistryHost::parse(address) {
        Ok(host) if host.is_docker_hub() => "registry-1.docker.io",
        _ => address,
    };
    if location.contains("://") || location.contains('@') {
        return Err("not a host such as \"mirror.corp:5000\"");
    }
    let name = match prefix {
        Some(prefix) => Some(path).filter(|path| *path != prefix),
        None => Some(path).filter(|path| !path.is_empty()),
    };
    if registry_config::Mirror::new("https://host", prefix, name, None).is_err() {
        return Err("its path is no beginning of a repository's name");
    }
    let [prefix, name] = [prefix, name].map(|part| part.map(ToOwned::to_owned));
    Ok((Endpoint::parse(address, ApiPath::Below)?, vec![Names { prefix, name }]))
}

fn insecure(is_insecure: bool) -> Entry {
    Entry { insecure_skip_verify: is_insecure, ..Entry::default() }
}

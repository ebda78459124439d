//! Tables for some repositories of a host, which become mirrors with a `prefix` in the host's own
//! entry.
//!
//! An engine goes by the one table with the longest prefix. A document has one entry for a host, so
//! it can say the same only where the tables do not meet: none is below another, and the table of
//! the whole host has no mirrors of its own. A table that does not fit is left out by itself, but for
//! what it forbids.
//!
//! A table that is blocked, or moved, does not end at the registry itself: beside one that does, its
//! mirrors say `fallback = false`. For one that is blocked and has no mirror nobody is asked,
//! whatever the tables around it say.

use std::collections::BTreeSet;

use registry_config::{RegistryHost, RegistryName};

use super::{Entry, Mirror, Registry, endpoint, insecure, mirror_links, prefix_of};
use crate::printable;
use crate::registry_file::Reader;
use crate::registry_file::plan::{Link, Plan};

/// The tables for some repositories of one host.
pub(super) struct Group<'r, 't> {
    host: RegistryHost,
    tables: Vec<Part<'r, 't>>,
    /// The table of the whole host.
    pub(super) whole: Option<&'r Registry<'t>>,
}

/// A table for some repositories.
struct Part<'r, 't> {
    repositories: &'t str,
    table: &'r Registry<'t>,
    /// Where these are asked for before the registry itself, if that is asked.
    places: Vec<Mirror<'t>>,
}

/// A table that is left out, and why.
pub(super) type LeftOut<'r, 't> = (&'r Registry<'t>, &'static str);

/// What they become.
pub(super) struct Mirrors {
    pub(super) links: Vec<Link>,
    /// Whether the registry itself is asked where they fail.
    pub(super) falls_back: bool,
    /// What nobody is asked for.
    pub(super) blocked: Vec<String>,
    /// How it is reached.
    pub(super) own: Entry,
}

/// The host and the first segments of the names that a prefix is for.
pub(super) fn split(prefix: &str) -> Option<(RegistryHost, &str)> {
    let (host, repositories) = prefix.split_once('/')?;
    let name = RegistryName::parse(prefix).ok()?;
    name.repositories()?;
    Some((RegistryHost::parse(host).ok()?, repositories))
}

/// The tables that are for some repositories, by host, and those of them that a document cannot say
/// beside the others.
pub(super) fn groups<'r, 't>(
    registries: &'r [Registry<'t>],
) -> (Vec<Group<'r, 't>>, Vec<LeftOut<'r, 't>>) {
    let mut groups: Vec<Group<'r, 't>> = Vec::new();
    for registry in registries {
        let Some((host, repositories)) = split(prefix_of(registry)) else {
            continue;
        };
        let part = Part::new(repositories, registry);
        match groups.iter_mut().find(|group| group.host == host) {
            Some(group) => group.tables.push(part),
            None => groups.push(Group { host, tables: vec![part], whole: None }),
        }
    }
    for registry in registries {
        let Ok(host) = RegistryHost::parse(prefix_of(registry)) else {
            continue;
        };
        let group = groups.iter_mut().find(|group| group.host == host);
        if let Some(group) = group {
            group.whole.get_or_insert(registry);
        }
    }
    let mut left_out = Vec::new();
    for group in &mut groups {
        group.take_out(registries, &mut left_out);
    }
    groups.retain(|group| !group.tables.is_empty());
    (groups, left_out)
}

impl<'r, 't> Group<'r, 't> {
    /// The host's name in the document, as the first table has it.
    pub(super) fn name(&self) -> String {
        let prefix = prefix_of(self.tables[0].table);
        prefix.split('/').next().unwrap_or_default().to_owned()
    }

    /// The key of the first table.
    pub(super) fn key(&self) -> String {
        let table = self.tables[0].table;
        format!("{} {}", table.path, printable(prefix_of(table)))
    }

    fn take_out(&mut self, registries: &[Registry<'_>], left_out: &mut Vec<LeftOut<'r, 't>>) {
        let obstacle = self.obstacle(registries);
        // What forbids is never left out.
        let mut stays = |part: &mut Part<'r, 't>, why: Option<&'static str>| {
            let Some(why) = why.filter(|_| !part.is_blocked()) else {
                return true;
            };
            left_out.push((part.table, why));
            part.places.clear();
            part.is_blocked()
        };
        let own_insecure = self.whole.is_some_and(|whole| whole.insecure);
        self.tables.retain_mut(|part| {
            let why = obstacle.or_else(|| part.obstacle(own_insecure));
            stays(part, why)
        });
        let is_other = |part: &&Part<'_, '_>| part.is_blocked() || !part.places.is_empty();
        let others = self.tables.iter().filter(is_other);
        let prefixes: BTreeSet<_> = others.map(|part| part.repositories).collect();
        let mut seen = BTreeSet::new();
        self.tables.retain_mut(|part| {
            let name = part.repositories;
            let mut above = name.match_indices('/').map(|(at, _)| &name[..at]);
            let is_below = above.any(|above| prefixes.contains(above)) || !seen.insert(name);
            let why = "it is below the prefix of another table, which a mirror cannot leave";
            stays(part, is_below.then_some(why))
        });
    }

    /// Why a document cannot say any of the tables, other than those that are blocked.
    fn obstacle(&self, registries: &[Registry<'_>]) -> Option<&'static str> {
        let is_other =
            |whole: &Registry<'_>| whole.blocked || !whole.mirrors.is_empty() || !is_own(whole);
        if self.whole.is_some_and(is_other) {
            return Some("the table of the whole host has other places or is blocked");
        }
        let name = self.host.name();
        let covers = |registry: &Registry<'_>| {
            let domain = prefix_of(registry).strip_prefix('*');
            domain.is_some_and(|domain| name.ends_with(domain))
        };
        registries
            .iter()
            .any(covers)
            .then_some("a table for a whole domain holds for the host's other repositories")
    }

    /// Whether a plan is for a domain of the host.
    pub(super) fn is_in(&self, plan: &Plan) -> bool {
        plan.name.starts_with('.') && self.host.name().ends_with(&plan.name)
    }

    /// The mirrors of the tables. Findings about them go to the reader.
    pub(super) fn mirrors(&self, reader: &mut Reader<'_, '_>) -> Mirrors {
        let asked = || self.tables.iter().filter(|part| !part.places.is_empty());
        let falls_back = asked().any(Part::ends_here);
        let mut links = Vec::new();
        for part in asked() {
            let fallback = (falls_back && !part.ends_here()).then_some(false);
            for place in &part.places {
                let of_place = mirror_links(place, Some(part.repositories), reader);
                links.extend(of_place.into_iter().map(|link| Link { fallback, ..link }));
            }
        }
        let blocked = self.tables.iter().filter(|part| part.is_blocked());
        Mirrors {
            links,
            falls_back,
            blocked: blocked.map(|part| part.repositories.to_owned()).collect(),
            own: insecure(self.whole.is_some_and(|whole| whole.insecure)),
        }
    }
}

impl<'r, 't> Part<'r, 't> {
    fn new(repositories: &'t str, table: &'r Registry<'t>) -> Self {
        let mut part = Self { repositories, table, places: table.mirrors.clone() };
        if !is_own(table) && !table.blocked {
            part.places.push(part.place(table.location));
        }
        part
    }

    /// The table's own location, or its prefix, as a mirror.
    fn place(&self, location: &'t str) -> Mirror<'t> {
        Mirror {
            line: self.table.line,
            path: format!("{}.location", self.table.path),
            location,
            insecure: self.table.insecure,
            pull_from_mirror: "",
        }
    }

    /// Why a document cannot say it.
    fn obstacle(&self, own_insecure: bool) -> Option<&'static str> {
        let host = prefix_of(self.table).split('/').next();
        if host.is_some_and(|host| host.ends_with(":443")) {
            Some("engines take \":443\" for another name than none, and a document does not")
        } else if self.ends_here() && self.table.insecure != own_insecure {
            Some("the registry itself is reached in one way")
        } else {
            let mut places = self.places.iter();
            let all = places.all(|place| endpoint(place.location, Some(self.repositories)).is_ok());
            (!all).then_some("one of its places cannot be said")
        }
    }

    /// Whether nobody is asked for its repositories.
    fn is_blocked(&self) -> bool {
        self.table.blocked && self.places.is_empty()
    }

    /// Whether the registry itself is asked, under the same names.
    fn ends_here(&self) -> bool {
        is_own(self.table) && !self.table.blocked
    }
}

/// Whether a table's own location is the registry itself, under the same names.
pub(super) fn is_own(table: &Registry<'_>) -> bool {
    table.location.is_empty() || table.location == prefix_of(table)
}

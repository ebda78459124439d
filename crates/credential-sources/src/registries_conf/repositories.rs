//! Tables for some repositories of a host, which become mirrors with a `prefix` in the host's own
//! entry.
//!
//! An engine goes by the one table with the longest prefix. A document has one entry for a host, so
//! it can say the same only where the tables do not meet: none is below another, and the table of
//! the whole host has no mirrors of its own. A table that does not fit is left out by itself.
//!
//! A table that is blocked, or moved, does not end at the registry itself. Beside such a one, the
//! tables that do name the registry as their last mirror, in the place of the entry's fallback.

use std::collections::BTreeSet;

use registry_config::{MAX_MIRRORS, MAX_REPOSITORY_MIRRORS, RegistryHost, RegistryName, Rewrite};

use super::{Entry, Mirror, Registry, insecure, mirror_link, prefix_of};
use crate::registry_file::Reader;
use crate::registry_file::endpoint::{ApiPath, Endpoint};
use crate::registry_file::plan::Link;

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

    fn take_out(&mut self, registries: &[Registry<'_>], left_out: &mut Vec<LeftOut<'r, 't>>) {
        let obstacle = self.obstacle(registries);
        let mut take_out = |part: &Part<'r, 't>, why: Option<&'static str>| {
            left_out.extend(why.map(|why| (part.table, why)));
            why.is_none()
        };
        let own_insecure = self.whole.is_some_and(|whole| whole.insecure);
        self.tables.retain(|part| take_out(part, obstacle.or_else(|| part.obstacle(own_insecure))));
        let prefixes: BTreeSet<_> = self.asked().map(|part| part.repositories).collect();
        let mut seen = BTreeSet::new();
        self.tables.retain(|part| {
            let name = part.repositories;
            let mut above = name.match_indices('/').map(|(at, _)| &name[..at]);
            let is_below = above.any(|above| prefixes.contains(above)) || !seen.insert(name);
            let why = "it is below the prefix of another table, which a mirror cannot leave";
            take_out(part, is_below.then_some(why))
        });
        let is_mixed = self.is_mixed();
        let mut left = MAX_MIRRORS;
        self.tables.retain_mut(|part| {
            if is_mixed && part.ends_here() && !part.places.is_empty() {
                part.places.push(part.place(prefix_of(part.table)));
            }
            let why = match part.places.len() {
                count if count > MAX_REPOSITORY_MIRRORS => {
                    Some("a repository has at most eight mirrors")
                }
                count if count > left => Some("a registry has at most 256 mirrors"),
                count => {
                    left -= count;
                    None
                }
            };
            take_out(part, why)
        });
    }

    /// Why a document cannot say any of the tables.
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

    /// Whether only some of the tables end at the registry itself.
    fn is_mixed(&self) -> bool {
        let mut ends = self.asked().map(Part::ends_here);
        let first = ends.next();
        ends.any(|end| Some(end) != first)
    }

    /// Those that are asked for anywhere else.
    fn asked(&self) -> impl Iterator<Item = &Part<'r, 't>> {
        self.tables.iter().filter(|part| !part.places.is_empty())
    }

    /// The mirrors of the tables. Findings about them go to the reader.
    pub(super) fn mirrors(&self, reader: &mut Reader<'_, '_>) -> Mirrors {
        let mut links = Vec::new();
        for part in &self.tables {
            for place in &part.places {
                let mut link = mirror_link(place, reader);
                link.rewrites = rewrite(place.location, part.repositories).into_iter().collect();
                link.prefix = Some(part.repositories.to_owned());
                links.push(link);
            }
        }
        Mirrors {
            links,
            falls_back: self.asked().all(Part::ends_here),
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
        } else if self.table.blocked && self.places.is_empty() {
            Some("a document blocks whole hosts only")
        } else if self.ends_here() && self.table.insecure != own_insecure {
            Some("the registry itself is reached in one way")
        } else {
            let mut places = self.places.iter();
            let all = places.all(|place| can_be_said(place.location, self.repositories));
            (!all).then_some("one of its places cannot be said")
        }
    }

    /// Whether the registry itself is asked, under the same names.
    fn ends_here(&self) -> bool {
        is_own(self.table) && !self.table.blocked
    }
}

fn can_be_said(location: &str, repositories: &str) -> bool {
    let (address, path) = location.split_once('/').unwrap_or((location, ""));
    !location.contains("://")
        && !location.contains('@')
        && Endpoint::parse(address, ApiPath::Below).is_ok()
        && (path == repositories || rewrite(location, repositories).is_some())
}

/// Whether a table's own location is the registry itself, under the same names.
pub(super) fn is_own(table: &Registry<'_>) -> bool {
    table.location.is_empty() || table.location == prefix_of(table)
}

/// The rule for names at a location: the engine puts it in the place of the prefix. `None` where
/// names stay, or it cannot be said.
fn rewrite(location: &str, repositories: &str) -> Option<Rewrite> {
    let path = location.split_once('/').map_or("", |(_, path)| path);
    let path = path.trim_end_matches('/');
    if path == repositories {
        return None;
    }
    // Of what a repository's name consists of, only the dot means something else in an expression.
    let prefix = repositories.replace('.', "\\.");
    match path {
        "" => Rewrite::parse(&format!("^{prefix}(/|$)"), ""),
        path => Rewrite::parse(&format!("^{prefix}(/|$)"), &format!("{path}$1")),
    }
    .ok()
}

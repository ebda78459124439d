//! Tables for some repositories of a host, which become mirrors with a `prefix` in the host's own
//! entry.
//!
//! An engine goes by the one table with the longest prefix. A document has one entry for a host, so
//! it can say the same only where the tables do not meet: none is below another, the table of the
//! whole host has no mirrors of its own, and either all or none of them end at the registry itself.

use puller_config::{MAX_MIRRORS, RegistryHost, RegistryName, Rewrite, is_below};

use super::{Mirror, Registry, insecure, mirror_link, prefix_of};
use crate::registry_file::endpoint::{ApiPath, Endpoint};
use crate::registry_file::plan::Link;
use crate::registry_file::{Reader, Settings};

const TOO_MANY: &str = "a registry has at most eight mirrors";

/// The tables for some repositories of one host.
pub(super) struct Group<'r, 't> {
    pub(super) host: RegistryHost,
    /// The host as the first table has it.
    written: &'t str,
    tables: Vec<(&'t str, &'r Registry<'t>)>,
}

/// What they become.
pub(super) struct Mirrors {
    pub(super) links: Vec<Link>,
    /// Whether the registry itself is asked where they fail.
    pub(super) falls_back: bool,
    /// How it is reached.
    pub(super) own: Settings,
}

/// The host and the first segments of the names that a prefix is for.
fn split(prefix: &str) -> Option<(RegistryHost, &str)> {
    let (host, repositories) = prefix.split_once('/')?;
    let name = RegistryName::parse(prefix).ok()?;
    name.repositories()?;
    Some((RegistryHost::parse(host).ok()?, repositories))
}

/// The tables that are for some repositories, by host.
pub(super) fn groups<'r, 't>(registries: &'r [Registry<'t>]) -> Vec<Group<'r, 't>> {
    let mut groups: Vec<Group<'r, 't>> = Vec::new();
    for registry in registries {
        let Some((host, repositories)) = split(prefix_of(registry)) else {
            continue;
        };
        match groups.iter_mut().find(|group| group.host == host) {
            Some(group) => group.tables.push((repositories, registry)),
            None => groups.push(Group {
                host,
                written: prefix_of(registry).split('/').next().unwrap_or_default(),
                tables: vec![(repositories, registry)],
            }),
        }
    }
    groups
}

impl<'r, 't> Group<'r, 't> {
    /// The host's name in the document.
    pub(super) fn name(&self) -> String {
        self.written.to_owned()
    }

    /// Whether a table is one of these.
    pub(super) fn has(&self, registry: &Registry<'_>) -> bool {
        self.tables
            .iter()
            .any(|(_, known)| known.path == registry.path)
    }

    /// Why a document cannot say what these tables say, beside all others.
    ///
    /// # Errors
    ///
    /// The reason, as a fragment.
    pub(super) fn check(&self, registries: &[Registry<'_>]) -> Result<(), &'static str> {
        if self.tables.len() > MAX_MIRRORS {
            return Err(TOO_MANY);
        }
        let whole = self.whole(registries);
        if whole.is_some_and(|whole| whole.blocked || !whole.mirrors.is_empty() || !is_own(whole)) {
            return Err("the table of the whole host has other places or is blocked");
        }
        let name = self.host.name();
        let covers = |registry: &Registry<'_>| {
            let domain = prefix_of(registry).strip_prefix('*');
            domain.is_some_and(|domain| name.ends_with(domain))
        };
        if registries.iter().any(covers) {
            return Err("a table for a whole domain holds for the host's other repositories");
        }
        let with_port = |(_, table): &(&str, &Registry<'_>)| {
            let host = prefix_of(table).split('/').next();
            host.is_some_and(|host| host.ends_with(":443"))
        };
        if self.tables.iter().any(with_port) {
            return Err(
                "engines take \":443\" for another name than none, and a document does not",
            );
        }
        let mut places = 0;
        for (at, (repositories, table)) in self.tables.iter().enumerate() {
            let others = self
                .tables
                .iter()
                .enumerate()
                .filter(|(other, _)| *other != at);
            if others
                .into_iter()
                .any(|(_, (other, _))| is_below(repositories, other))
            {
                return Err("it is below the prefix of another table, which a mirror cannot leave");
            }
            if table.blocked {
                return Err("a document blocks whole hosts only");
            }
            if is_own(table) != is_own(self.tables[0].1) {
                return Err("only some of the host's tables end at the registry itself");
            }
            let own_insecure = whole.is_some_and(|whole| whole.insecure);
            if is_own(table) && table.insecure != own_insecure {
                return Err("the registry itself is reached in one way");
            }
            let own = (!is_own(table)).then_some(table.location);
            for location in table
                .mirrors
                .iter()
                .map(|mirror| mirror.location)
                .chain(own)
            {
                places += 1;
                if !self.is_elsewhere(location, repositories) {
                    return Err("one of its places cannot be said");
                }
            }
        }
        match places {
            ..=MAX_MIRRORS => Ok(()),
            _ => Err(TOO_MANY),
        }
    }

    /// The mirrors of tables that were checked. Findings about them go to the reader.
    pub(super) fn mirrors(
        &self,
        registries: &[Registry<'_>],
        reader: &mut Reader<'_, '_>,
    ) -> Mirrors {
        let mut links = Vec::new();
        for (repositories, table) in &self.tables {
            let own = (!is_own(table)).then(|| Mirror {
                line: table.line,
                path: format!("{}.location", table.path),
                location: table.location,
                insecure: table.insecure,
                pull_from_mirror: "",
            });
            for mirror in table.mirrors.iter().chain(&own) {
                let Some(mut link) = mirror_link(mirror, table.mirror_by_digest_only, reader)
                else {
                    continue;
                };
                link.rewrites = rewrite(mirror.location, repositories).into_iter().collect();
                link.prefix = Some((*repositories).to_owned());
                links.push(link);
            }
        }
        Mirrors {
            links,
            falls_back: is_own(self.tables[0].1),
            own: insecure(self.whole(registries).is_some_and(|whole| whole.insecure)),
        }
    }

    /// The table of the whole host.
    pub(super) fn whole<'a, 'b>(&self, registries: &'a [Registry<'b>]) -> Option<&'a Registry<'b>> {
        let is_whole = |registry: &&Registry<'_>| {
            RegistryHost::parse(prefix_of(registry)).is_ok_and(|host| host == self.host)
        };
        registries.iter().find(is_whole)
    }

    /// Whether a location can be said, and is another place than the registry's own.
    fn is_elsewhere(&self, location: &str, repositories: &str) -> bool {
        let (address, path) = location.split_once('/').unwrap_or((location, ""));
        let endpoint = Endpoint::parse(address, ApiPath::Below);
        let is_plain = !location.contains("://") && !location.contains('@');
        let is_own = path == repositories;
        is_plain
            && endpoint.is_ok_and(|endpoint| !is_own || endpoint.host != self.host)
            && (path == repositories || rewrite(location, repositories).is_some())
    }
}

/// Whether a table ends at the registry itself, under the same names.
fn is_own(table: &Registry<'_>) -> bool {
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

//! An entry in the making.

use registry_config::{
    MAX_MIRRORS, MAX_REPOSITORY_MIRRORS, Mirror, Registry, RegistryHost, RegistryName, Roots,
    is_below,
};

use super::endpoint::Endpoint;
use super::plan::{Link, Names, Plan, Target};
use super::{Entry, Report, forbidden};

/// The reason that stands in an entry's `ca-certs` where a file forbids it.
const BLOCKED: &str = "forbidden by the imported file";

/// The reason where no host is left to ask.
const NOBODY_LEFT: &str = "forbidden: the imported file has it asked where this document cannot";

/// The reason where one of them would be asked with other settings than the file's.
const UNUSABLE: &str = "forbidden: the settings that the imported file has for it cannot be used";

/// The reason where the registry itself is left, but none of the mirrors that are asked before it:
/// guests in a closed network, or with a proxy cache, are not meant to ask it.
const NO_MIRROR_LEFT: &str =
    "forbidden: the imported file has a mirror asked first that this document cannot say";

/// An entry in the making.
#[derive(Debug)]
pub(super) struct Draft {
    /// The host, where the name is that of one.
    pub(super) host: Option<RegistryHost>,
    pub(super) entry: Entry,
    pub(super) key: String,
    pub(super) mirrors: Vec<Link>,
}

impl Draft {
    pub(super) fn new(name: RegistryName, source: String, key: String, registry: Registry) -> Self {
        Self {
            host: name.host(),
            entry: Entry { name: shown_name(&name), source, registry, is_empty: false },
            key,
            mirrors: Vec::new(),
        }
    }

    /// The entry for a plan; `None` where its name is none, which is told.
    pub(super) fn of(plan: Plan, report: &mut Report) -> Option<Self> {
        let name = RegistryName::parse(&plan.name)
            .map_err(|rule| report.lost(&plan.source, &plan.key, format!("left out: {rule}")))
            .ok()?;
        if name.repositories().is_some() {
            let why = "left out: what it says holds for a whole host in a document".to_owned();
            report.lost(&plan.source, &plan.key, why);
            return None;
        }
        let mut draft = Self::new(name, plan.source, plan.key, Registry::default());
        if plan.is_blocked {
            draft.entry.registry.ca_certs = Some(Roots::nobody(BLOCKED));
        } else {
            draft.follow(plan.links, plan.falls_back, report);
            let blocked = plan.blocked.into_iter().map(Into::into);
            draft.entry.registry.blocked = blocked.collect();
        }
        Some(draft)
    }

    /// Takes the mirrors that are asked before the registry itself, and its own settings. A host
    /// with roots that trust nobody is not asked.
    fn follow(&mut self, links: Vec<Link>, falls_back: bool, report: &mut Report) {
        let mut own: Option<Registry> = None;
        let mut lost_mirror = false;
        let mut reason = NOBODY_LEFT;
        let is_alone = links.len() == 1;
        for mut link in links {
            if let Err(rule) = link.settings.credentials.check() {
                let text = format!("its credentials are left out: {rule}");
                report.lost(&self.entry.source, &link.key, text);
                link.settings = forbidden();
            }
            if link.settings.ca_certs.as_ref().is_some_and(Roots::trusts_nobody) {
                if !is_alone {
                    let text = "is not asked: its settings cannot be used";
                    report.lost(&self.entry.source, &link.key, text);
                }
                link.target = Target::Inexpressible;
                reason = UNUSABLE;
            }
            let is_own = match &link.target {
                Target::Registry => true,
                // Under other names, or for some repositories, it is a mirror of its own.
                Target::Address(endpoint) => link.names == Names::default() && self.is_at(endpoint),
                Target::Inexpressible | Target::PassedOver => {
                    let is_lost = matches!(link.target, Target::Inexpressible);
                    lost_mirror |= is_lost && own.is_none();
                    self.tell_credentials(&link.key, &link.settings, report);
                    continue;
                }
            };
            if let (true, Target::Address(endpoint)) = (is_own, &link.target) {
                link.settings.plain_http |= endpoint.is_http;
            }
            let why = match (is_own, &mut own) {
                (true, None) => {
                    own = Some(link.settings);
                    continue;
                }
                (true, Some(own)) => {
                    own.plain_http |= link.settings.plain_http;
                    link.settings.plain_http = own.plain_http;
                    if *own == link.settings {
                        continue;
                    }
                    "the registry itself is reached in one way, the first one that the file has"
                }
                (false, None) if self.mirrors.len() == MAX_MIRRORS => {
                    "a registry has at most 256 mirrors, the first that the file has"
                }
                (false, None) if self.is_crowded(&link) => {
                    "a repository has at most eight mirrors, the first that the file has"
                }
                (false, None) => {
                    self.mirrors.push(link);
                    continue;
                }
                (false, Some(_)) => "a mirror is asked before the registry itself, never after it",
            };
            report.lost(&self.entry.source, &link.key, format!("left out: {why}"));
            self.tell_credentials(&link.key, &link.settings, report);
        }
        let falls_back = falls_back && own.is_some() && !self.mirrors.is_empty();
        match own {
            Some(settings) if lost_mirror && self.mirrors.is_empty() => {
                self.tell_credentials(&self.key, &settings, report);
                self.forbid(NO_MIRROR_LEFT, report);
            }
            Some(settings) => self.entry.registry = settings,
            None if self.mirrors.is_empty() => self.forbid(reason, report),
            None => self.entry.registry = self.settings_as_mirror(),
        }
        self.entry.registry.mirror_fallback = falls_back;
        self.write_mirrors();
    }

    /// Whether repositories would have too many mirrors with one more.
    fn is_crowded(&self, link: &Link) -> bool {
        let prefixes =
            || self.mirrors.iter().chain([link]).map(|link| link.names.prefix.as_deref());
        let holds = |of: Option<&str>, wide: Option<&str>| {
            wide.is_none_or(|wide| of.is_some_and(|of| is_below(of, wide)))
        };
        let count = |of| prefixes().filter(|wide| holds(of, *wide)).count();
        prefixes().any(|of| count(of) > MAX_REPOSITORY_MIRRORS)
    }

    /// Whether an address is the registry's own.
    fn is_at(&self, endpoint: &Endpoint) -> bool {
        endpoint.prefix.is_empty() && self.host.as_ref() == Some(&endpoint.host)
    }

    /// How the host is reached that is the registry's own, though under other names: a host has one
    /// entry, which holds for both.
    fn settings_as_mirror(&self) -> Registry {
        let own = self.mirrors.iter().find_map(|link| match &link.target {
            Target::Address(endpoint) if self.host.as_ref() == Some(&endpoint.host) => {
                let mut settings = link.settings.clone();
                settings.plain_http |= endpoint.is_http;
                Some(settings)
            }
            _ => None,
        });
        own.unwrap_or_default()
    }

    fn forbid(&mut self, reason: &'static str, report: &mut Report) {
        let ca_certs = Some(Roots::nobody(reason));
        self.entry.registry = Registry { ca_certs, ..Registry::default() };
        let text = format!("{} is {reason}", self.entry.name.written());
        report.lost(&self.entry.source, &self.key, text);
    }

    /// Says that something was left out with its credentials, if it has any.
    fn tell_credentials(&self, key: &str, settings: &Registry, report: &mut Report) {
        if !settings.credentials.is_anonymous() {
            let text = "its credentials are left out with it";
            report.lost(&self.entry.source, key, text);
        }
    }

    fn write_mirrors(&mut self) {
        self.entry.registry.mirrors = self.mirrors.iter().filter_map(Link::mirror).collect();
    }

    /// Removes the mirrors at these places. Without one there may be no host left to ask.
    pub(super) fn drop_mirrors(&mut self, places: &[usize], report: &mut Report) {
        let falls_back = self.entry.registry.mirror_fallback;
        for at in places.iter().rev() {
            let link = self.mirrors.remove(*at);
            self.tell_credentials(&link.key, &link.settings, report);
            let has_same = self.mirrors.iter().any(|other| other.names.prefix == link.names.prefix);
            // Without it, its repositories would be asked for at the registry itself.
            if let (Some(prefix), false) = (&link.names.prefix, has_same)
                && !link.fallback.unwrap_or(falls_back)
            {
                let text = format!("nobody is asked for {prefix}, which has no other mirror");
                report.lost(&self.entry.source, &link.key, text);
                self.entry.registry.blocked.push(prefix.as_str().into());
            }
        }
        self.write_mirrors();
        if places.is_empty() || !self.mirrors.is_empty() {
            return;
        }
        self.forbid(if falls_back { NO_MIRROR_LEFT } else { NOBODY_LEFT }, report);
    }

    /// Whether both hold for the same hosts.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        self.entry.name == other.entry.name || self.host.is_some() && self.host == other.host
    }

    /// Whether nothing may be pulled.
    pub(super) fn is_forbidden(&self) -> bool {
        self.entry.registry.ca_certs.as_ref().is_some_and(Roots::trusts_nobody)
    }

    /// Whether something in the entry would be lent to a mirror without an entry of its own.
    pub(super) fn lends(&self) -> bool {
        let Registry { credentials, ca_certs, plain_http, .. } = &self.entry.registry;
        !credentials.is_anonymous() || ca_certs.is_some() || *plain_http
    }
}

impl Link {
    fn mirror(&self) -> Option<Mirror> {
        match &self.target {
            // Its reader has told of an address that is none.
            Target::Address(endpoint) => {
                let Names { prefix, name } = &self.names;
                let (prefix, name) = (prefix.as_deref(), name.as_deref());
                Mirror::new(&endpoint.url(), prefix, name, self.fallback).ok()
            }
            Target::Registry | Target::Inexpressible | Target::PassedOver => None,
        }
    }
}

/// A name as people write it, without the dot at a domain's end.
fn shown_name(name: &RegistryName) -> RegistryName {
    let text = name.to_string();
    let shorter = text.strip_suffix('.').map(RegistryName::parse);
    shorter.and_then(Result::ok).unwrap_or_else(|| name.normal())
}

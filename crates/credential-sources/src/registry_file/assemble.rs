//! Plans become entries: one mirror for a registry, one entry for a host.

use puller_config::{RegistryHost, RegistryName};

use super::endpoint::Endpoint;
use super::mirror_entry::{Holder, mirror_entry};
use super::plan::{Link, Plan, Target};
use super::{Entry, Import, Report, Roots, Settings};

/// The reason that stands in an entry's `ca-certs` where a file forbids it.
const BLOCKED: &str = "forbidden by the imported file";

/// The reason where nobody is left to ask.
const NOBODY_LEFT: &str = "forbidden: the imported file has it asked where this document cannot";

/// An entry in the making.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) name: RegistryName,
    /// The host, where the name is that of one.
    pub(super) host: Option<RegistryHost>,
    pub(super) entry: Entry,
    pub(super) key: String,
    pub(super) mirror: Option<Link>,
}

/// Makes the entries of all plans. Of two plans for the same hosts the first one counts.
pub(crate) fn assemble(plans: Vec<Plan>, mut report: Report) -> Import {
    let mut drafts: Vec<Draft> = Vec::new();
    for plan in plans {
        let Some(draft) = Draft::of(plan, &mut report) else {
            continue;
        };
        match drafts.iter().find(|known| known.is_same(&draft)) {
            Some(known) => report.lost(
                &draft.entry.source,
                &draft.key,
                format!(
                    "left out: {} is already said to be reached otherwise, by {}",
                    draft.entry.name, known.entry.source
                ),
            ),
            None => drafts.push(draft),
        }
    }
    // Exactly what would hold the mirrors: entries of files first, then those that mirrors need.
    let mut mirrors: Vec<Draft> = Vec::new();
    for index in 0..drafts.len() {
        if let Some(mirror) = mirror_entry(index, &drafts, &mirrors, &mut report) {
            match mirror {
                Holder::New(draft) => mirrors.push(*draft),
                Holder::Known => {}
                Holder::Refused => drafts[index].drop_mirror(&mut report),
            }
        }
    }
    drafts.extend(mirrors);
    drafts.sort_by(|one, other| one.name.cmp(&other.name));
    let Report {
        findings,
        faults,
        unlisted,
        ..
    } = report;
    Import {
        entries: drafts.into_iter().map(|draft| draft.entry).collect(),
        findings,
        faults,
        unlisted,
    }
}

impl Draft {
    fn of(plan: Plan, report: &mut Report) -> Option<Self> {
        let Plan {
            name,
            source,
            key,
            links,
            is_blocked,
        } = plan;
        let name = RegistryName::parse(&name)
            .map_err(|rule| report.lost(&source, &key, format!("left out: {rule}")))
            .ok()?;
        // The host of a literal name is its normal form, without the domain's dot.
        let host = RegistryHost::parse(&name.to_string()).ok();
        let mut draft = Self {
            entry: Entry {
                name: shown_name(&name),
                source,
                settings: Settings::default(),
                mirror: None,
                mirror_fallback: false,
            },
            name,
            host,
            key,
            mirror: None,
        };
        if is_blocked {
            draft.entry.settings.roots = Some(Roots::Nobody(BLOCKED));
        } else {
            draft.follow(links, report);
        }
        Some(draft)
    }

    /// Takes the first mirror, and the registry's own settings.
    fn follow(&mut self, links: Vec<Link>, report: &mut Report) {
        let mut own: Option<Settings> = None;
        for mut link in links {
            let is_own = match &link.target {
                Target::Registry => true,
                Target::Address(endpoint) => self.is_at(endpoint),
                Target::Inexpressible => continue,
            };
            if let (true, Target::Address(endpoint)) = (is_own, &link.target) {
                link.settings.plain_http |= endpoint.is_http;
            }
            let source = &self.entry.source;
            match (is_own, &mut own) {
                (true, None) => own = Some(link.settings),
                (true, Some(own)) => {
                    own.plain_http |= link.settings.plain_http;
                    link.settings.plain_http = own.plain_http;
                    if *own != link.settings {
                        report.lost(
                            source,
                            &link.key,
                            "left out: the registry itself is reached \
                        in one way, the first one that the file has",
                        );
                    }
                }
                (false, None) if self.mirror.is_none() => self.mirror = Some(link),
                (false, None) => {
                    report.lost(
                        source,
                        &link.key,
                        "left out: the document has one mirror for a \
                    registry, the first one that the file has",
                    );
                }
                (false, Some(_)) => {
                    report.lost(
                        source,
                        &link.key,
                        "left out: a mirror is asked before the registry itself, never after it",
                    );
                }
            }
        }
        self.entry.mirror_fallback = own.is_some() && self.mirror.is_some();
        match own {
            Some(settings) => self.entry.settings = settings,
            None if self.mirror.is_none() => self.forbid(report),
            None => {}
        }
        self.entry.mirror = self.mirror.as_ref().and_then(Link::url);
    }

    /// Whether an address is the registry's own.
    fn is_at(&self, endpoint: &Endpoint) -> bool {
        endpoint.prefix.is_empty() && self.host.as_ref() == Some(&endpoint.host)
    }

    fn forbid(&mut self, report: &mut Report) {
        self.entry.settings = Settings {
            roots: Some(Roots::Nobody(NOBODY_LEFT)),
            ..Settings::default()
        };
        let text = format!(
            "{} is forbidden: the file has it asked only where the document cannot",
            self.entry.name
        );
        report.lost(&self.entry.source, &self.key, text);
    }

    fn drop_mirror(&mut self, report: &mut Report) {
        self.mirror = None;
        self.entry.mirror = None;
        if !std::mem::take(&mut self.entry.mirror_fallback) {
            self.forbid(report);
        }
    }

    /// Whether both hold for the same hosts.
    fn is_same(&self, other: &Self) -> bool {
        self.name == other.name || self.host.is_some() && self.host == other.host
    }

    /// Whether nothing may be pulled.
    pub(super) fn is_forbidden(&self) -> bool {
        matches!(self.entry.settings.roots, Some(Roots::Nobody(_)))
    }

    /// Whether something in the entry would be lent to a mirror without an entry of its own.
    pub(super) fn lends(&self) -> bool {
        let settings = &self.entry.settings;
        settings.credentials.is_some() || settings.roots.is_some() || settings.plain_http
    }
}

impl Link {
    fn url(&self) -> Option<String> {
        match &self.target {
            Target::Address(endpoint) => Some(endpoint.url()),
            Target::Registry | Target::Inexpressible => None,
        }
    }
}

/// A name as people write it, without the dot at a domain's end.
pub(super) fn shown_name(name: &RegistryName) -> String {
    let text = name.to_string();
    match text.strip_suffix('.') {
        Some(shorter) if !shorter.is_empty() => shorter.to_owned(),
        _ => text,
    }
}

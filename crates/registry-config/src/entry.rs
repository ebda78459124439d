//! The `[registries."NAME"]` tables, read.

use std::collections::BTreeMap;
use std::net::IpAddr;

use foreign_text::toml::Field;

use crate::credential_keys::{Account, reference};
use crate::limits::{MAX_ADDRESSES, MAX_ALSO, MAX_REGISTRIES};
use crate::mirror_keys::{self, MIRROR, MIRRORS};
use crate::problem::{Origin, Place};
use crate::section::Section;
use crate::{ClientIdentity, Effect, Registries, Registry, RegistryName, Roots, Rule};

/// Reads the whole table of registries; what is broken is reported and missing.
pub(crate) fn read_all(mut section: Section<'_, '_>) -> Registries {
    let findings = section.findings;
    if section.len() > MAX_REGISTRIES {
        section.problem("", Rule::TooManyRegistries);
        return Registries::default();
    }
    let mut entries: BTreeMap<RegistryName, (Registry, Entry<'_, '_>)> = BTreeMap::new();
    for field in section.rest() {
        let Some(mut section) = Section::of(&field, findings) else { continue };
        let name = RegistryName::parse(field.key);
        let is_repositories = name.as_ref().is_ok_and(|name| name.repositories().is_some());
        let (registry, mirrors, literal) = read(&mut section, is_repositories);
        let Some(name) = section.kept("", name) else { continue };
        section.needs("addresses", name.is_domain(), Rule::AddressesOfManyHosts);
        let first = entries.get(&name).and_then(|(_, first)| first.section.at(""));
        if let Some(Place { line, key: first }) = first {
            section.problem("", Rule::DuplicateName { first, line });
        } else {
            let line = section.at("").map(|place| place.line);
            findings.lines.borrow_mut().extend(line.map(|line| (name.clone(), line)));
            entries.insert(name, (registry, Entry { section, mirrors, literal }));
        }
    }
    let read = entries.into_iter().map(|(name, (registry, entry))| {
        entry.warn(registry.effects(&name, findings.origin));
        ((name, registry), entry)
    });
    let (registries, entries): (BTreeMap<_, _>, Vec<_>) = read.unzip();
    let registries = Registries(registries);
    for (of, entry) in registries.iter().zip(entries) {
        for (at, rule) in registries.mirror_problems(of, findings.origin) {
            // One place for each mirror.
            findings.problem(&entry.mirrors[at], rule);
        }
        for effect in registries.effects_of_host(of) {
            entry.section.warn("", effect);
        }
    }
    registries
}

/// What findings about an entry concern.
struct Entry<'t, 'i> {
    section: Section<'t, 'i>,
    mirrors: Vec<Place>,
    literal: Option<Place>,
}

impl Entry<'_, '_> {
    /// Reports what the author of a legal entry may not have meant.
    fn warn(&self, effects: Vec<(&str, Effect)>) {
        let Self { section, mirrors, literal } = self;
        for (key, effect) in effects {
            let place = match key {
                "mirror" => mirrors.first().cloned(),
                "ca-certs" => section.at(key).or_else(|| section.at("ca-certs-uri")),
                _ => section.at(key),
            };
            if let Some(place) = place.or_else(|| section.at("")) {
                section.findings.warning(place, effect);
            }
        }
        if let (Origin::Measured, Some(place)) = (section.findings.origin, literal) {
            section.findings.warning(place, Effect::Published);
        }
    }
}

/// Reads a table to its end; what is broken is reported and left at its default. Also returns where
/// its mirrors are, and a credential that stands in the document itself.
///
/// An entry for repositories says who the puller is and nothing else: the way to a host is one for
/// all of its repositories.
pub(crate) fn read(
    section: &mut Section<'_, '_>,
    is_repositories: bool,
) -> (Registry, Vec<Place>, Option<Place>) {
    let (mut registry, mut literal) = read_who(section);
    if is_repositories {
        section.close(Rule::KeyOfHost);
    }
    let mirrors = read_way(section, &mut registry);
    // The client certificate says who the puller is to the host.
    if section.has("client-cert")
        && let Some(place) = section.at("client-key")
    {
        literal.get_or_insert(place);
    }
    section.refuse_rest((!is_repositories).then_some(Rule::UnquotedName));
    (registry, mirrors, literal)
}

/// Reads who the puller is.
fn read_who(section: &mut Section<'_, '_>) -> (Registry, Option<Place>) {
    let Account { credentials, reference, mut literal } = Account::read(section);
    let mut registry = Registry { credentials, credentials_uri: reference, ..Registry::default() };
    let is_referred = registry.credentials_uri.is_some();
    registry.credentials_optional = section.flag("credentials-optional");
    section.needs("credentials-optional", is_referred, Rule::OptionalWithoutReference);
    let accounts = section.tables("also");
    if accounts.len() > MAX_ALSO {
        section.problem("also", Rule::TooManyAccounts);
    } else {
        section.needs("also", !is_referred, Rule::AlsoBesideReference);
        section.needs("also", is_referred || literal.is_some(), Rule::AlsoAlone);
        for mut section in accounts {
            let account = Account::read(&mut section);
            section.refuse_rest(None);
            if account.reference.is_some() {
                section.problem("", Rule::ReferenceInAlso);
            } else {
                section.needs("", account.literal.is_some(), Rule::EmptyAlso);
            }
            literal = literal.or(account.literal);
            registry.also.push(account.credentials);
        }
    }
    registry.wants_anonymous = section.flag("anonymous");
    if section.is_owners("anonymous", Rule::AnonymousOfHost) && registry.wants_anonymous {
        let is_alone = !is_referred && literal.is_none();
        section.needs("anonymous", is_alone, Rule::AnonymousBesideCredentials);
    }
    (registry, literal)
}

/// Reads how the host is reached. Returns where the mirrors are.
fn read_way(section: &mut Section<'_, '_>, registry: &mut Registry) -> Vec<Place> {
    registry.client = ClientIdentity::read(section);
    if registry.wants_anonymous && section.has("client-cert") {
        section.problem("client-key", Rule::AnonymousBesideCredentials);
    }
    registry.ca_certs = Roots::read("ca-certs", section);
    let is_beside_web = section.flag("web-roots");
    match &mut registry.ca_certs {
        Some(roots) if !roots.trusts_nobody() => roots.is_beside_web = is_beside_web,
        // What is wrong with them is told.
        None if section.has("ca-certs") => {}
        _ => section.problem("web-roots", Rule::WebRootsAlone),
    }
    registry.ca_certs_uri = reference("ca-certs-uri", section);
    section.needs("ca-certs-uri", !section.has("ca-certs"), Rule::RootsTwice);
    let (mirrors, blocked) = mirror_keys::read(section);
    let (places, mirrors) = mirrors.into_iter().unzip();
    registry.mirrors = mirrors;
    registry.blocked = blocked;
    registry.insecure_skip_verify = section.flag("insecure-skip-verify");
    registry.plain_http = section.flag("plain-http");
    registry.addresses = section.read("addresses", addresses).unwrap_or_default();
    registry.mirror_fallback = section.flag("mirror-fallback");
    let has_mirror = section.has(MIRROR) || section.has(MIRRORS);
    section.needs("mirror-fallback", has_mirror, Rule::FallbackWithoutMirror);
    places
}

/// Reads where a host is.
fn addresses(field: &Field<'_, '_>) -> Result<Vec<IpAddr>, Rule> {
    let items = field.items()?;
    let all: Option<Vec<_>> = items.iter().map(|item| item.text().ok()?.parse().ok()).collect();
    all.filter(|all| (1..=MAX_ADDRESSES).contains(&all.len())).ok_or(Rule::Addresses)
}

//! The `[registries."NAME"]` tables, read.

use std::collections::BTreeMap;

use crate::access::{ALSO, ANONYMOUS, Access};
use crate::client_identity;
use crate::credential_keys::take_reference;
use crate::limits::MAX_REGISTRIES;
use crate::mirror_keys::{MIRRORS, MirrorKeys, REWRITE};
use crate::problem::{Findings, Origin, Place};
use crate::section::{Field, Section};
use crate::{ClientIdentity, Effect, Registries, Registry, RegistryName, Roots, Rule};

/// The keys of an entry, for suggestions.
pub(crate) const KEYS: [&str; 20] = [
    "username",
    "password",
    "auth",
    "identitytoken",
    "registrytoken",
    "credentials-uri",
    "credentials-optional",
    ANONYMOUS,
    ALSO,
    // What follows is the host's, and never in an entry for repositories.
    "ca-certs",
    "ca-certs-uri",
    "web-roots",
    "insecure-skip-verify",
    "plain-http",
    client_identity::CERTIFICATE,
    client_identity::KEY,
    "mirror",
    MIRRORS,
    REWRITE,
    "mirror-fallback",
];

/// The keys that say who the puller is, before those of the host in [`KEYS`].
const CREDENTIAL_KEYS: usize = 9;

/// Reads the whole table of registries; what is broken is reported and missing.
pub(crate) fn read_all(
    section: Section<'_, '_>,
    origin: Origin,
    findings: &mut Findings,
) -> Registries {
    if section.len() > MAX_REGISTRIES {
        findings.problem(section.place(), Rule::TooManyRegistries);
        return Registries::default();
    }
    let mut entries: BTreeMap<RegistryName, Entry> = BTreeMap::new();
    for (key, section) in section.into_tables(findings) {
        let name = RegistryName::parse(key);
        let is_repositories = name.as_ref().is_ok_and(|name| name.repositories().is_some());
        let entry = if is_repositories {
            Entry::read_credentials(section, origin, findings)
        } else {
            Entry::read(section, origin, findings)
        };
        match name {
            Err(rule) => findings.problem(&entry.place, rule),
            Ok(name) => {
                if let Some(first) = entries.get(&name).map(|first| &first.place) {
                    let rule = Rule::DuplicateName { first: first.key.clone(), line: first.line };
                    findings.problem(&entry.place, rule);
                } else {
                    entries.insert(name, entry);
                }
            }
        }
    }
    let mut places = Vec::with_capacity(entries.len());
    for (name, entry) in &mut entries {
        entry.warn(name, origin, findings);
        places.push((entry.place.clone(), std::mem::take(&mut entry.mirror_places)));
    }
    let registries =
        Registries(entries.into_iter().map(|(name, entry)| (name, entry.registry)).collect());
    for (entry, (place, mirrors)) in registries.iter().zip(places) {
        for (at, rule) in registries.mirror_problems(entry, origin) {
            findings.problem(mirrors.get(at).unwrap_or(&place), rule);
        }
        for effect in registries.effects_of_host(entry) {
            findings.warning(&place, effect);
        }
    }
    registries
}

/// An entry with the places that findings about it concern.
#[derive(Debug)]
pub(crate) struct Entry {
    pub(crate) registry: Registry,
    /// The entry itself.
    pub(crate) place: Place,
    /// Its mirrors.
    pub(crate) mirror_places: Vec<Place>,
    /// Its roots, or where it gets them.
    roots_place: Option<Place>,
    skip_verify_place: Option<Place>,
    plain_http_place: Option<Place>,
    /// The credentials that stand in the document itself, secrets first.
    literal_places: Vec<Place>,
}

impl Entry {
    /// Reads a table to its end; what is broken is reported and left at its default.
    pub(crate) fn read(
        mut section: Section<'_, '_>,
        origin: Origin,
        findings: &mut Findings,
    ) -> Self {
        let place = section.place().clone();
        let Access { mut registry, mut literal_places } =
            Access::take(&mut section, origin, findings);
        let (client_place, client) = ClientIdentity::take(&mut section, findings);
        if let (true, Some(place)) = (registry.wants_anonymous, &client_place) {
            findings.problem(place, Rule::AnonymousBesideCredentials);
        }
        registry.client = client;
        literal_places.extend(client_place);
        let (roots_place, mut ca_certs) = split(Roots::take("ca-certs", &mut section, findings));
        take_web_roots(&mut section, ca_certs.as_mut(), findings);
        let roots_uri = take_reference("ca-certs-uri", &mut section, origin, findings);
        let (roots_uri_place, ca_certs_uri) = split(roots_uri);
        if let (Some(place), Some(_)) = (&roots_uri_place, &roots_place) {
            findings.problem(place, Rule::RootsTwice);
        }
        let mirrors = MirrorKeys::take(&mut section, findings);
        let (skip_verify_place, skip_verify) =
            split(section.take_bool("insecure-skip-verify", findings));
        let (plain_http_place, plain_http) = split(section.take_bool("plain-http", findings));
        let (fallback_place, mirror_fallback) =
            split(section.take_bool("mirror-fallback", findings));
        if let (Some(place), None) = (fallback_place, &mirrors.place) {
            findings.problem(&place, Rule::FallbackWithoutMirror);
        }
        section.refuse_rest(&KEYS, &Rule::UnquotedName, findings);
        registry.ca_certs = ca_certs.flatten();
        registry.ca_certs_uri = ca_certs_uri.flatten();
        registry.insecure_skip_verify = skip_verify.unwrap_or_default();
        registry.plain_http = plain_http.unwrap_or_default();
        let (mirror_places, mirrors) = mirrors.mirrors.into_iter().unzip();
        registry.mirrors = mirrors;
        registry.mirror_fallback = mirror_fallback.unwrap_or_default();
        Self {
            registry,
            place,
            mirror_places,
            roots_place: roots_place.or(roots_uri_place),
            skip_verify_place,
            plain_http_place,
            literal_places,
        }
    }

    /// Reads an entry for repositories, which says who the puller is and nothing else: the way to a
    /// host is one for all of its repositories.
    fn read_credentials(
        mut section: Section<'_, '_>,
        origin: Origin,
        findings: &mut Findings,
    ) -> Self {
        let place = section.place().clone();
        let Access { registry, literal_places } = Access::take(&mut section, origin, findings);
        for key in &KEYS[CREDENTIAL_KEYS..] {
            if let Some(Field { place, .. }) = section.take(key) {
                findings.problem(&place, Rule::KeyOfHost);
            }
        }
        let unknown = Rule::UnknownKey { suggestion: None };
        section.refuse_rest(&KEYS[..CREDENTIAL_KEYS], &unknown, findings);
        Self {
            registry,
            place,
            mirror_places: Vec::new(),
            roots_place: None,
            skip_verify_place: None,
            plain_http_place: None,
            literal_places,
        }
    }

    /// Reports what the author of a legal entry may not have meant.
    fn warn(&self, name: &RegistryName, origin: Origin, findings: &mut Findings) {
        for (key, effect) in self.registry.effects(name, origin) {
            let place = match key {
                "mirror" => self.mirror_places.first(),
                "ca-certs" => self.roots_place.as_ref(),
                "insecure-skip-verify" => self.skip_verify_place.as_ref(),
                "plain-http" => self.plain_http_place.as_ref(),
                _ => Some(&self.place),
            };
            findings.warning(place.unwrap_or(&self.place), effect);
        }
        if let (Origin::Measured, Some(place)) = (origin, self.literal_places.first()) {
            findings.warning(place, Effect::Published);
        }
    }
}

/// The place and the value of a field.
fn split<T>(field: Option<Field<T>>) -> (Option<Place>, Option<T>) {
    field.map(|Field { place, value }| (place, value)).unzip()
}

/// Takes `web-roots`, which says something of roots that are there.
fn take_web_roots(
    section: &mut Section<'_, '_>,
    roots: Option<&mut Option<Roots>>,
    findings: &mut Findings,
) {
    let Some(Field { place, value }) = section.take_bool("web-roots", findings) else {
        return;
    };
    match roots {
        // What is wrong with them is told.
        Some(None) => {}
        Some(Some(roots)) if !roots.trusts_nobody() => roots.is_beside_web = value,
        _ => findings.problem(&place, Rule::WebRootsAlone),
    }
}

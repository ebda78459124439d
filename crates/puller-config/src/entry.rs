//! The `[registries."NAME"]` tables, read.

use std::collections::BTreeMap;

use crate::credential_keys::{CredentialKeys, Identity, take_reference};
use crate::limits::MAX_REGISTRIES;
use crate::problem::{Findings, Origin, Place};
use crate::section::{Field, Section};
use crate::{Effect, Mirror, Registries, Registry, RegistryName, Roots, Rule};

/// The keys of an entry, for suggestions.
pub(crate) const KEYS: [&str; 14] = [
    "username",
    "password",
    "auth",
    "identitytoken",
    "registrytoken",
    "credentials-uri",
    "credentials-optional",
    "ca-certs",
    "ca-certs-uri",
    "web-roots",
    "insecure-skip-verify",
    "plain-http",
    "mirror",
    "mirror-fallback",
];

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
        let entry = Entry::read(section, origin, findings);
        match name {
            Err(rule) => findings.problem(&entry.place, rule),
            Ok(name) => {
                if let Some(first) = entries.get(&name).map(|first| &first.place) {
                    let rule = Rule::DuplicateName {
                        first: first.key.clone(),
                        line: first.line,
                    };
                    findings.problem(&entry.place, rule);
                } else {
                    entries.insert(name, entry);
                }
            }
        }
    }
    let mut mirrors = Vec::with_capacity(entries.len());
    for (name, entry) in &mut entries {
        entry.warn(name, origin, findings);
        mirrors.push(entry.mirror_place.take());
    }
    let registries = Registries(
        entries
            .into_iter()
            .map(|(name, entry)| (name, entry.registry))
            .collect(),
    );
    for (entry, place) in registries.iter().zip(mirrors) {
        if let (Some(place), Some(rule)) = (place, registries.mirror_problem(entry, origin)) {
            findings.problem(&place, rule);
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
    /// Its mirror.
    pub(crate) mirror_place: Option<Place>,
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
        let keys = CredentialKeys::take(&mut section, origin, findings);
        let identity = keys.into_identity(findings);
        let Identity {
            credentials,
            reference: credentials_uri,
            literal_places,
        } = identity;
        let credentials_optional = section.take_bool("credentials-optional", findings);
        if let (Some(Field { place, .. }), None) = (&credentials_optional, &credentials_uri) {
            findings.problem(place, Rule::OptionalWithoutReference);
        }
        let (roots_place, mut ca_certs) = split(Roots::take("ca-certs", &mut section, findings));
        take_web_roots(&mut section, ca_certs.as_mut(), findings);
        let roots_uri = take_reference("ca-certs-uri", &mut section, origin, findings);
        let (roots_uri_place, ca_certs_uri) = split(roots_uri);
        if let (Some(place), Some(_)) = (&roots_uri_place, &roots_place) {
            findings.problem(place, Rule::RootsTwice);
        }
        let (mirror_place, mirror) = split(take_mirror(&mut section, findings));
        let (skip_verify_place, skip_verify) =
            split(section.take_bool("insecure-skip-verify", findings));
        let (plain_http_place, plain_http) = split(section.take_bool("plain-http", findings));
        let (fallback_place, mirror_fallback) =
            split(section.take_bool("mirror-fallback", findings));
        if let (Some(place), None) = (fallback_place, &mirror_place) {
            findings.problem(&place, Rule::FallbackWithoutMirror);
        }
        section.refuse_rest(&KEYS, &Rule::UnquotedName, findings);
        let registry = Registry {
            credentials,
            credentials_uri,
            credentials_optional: credentials_optional.is_some_and(|field| field.value),
            ca_certs: ca_certs.flatten(),
            ca_certs_uri: ca_certs_uri.flatten(),
            insecure_skip_verify: skip_verify.unwrap_or_default(),
            plain_http: plain_http.unwrap_or_default(),
            mirror: mirror.flatten(),
            mirror_fallback: mirror_fallback.unwrap_or_default(),
        };
        Self {
            registry,
            place,
            mirror_place,
            roots_place: roots_place.or(roots_uri_place),
            skip_verify_place,
            plain_http_place,
            literal_places,
        }
    }

    /// Reports what the author of a legal entry may not have meant.
    fn warn(&self, name: &RegistryName, origin: Origin, findings: &mut Findings) {
        for (key, effect) in self.registry.effects(name, origin) {
            let place = match key {
                "mirror" => self.mirror_place.as_ref(),
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

fn take_mirror(
    section: &mut Section<'_, '_>,
    findings: &mut Findings,
) -> Option<Field<Option<Mirror>>> {
    let Field { place, value } = section.take_string("mirror", findings)?;
    let value = value.and_then(|text| {
        Mirror::parse(&text)
            .map_err(|rule| findings.problem(&place, rule))
            .ok()
    });
    Some(Field { place, value })
}

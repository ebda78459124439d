//! The entry that holds for a mirror's own host: one that is there, or one that has to be made.

use puller_config::{RegistryHost, RegistryName};

use super::assemble::{Draft, shown_name};
use super::endpoint::Endpoint;
use super::plan::Target;
use super::{Entry, Report, Settings};

/// Which entry holds for a mirror.
pub(super) enum Holder {
    /// One that is there, or none, which is as good.
    Known,
    /// This one, which is missing.
    New(Box<Draft>),
    /// One that is there and does not let it be asked.
    Refused,
}

/// The entry for the mirror of a draft, `None` where there is no mirror.
///
/// It is needed even if it says nothing, so that the registry's own credentials are not lent to the
/// mirror.
pub(super) fn mirror_entry(
    index: usize,
    drafts: &[Draft],
    mirrors: &[Draft],
    report: &mut Report,
) -> Option<Holder> {
    let draft = &drafts[index];
    let link = draft.mirror.as_ref()?;
    let Target::Address(endpoint) = &link.target else {
        return None;
    };
    let mut settings = link.settings.clone();
    settings.plain_http |= endpoint.is_http;
    let (source, key) = (&draft.entry.source, &link.key);
    let host = Some(&endpoint.host);
    let named = |known: &&Draft| known.host.as_ref() == host;
    if let Some(known) = drafts.iter().chain(mirrors).find(named) {
        return Some(known_holder(
            known,
            endpoint,
            &settings,
            (source, key),
            report,
        ));
    }
    // A literal without a port would hold for the mirror, other names would not.
    let covering = drafts.iter().find(|known| covers(known, endpoint));
    if settings.is_default() && !draft.lends() && covering.is_none() {
        return Some(Holder::Known);
    }
    let wider = covering.or_else(|| drafts.iter().find(|known| holds_for(known, endpoint)));
    if let Some(wider) = wider {
        if wider.is_forbidden() {
            report.lost(source, key, forbidden_by(wider));
            return Some(Holder::Refused);
        }
        let text = format!(
            "images of {} itself are pulled with these settings too, no longer with those of {}",
            endpoint.name(),
            wider.entry.name
        );
        report.lost(source, key, text);
    }
    let name = RegistryName::parse(&endpoint.name()).ok()?;
    Some(Holder::New(Box::new(Draft {
        entry: Entry {
            name: shown_name(&name),
            source: source.clone(),
            settings,
            mirror: None,
            mirror_fallback: false,
        },
        host: RegistryHost::parse(&name.to_string()).ok(),
        name,
        key: link.key.clone(),
        mirror: None,
    })))
}

/// What an entry of the mirror's own host means for the mirror.
fn known_holder(
    known: &Draft,
    endpoint: &Endpoint,
    settings: &Settings,
    (source, key): (&str, &str),
    report: &mut Report,
) -> Holder {
    if known.is_forbidden() {
        report.lost(source, key, forbidden_by(known));
        return Holder::Refused;
    }
    if endpoint.is_http && !known.entry.settings.plain_http {
        let text = format!(
            "left out: it is asked over plain HTTP, but {} says that its host is not",
            known.entry.source
        );
        report.lost(source, key, text);
        return Holder::Refused;
    }
    if known.entry.settings != *settings {
        let text = format!(
            "its settings are those of {}: a host has one entry",
            known.entry.source
        );
        report.lost(source, key, text);
    }
    Holder::Known
}

/// Why a mirror is not asked: an entry that lets it be would let images of its host be pulled.
fn forbidden_by(known: &Draft) -> String {
    format!(
        "left out: images of its host are forbidden, by {}",
        known.entry.name
    )
}

/// Whether an entry is a literal without a port for the mirror's host.
fn covers(known: &Draft, endpoint: &Endpoint) -> bool {
    known
        .host
        .as_ref()
        .is_some_and(|host| host.port().is_none() && host.name() == endpoint.host.name())
}

/// Whether a suffix or `.` holds for the mirror's host.
fn holds_for(known: &Draft, endpoint: &Endpoint) -> bool {
    if known.host.is_some() {
        return false;
    }
    let below = known.name.to_string();
    known.name.is_any() || format!("{}.", endpoint.host.name()).ends_with(&below)
}

//! The entry that holds for a mirror's own host: one that is there, or one that has to be made.

use registry_config::{Registry, RegistryName};

use super::Report;
use super::draft::Draft;
use super::endpoint::Endpoint;
use super::plan::{Link, Target};

/// Which entry holds for a mirror.
pub(super) enum Holder {
    /// One that is there, or none, which is as good.
    Present,
    /// This one, which is missing.
    New(Box<Draft>),
    /// This one, which says nothing, where no other mirror makes one for its host.
    Empty(Box<Draft>),
    /// One that is there and does not let it be asked.
    Refused,
}

/// The entry for a mirror of a draft, `None` where it has no address.
///
/// It is needed even if it says nothing, so that the registry's own credentials are not lent to the
/// mirror, and both can be given some later.
pub(super) fn mirror_entry(
    draft: &Draft,
    link: &Link,
    drafts: &[Draft],
    mirrors: &[Draft],
    report: &mut Report,
) -> Option<Holder> {
    let Target::Address(endpoint) = &link.target else {
        return None;
    };
    let mut settings = link.settings.clone();
    settings.plain_http |= endpoint.is_http;
    let mut lost = |text: String| report.lost(&draft.entry.source, &link.key, text);
    let named = |known: &&Draft| known.host.as_ref() == Some(&endpoint.host);
    if let Some(known) = drafts.iter().chain(mirrors).find(named) {
        return Some(known_holder(known, endpoint, &settings, &mut lost));
    }
    // A literal without a port would hold for the mirror, other names would not.
    let covering = drafts.iter().find(|known| covers(known, endpoint));
    let wider = covering.or_else(|| drafts.iter().find(|known| holds_for(known, endpoint)));
    let says_nothing = settings == Registry::default() && !draft.lends() && covering.is_none();
    if says_nothing && wider.is_some() {
        return Some(Holder::Present);
    }
    if let Some(wider) = wider {
        if wider.is_forbidden() {
            lost(forbidden_by(&wider.entry.name.written()));
            return Some(Holder::Refused);
        }
        lost(format!(
            "images of {} itself are pulled with these settings too, no longer with those of {}",
            endpoint.name(),
            wider.entry.name.written()
        ));
    }
    let name = RegistryName::parse(&endpoint.name()).ok()?;
    let mut entry = Draft::new(name, draft.entry.source.clone(), link.key.clone(), settings);
    entry.entry.is_empty = says_nothing;
    let entry = Box::new(entry);
    Some(if says_nothing { Holder::Empty(entry) } else { Holder::New(entry) })
}

/// What an entry of the mirror's own host means for the mirror.
fn known_holder(
    known: &Draft,
    endpoint: &Endpoint,
    settings: &Registry,
    lost: &mut impl FnMut(String),
) -> Holder {
    let source = &known.entry.source;
    if known.is_forbidden() {
        lost(forbidden_by(&known.entry.name.written()));
        return Holder::Refused;
    }
    let own = &known.entry.registry;
    // The guest takes plain HTTP where certificates are not verified and there is no secret.
    let may_be_plain = own.plain_http || own.insecure_skip_verify && own.credentials.is_anonymous();
    if endpoint.is_http && !may_be_plain {
        lost(format!(
            "left out: it is asked over plain HTTP, but {source} says that its host is not"
        ));
        return Holder::Refused;
    }
    let mut wanted = Registry {
        mirrors: own.mirrors.clone(),
        blocked: own.blocked.clone(),
        mirror_fallback: own.mirror_fallback,
        ..settings.clone()
    };
    if may_be_plain {
        // One of the two ways to say that plain HTTP is taken.
        wanted.plain_http = own.plain_http;
    }
    if *own != wanted {
        lost(format!("its settings are those of {source}: a host has one entry"));
    }
    Holder::Present
}

/// Why a mirror is not asked: an entry that lets it be would let images of its host be pulled.
pub(crate) fn forbidden_by(name: &str) -> String {
    format!("left out: images of its host are forbidden, by {name}")
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
    let below = known.entry.name.to_string();
    known.entry.name.is_any() || format!("{}.", endpoint.host.name()).ends_with(&below)
}

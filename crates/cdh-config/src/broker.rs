//! `[kbc]`: the broker that the hub asks, and that this guest can ask itself.

use foreign_text::toml::{Field, Table};
use puller_config::ResourceSource;

use crate::finding::{Findings, Place};
use crate::image::refuse_rest;
use crate::owner::{Broker, Owner, Placed};

/// The hub's client that speaks the broker's protocol.
const CLIENT: &str = "cc_kbc";

/// Where the hub looks for the attestation agent.
const AGENT: &str = "unix:///run/confidential-containers/attestation-agent/attestation-agent.sock";

/// What holds where this guest does not ask by itself.
const LEFT: &str = "references are left to the guest's own sources, by default the hub";

/// Reads the table of the broker, and of `[aa]` only where the agent is. Everything else there is
/// the hub's own.
pub(crate) fn read(
    kbc: Option<Field<'_, '_>>,
    aa: Option<Field<'_, '_>>,
    owner: &mut Owner,
    findings: &mut Findings,
) {
    let Some(field) = kbc else {
        return;
    };
    let Some(mut keys) = findings.typed(&field, field.table()) else {
        return;
    };
    let [name, url, roots] = ["name", "url", "kbs_cert"].map(|key| take(&mut keys, key, findings));
    refuse_rest(keys, findings);
    match name {
        Some((name, place)) if name != CLIENT => {
            findings.note(place, format!("is not {CLIENT:?}: {LEFT}"));
            return;
        }
        _ => {}
    }
    // Without one the hub asks nobody.
    let Some((url, place)) = url.filter(|(url, _)| !url.is_empty()) else {
        return;
    };
    let source = format!("kbs={url}");
    if let Err(rule) = ResourceSource::parse(&source) {
        findings.note(place, format!("{LEFT}: {rule}"));
        return;
    }
    let agent = aa.and_then(|field| {
        let mut keys = findings.typed(&field, field.table())?;
        take(&mut keys, "aa_socket", findings)
    });
    let agent = agent.unwrap_or_else(|| (AGENT.to_owned(), place.clone()));
    owner.broker = Some(Broker { source: (source, place), roots, agent });
}

fn take(keys: &mut Table<'_, '_>, key: &str, findings: &mut Findings) -> Option<Placed> {
    let field = keys.take(key)?;
    let text = findings.typed(&field, field.text())?;
    Some((text.to_owned(), Place::from(&field)))
}

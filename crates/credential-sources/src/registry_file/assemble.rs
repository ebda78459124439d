//! Plans become entries, one for each host.

use registry_config::RegistryHost;

use super::draft::Draft;
use super::mirror_entry::{Holder, forbidden_by, mirror_entry};
use super::plan::{Plan, Target};
use super::{Import, Report};

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
                    draft.entry.name.written(),
                    known.entry.source
                ),
            ),
            None => drafts.push(draft),
        }
    }
    // Exactly what would hold the mirrors: entries of files first, then those that mirrors need.
    let (mut mirrors, mut empty): (Vec<Draft>, Vec<Draft>) = (Vec::new(), Vec::new());
    for index in 0..drafts.len() {
        let mut refused = Vec::new();
        for (at, link) in drafts[index].mirrors.iter().enumerate() {
            match mirror_entry(&drafts[index], link, &drafts, &mirrors, &mut report) {
                Some(Holder::New(draft)) => mirrors.push(*draft),
                Some(Holder::Empty(draft)) => empty.push(*draft),
                Some(Holder::Refused) => refused.push(at),
                Some(Holder::Present) | None => {}
            }
        }
        drafts[index].drop_mirrors(&refused, &mut report);
    }
    while drop_forbidden(&mut drafts, &mut report) {}
    drafts.extend(mirrors);
    for draft in empty {
        if !drafts.iter().any(|known| known.entry.name == draft.entry.name) {
            drafts.push(draft);
        }
    }
    drafts.sort_by(|one, other| one.entry.name.cmp(&other.entry.name));
    Import { entries: drafts.into_iter().map(|draft| draft.entry).collect(), report }
}

/// Drops the mirrors whose host was forbidden after they were looked at. Whether there was one.
fn drop_forbidden(drafts: &mut [Draft], report: &mut Report) -> bool {
    let forbidden = drafts.iter().filter(|draft| draft.is_forbidden());
    let forbidden: Vec<_> =
        forbidden.map(|draft| (draft.host.clone(), draft.entry.name.written())).collect();
    let mut is_one = false;
    for draft in drafts {
        let mut refused = Vec::new();
        for (at, link) in draft.mirrors.iter().enumerate() {
            let Target::Address(endpoint) = &link.target else {
                continue;
            };
            let is_its = |host: &Option<RegistryHost>| host.as_ref() == Some(&endpoint.host);
            if let Some((_, name)) = forbidden.iter().find(|(host, _)| is_its(host)) {
                report.lost(&draft.entry.source, &link.key, forbidden_by(name));
                refused.push(at);
            }
        }
        is_one |= !refused.is_empty();
        draft.drop_mirrors(&refused, report);
    }
    is_one
}

//! Plans become entries, one for each host.

use super::draft::Draft;
use super::mirror_entry::{Holder, mirror_entry};
use super::plan::Plan;
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
                    draft.entry.name, known.entry.source
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
    drafts.extend(mirrors);
    for draft in empty {
        if !drafts.iter().any(|known| known.name == draft.name) {
            drafts.push(draft);
        }
    }
    drafts.sort_by(|one, other| one.name.cmp(&other.name));
    Import { entries: drafts.into_iter().map(|draft| draft.entry).collect(), report }
}

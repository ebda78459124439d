//! What was made of secrets before this pass, and is carried to another place where nothing new can
//! be made of them: a move whose secrets are broken or missing must not leave sandboxes without the
//! last good document.

use std::os::unix::fs::MetadataExt;

use puller_config::{Document, MAX_DOCUMENT_BYTES};
use rustix::process::geteuid;
use zeroize::Zeroizing;

use super::Pass;
use crate::document::Kept;
use crate::kind::Kind;
use crate::manifest::Entry;
use crate::plan::{self, PlannedFile};
use crate::{HostPath, arrival};

/// What others can write to, as bits of a mode.
const OTHERS_WRITE: u32 = 0o022;

/// What is on the node of a file that is made of secrets.
pub(super) struct Standing {
    pub(super) kept: Kept,
    /// Where it is and what it says, where that is not its place any more.
    former: Option<(HostPath, Zeroizing<Vec<u8>>)>,
}

impl Pass {
    /// Looks for what the set `name` has of the file that goes to `place`: there, and else where an
    /// earlier pass put it.
    pub(super) fn standing(&self, kind: Kind, name: &str, place: &HostPath) -> Standing {
        let entries = self.manifest.files();
        let kept = |entry: &Entry| match entry.set {
            Some(_) => Kept::Own,
            None => Kept::Earlier,
        };
        let here = entries.iter().find(|entry| entry.path == *place);
        if let Some(entry) = here
            && self.text(place).is_some_and(|text| is_one(kind, &text))
        {
            let (kept, former) = (kept(entry), None);
            return Standing { kept, former };
        }
        let is_former = |entry: &&Entry| {
            let is_of_set = match &entry.set {
                Some(set) => set == name,
                None => plan::set_of(&entry.path) == Some(name),
            };
            let is_alike = entry.kind() == kind && entry.path.split().1 == place.split().1;
            is_of_set && is_alike && entry.path != *place
        };
        let mut former: Vec<&Entry> = entries.iter().filter(is_former).collect();
        // This installation's own first.
        former.sort_by_key(|entry| entry.set.is_none());
        let mut found = former.into_iter().filter_map(|entry| {
            let text = self.text_of_root(&entry.path)?;
            is_good(kind, &text)
                .then(|| Standing { kept: kept(entry), former: Some((entry.path.clone(), text)) })
        });
        found.next().unwrap_or(Standing { kept: Kept::Nothing, former: None })
    }

    /// Gives a file that nothing can be made for what it said where it was.
    pub(super) fn carry(&mut self, name: &str, file: &mut PlannedFile) {
        if !file.kind.is_secret() || file.content.is_some() {
            return;
        }
        let Some((former, text)) = self.standing(file.kind, name, &file.path).former else {
            return;
        };
        file.content = Some(text);
        self.outcome.warnings.push(format!(
            "no new {} of the set {name} can be made: the earlier one stays, carried from {former} \
            to {}",
            file.kind.name(),
            file.path
        ));
    }

    /// What a listed file says. A node that cannot be looked at has none; writing to it then fails
    /// with the reason.
    fn text(&self, path: &HostPath) -> Option<Zeroizing<Vec<u8>>> {
        let (above, name) = path.split();
        let directory = self.node.directory(&above?).ok()??;
        directory.read(name, MAX_DOCUMENT_BYTES).ok()?
    }

    /// The same of a file that sandboxes could have used: one that nobody else can write to.
    fn text_of_root(&self, path: &HostPath) -> Option<Zeroizing<Vec<u8>>> {
        let (above, name) = path.split();
        let directory = self.node.directory(&above?).ok()??;
        let (text, metadata) = directory.read_file(name, MAX_DOCUMENT_BYTES).ok()??;
        let is_closed = metadata.mode() & OTHERS_WRITE == 0;
        (metadata.is_file() && metadata.uid() == geteuid().as_raw() && is_closed).then_some(text)
    }
}

/// Whether `text` is more than what takes the place of a document.
fn is_one(kind: Kind, text: &[u8]) -> bool {
    kind != Kind::Document || !arrival::is_stand_in(text)
}

/// Whether `text` is worth to be carried.
fn is_good(kind: Kind, text: &[u8]) -> bool {
    kind != Kind::Document || (is_one(kind, text) && Document::parse(text).is_ok())
}

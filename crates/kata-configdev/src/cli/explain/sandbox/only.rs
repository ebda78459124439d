//! The registries beyond which a sandbox has no secret, and what it does not have because of that.

use pull_route::{Secrets, Surplus};
use puller_config::{OnlyRegistries, RegistryName};
use serde::Serialize;

use crate::cli::explain::Row;
use crate::only::ListedBy;
use crate::sandbox_document::SandboxDocument;

/// Lists of registries.
#[derive(Serialize)]
pub(super) struct OnlyReport {
    /// What stands in every list.
    registries: OnlyRegistries,
    /// The keys of the settings, and the annotation, that have a list.
    by: Vec<String>,
    /// What of the document is left out.
    removed: Vec<Removed>,
    #[serde(skip)]
    said_by: Vec<String>,
}

#[derive(Serialize)]
struct Removed {
    /// The name of the entry or table as the document has it; `None` for the keys of every image.
    name: Option<String>,
    /// What of it.
    what: &'static str,
    why: &'static str,
    #[serde(skip)]
    shown: String,
}

impl OnlyReport {
    /// `None` where nobody wrote a list.
    pub(super) fn of(complete: &SandboxDocument) -> Option<Self> {
        let only = complete.only.as_ref()?;
        Some(Self {
            registries: only.registries.clone(),
            by: only.by.iter().map(ListedBy::key).collect(),
            removed: complete.removed.iter().map(Removed::of).collect(),
            said_by: only.by.iter().map(ToString::to_string).collect(),
        })
    }

    pub(super) fn rows(&self) -> Vec<Row> {
        let names: Vec<_> = self.registries.iter().map(RegistryName::written).collect();
        let names = match names.is_empty() {
            true => "no registry at all".to_owned(),
            false => names.join(", "),
        };
        let by = self.said_by.join(" and ");
        let removed = self.removed.iter();
        let removed = removed.map(|one| ("left out", format!("{}: {}", one.shown, one.why)));
        let only = ("only", format!("{names}: by {by}"));
        std::iter::once(only).chain(removed).collect()
    }
}

impl Removed {
    fn of(surplus: &Surplus) -> Self {
        Self {
            name: surplus.name.as_ref().map(RegistryName::written),
            what: surplus.what.label(),
            why: match surplus.what {
                Secrets::DecryptionKeys => "no image of the listed registries has them",
                _ => "no pull of the listed registries uses them",
            },
            shown: surplus.to_string(),
        }
    }
}

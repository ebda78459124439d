//! In which order several docker configurations count, as secretgen-controller has it, and the
//! combination that it computes.
//!
//! [`import`] is the entry for files of any kind, [`combine`] that for the cluster's side.
//!
//! The controller (`secretgen.carvel.dev/v1alpha1`) fills a placeholder secret with what other
//! namespaces export to it. This module computes the same from manifests, for clusters without it,
//! in the bytes of Go's encoder. It is stricter than the controller in what it reads: a value of
//! another type in a field that the result has not (`identitytoken`, `credHelpers`), text that is
//! not UTF-8 and more than [`MAX_ENTRIES`](crate::docker_config::MAX_ENTRIES) entries of a secret
//! are refused. A weight in Go's hexadecimal form counts as none.

mod combine;
mod go_json;
mod import;
mod selector;
#[cfg(test)]
mod tests;

use crate::secret_manifest::{ExportManifest, Metadata, Object, SecretManifest};

pub use combine::{CombineError, Combined, combine, placeholder_namespaces};
pub use import::{ByNamespace, Imported, MAX_NAMESPACE_BYTES, SourceFile, import, is_namespace};

/// The annotation of a `SecretExport` that says how much its secret counts.
const WEIGHT: &str = "secretgen.carvel.dev/weight";

/// How much an input counts; of two that say something about one key, the greater one wins.
///
/// By weight, then those of the destination's own namespace, then those that name the destination
/// rather than `*`, then by `namespace/name`.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Rank {
    // In the order in which they are compared.
    weight: i64,
    is_within: bool,
    is_exact: bool,
    name: String,
}

impl Rank {
    /// The rank of a secret for a destination namespace, if that is known, by the export among
    /// `objects` that is about it. A weight on the secret itself counts where there is no export.
    #[must_use]
    pub fn of(secret: &SecretManifest, objects: &[Object], destination: Option<&str>) -> Self {
        let name = &secret.metadata;
        let export = export_of(name, objects);
        let annotations = export.map_or(&name.annotations, |export| &export.metadata.annotations);
        Self {
            weight: annotations.get(WEIGHT).map_or(0, |text| weight(text)),
            is_within: destination == Some(&name.namespace),
            is_exact: export
                .zip(destination)
                .is_some_and(|(export, destination)| names(export, destination)),
            name: name.full_name(),
        }
    }
}

/// A weight as it is written, as a number of the same order; what is no number counts as none.
fn weight(text: &str) -> i64 {
    let number: f64 = text.parse().unwrap_or(0.0);
    let says_infinite = text.trim_start_matches(['+', '-']).to_ascii_lowercase().starts_with("inf");
    if number.is_nan() || (number.is_infinite() && !says_infinite) {
        return 0;
    }
    // Makes one of the two zeros.
    let bits = (number + 0.0).to_bits().cast_signed();
    // As `f64::total_cmp` does: the bits of negative numbers are in the opposite order.
    bits ^ ((bits >> 63).cast_unsigned() >> 1).cast_signed()
}

fn export_of<'o>(name: &Metadata, objects: &'o [Object]) -> Option<&'o ExportManifest> {
    objects.iter().rev().find_map(|object| match object {
        Object::Export(export)
            if export.metadata.name == name.name && export.metadata.namespace == name.namespace =>
        {
            Some(export)
        }
        _ => None,
    })
}

/// Whether an export names a namespace itself.
fn names(export: &ExportManifest, namespace: &str) -> bool {
    export.to_namespaces.iter().any(|name| name == namespace)
}

//! Which images the keys of a secret are for.

use registry_config::{MAX_DECRYPTION_TABLES, RegistryName, Rule};

use crate::printable;
use crate::secret_manifest::SecretManifest;

/// The annotation of a secret that names images: hosts, perhaps with the first parts of
/// repositories, with commas or blanks between.
const ANNOTATION: &str = "images";

/// What keys are for, in the order of their names, each once; none for every image.
pub(super) type Images = Vec<RegistryName>;

/// Reads the name of a host, perhaps with the first parts of repositories: what keys may be for.
///
/// # Errors
///
/// The rule that is broken, as a fragment without a full stop.
pub fn prefix(text: &str) -> Result<RegistryName, String> {
    let name = RegistryName::parse(text).map_err(|error| Rule::from(error).to_string())?;
    match name.is_literal() {
        true => Ok(name),
        false => Err(Rule::DecryptionKeysOfManyHosts.to_string()),
    }
}

/// What the annotation of a secret says. Where it cannot be read, nobody knows what the keys are
/// for, and more than its author meant they must not be.
pub(super) fn of_secret(secret: &SecretManifest) -> Result<Images, String> {
    let Some(text) = secret.metadata.annotations.get(ANNOTATION) else {
        return Ok(Images::new());
    };
    let words = text.split([',', ' ', '\n', '\t']);
    let words: Vec<_> = words.filter(|word| !word.is_empty()).collect();
    if words.is_empty() || words.len() > MAX_DECRYPTION_TABLES {
        return Err(format!(
            "\"{ANNOTATION}\" has not between 1 and {MAX_DECRYPTION_TABLES} names of registries or \
            repositories"
        ));
    }
    let parse = |word: &str| {
        prefix(word).map_err(|why| format!("\"{ANNOTATION}\" has {}: {why}", printable(word)))
    };
    words.into_iter().map(parse).collect::<Result<_, _>>().map(sorted)
}

/// In the order of their names, each once.
pub(super) fn sorted(mut images: Images) -> Images {
    images.sort();
    images.dedup();
    images
}

/// The names, for people.
pub(super) fn shown(images: &[RegistryName]) -> String {
    let names: Vec<_> = images.iter().take(4).map(RegistryName::written).collect();
    match images.len().saturating_sub(names.len()) {
        0 => names.join(", "),
        more => format!("{} and {more} more", names.join(", ")),
    }
}

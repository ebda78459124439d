//! What a document becomes when a registry is added to it.

use credential_sources::Offer;
use credential_sources::merge::merge;
use registry_config::{Document, Registry, RegistryName, Roots};
use zeroize::Zeroizing;

use crate::choice::DocumentText;
use crate::cli::CommandError;

/// The document with an entry for all of the host of `name`, which trusts `roots` alone.
///
/// # Errors
///
/// [`CommandError::NewEntry`] where it has an entry for the host, or has no room for one.
pub fn with_roots(
    document: &DocumentText,
    name: &RegistryName,
    roots: Roots,
) -> Result<DocumentText, CommandError> {
    let host = name.of_host();
    let parsed = Document::parse(document).map_err(|problems| refused(problems.to_string()))?;
    let mut config = parsed.document;
    let own = config.registries.iter().map(|(name, _)| name).find(|own| **own == host);
    if let Some(own) = own {
        let own = own.written();
        let reason = format!("it has an entry \"{own}\" already");
        return Err(CommandError::NewEntry { reason, is_there: true });
    }
    // As it was written, without the repositories.
    let written = name.written();
    let written = written.split('/').next().unwrap_or_default();
    let written = RegistryName::parse(written).map_err(|rule| refused(rule.to_string()))?;
    config.registries.set(written, Registry { ca_certs: Some(roots), ..Registry::default() });
    let mut text = config.to_toml().map_err(|rule| refused(rule.to_string()))?;
    let text = Zeroizing::new(std::mem::take(&mut *text).into_bytes());
    Document::parse(&text).map_err(|problems| refused(problems.to_string()))?;
    Ok(text.into())
}

/// The document with an account for a registry that has none in it.
///
/// # Errors
///
/// [`CommandError::NewEntry`] where it has one, or cannot have this one.
pub fn with_account(document: &DocumentText, offer: &Offer) -> Result<DocumentText, CommandError> {
    let merged = merge(document, std::slice::from_ref(offer));
    let merged = merged.map_err(|error| refused(error.to_string()))?;
    let mut losers = merged.origins.iter().flat_map(|one| Some((one, one.losers.last()?)));
    if let Some((origin, loser)) = losers.next() {
        return Err(CommandError::NewEntry {
            reason: loser.why.clone(),
            is_there: origin.entry.is_some(),
        });
    }
    Ok(merged.text.into())
}

fn refused(reason: String) -> CommandError {
    CommandError::NewEntry { reason, is_there: false }
}

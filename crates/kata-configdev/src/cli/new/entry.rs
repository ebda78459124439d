//! What a document becomes when a registry is added to it.

use credential_sources::Offer;
use credential_sources::merge::{Decision, Winner, merge};
use credential_sources::registry_file::Certificates;
use registry_config::{Document, RegistryName};
use zeroize::Zeroizing;

use crate::choice::DocumentText;
use crate::cli::CommandError;

/// The document with an entry for all of the host of `name`, which trusts `roots` alone.
///
/// # Errors
///
/// [`CommandError::NewEntry`] where it has an entry for the host, or has no room for a section.
pub fn with_roots(
    document: &DocumentText,
    name: &RegistryName,
    roots: &Certificates,
) -> Result<DocumentText, CommandError> {
    let host = name.of_host();
    let parsed = Document::parse(document).map_err(|problems| refused(problems.to_string()))?;
    let mut names = parsed.document.registries.iter().map(|(name, _)| name);
    if let Some(own) = names.find(|own| **own == host) {
        let own = own.written();
        let reason = format!("it has an entry \"{own}\" already");
        return Err(CommandError::NewEntry { reason, is_there: true });
    }
    let gap = match document.last() {
        None => "",
        Some(b'\n') => "\n",
        Some(_) => "\n\n",
    };
    // As it was written, without the repositories.
    let written = name.written();
    let written = written.split('/').next().unwrap_or_default();
    let mut section = format!("{gap}[registries.\"{written}\"]\nca-certs = \"\"\"\n");
    section.extend(roots.blocks());
    section.push_str("\"\"\"\n");
    // The buffer never moves, so that no copy of a secret is left behind.
    let mut text = Zeroizing::new(Vec::with_capacity(document.len() + section.len()));
    text.extend_from_slice(document);
    text.extend_from_slice(section.as_bytes());
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
    let mut decisions = merged.decisions.iter();
    let is_lost = |decision: &&Decision| !matches!(decision.winner, Winner::Offer(_));
    if let Some(decision) = decisions.find(is_lost) {
        let why = decision.losers.last().map_or(&decision.why, |loser| &loser.why);
        return Err(CommandError::NewEntry {
            reason: why.clone(),
            is_there: matches!(decision.winner, Winner::Document(_)),
        });
    }
    Ok(merged.text.into())
}

fn refused(reason: String) -> CommandError {
    CommandError::NewEntry { reason, is_there: false }
}

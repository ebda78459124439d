//! What a source says about one registry.

use registry_config::Credentials;

/// What a source says about one registry, in the document's terms.
#[derive(Clone, Debug)]
pub struct Offer {
    /// The registry's key as the document writes it, such as `ghcr.io.`, `reg.corp:5000` or
    /// `.azurecr.io`.
    pub name: String,
    /// What is offered for it.
    pub offered: Credentials,
    /// Where it comes from, for people: a file, a secret, a plugin. Never a value.
    pub source: String,
}

//! Invariant: any files of a client certificate and its key become a pair that a document holds and
//! TLS takes, or a reason in plain text; and so does any text in a document's own keys.
#![cfg_attr(fuzzing, no_main)]

use credential_sources::client_identity::fault;
use credential_sources::registry_file::client;
use registry_config::{Document, RegistryHost};

/// Whether a document with these values has a client certificate that TLS would take.
fn is_usable(certificate: &str, key: &str) -> Option<bool> {
    let text = format!(
        "[registries.probe]\nclient-cert = \"\"\"\n{certificate}\"\"\"\nclient-key = \"\"\"\n\
         {key}\"\"\"\n"
    );
    let document = Document::parse(text.as_bytes()).ok()?.document;
    let host = RegistryHost::parse("probe").ok()?;
    let (_, entry) = document.registries.literal_entry_for(&host)?;
    let client = entry.client.as_ref()?;
    assert!(!client.chain().is_empty());
    Some(fault(client).is_none())
}

// A line "---" ends the certificate. What follows is its key, or the same text where there is none.
fuzzing::target!(|text: &str| {
    let (certificate, key) = text.split_once("\n---\n").unwrap_or((text, text));
    is_usable(certificate, key);
    match client(certificate.as_bytes(), key.as_bytes()) {
        Ok(client) => assert!(!format!("{client:?}").contains("PRIVATE")),
        Err(why) => assert!(!why.contains(char::is_control)),
    }
});

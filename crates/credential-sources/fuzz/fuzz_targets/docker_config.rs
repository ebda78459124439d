//! Invariant: any file is offers that all fit into a document, or faults; whatever is said about it
//! is plain text.
#![cfg_attr(fuzzing, no_main)]

use credential_sources::docker_config::Widening;
use credential_sources::merge::merge;
use credential_sources::secretgen::{SourceFile, import};
use credential_sources::{Offer, Offered};
use puller_config::{MAX_CREDENTIAL_BYTES, SecretReference};

/// Whether a document has a way of writing an offer: not a token that looks like a sealed secret,
/// nor a pair whose base64 is longer than a credential may be.
fn is_writable(offer: &Offer) -> bool {
    match &offer.offered {
        Offered::IdentityToken(token) | Offered::RegistryToken(token) => {
            !SecretReference::looks_sealed(token.expose())
        }
        Offered::Password { username, password } => {
            username.len() + password.expose().len() < MAX_CREDENTIAL_BYTES / 4 * 3
        }
        _ => false,
    }
}

fuzzing::target!(|bytes: &[u8]| {
    let file = SourceFile {
        name: "a",
        text: bytes,
    };
    let offers = |widening| {
        let imported = import(&[file], Some("default"), widening);
        for finding in imported.findings.iter().chain(&imported.faults) {
            assert!(!finding.to_string().contains(char::is_control));
        }
        let merged = merge(b"", &imported.offers).expect("fits into an empty document");
        let lost = merged
            .decisions
            .iter()
            .map(|decision| decision.losers.len())
            .sum::<usize>();
        let entries = merged.document.registries.len();
        assert_eq!(entries + lost, imported.offers.len());
        let unwritable = imported.offers.iter().filter(|offer| !is_writable(offer));
        assert!(lost <= unwritable.count());
        imported.offers
    };
    let narrow = offers(Widening::Refused);
    let wide = offers(Widening::Allowed);
    // What names a registry itself is never displaced by what is widened to it.
    for offer in &narrow {
        let same = wide.iter().find(|wide| wide.name == offer.name);
        assert!(same.is_some_and(|same| same.offered == offer.offered));
    }
});

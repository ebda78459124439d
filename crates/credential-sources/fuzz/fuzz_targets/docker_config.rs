//! Invariant: any file is offers that all fit into a document, or faults; whatever is said about it
//! is plain text.
#![cfg_attr(fuzzing, no_main)]

use std::collections::BTreeSet;

use credential_sources::Offer;
use credential_sources::docker_config::Widening;
use credential_sources::merge::merge;
use credential_sources::secretgen::{SourceFile, import};
use registry_config::credential_rule::looks_sealed;
use registry_config::{Credentials, MAX_ALSO, MAX_CREDENTIAL_BYTES};

/// Whether a document has a way of writing an offer: not a token that looks like a sealed secret,
/// nor a pair whose base64 is longer than a credential may be.
fn is_writable(offer: &Offer) -> bool {
    match &offer.offered {
        Credentials::IdentityToken { token, .. } | Credentials::RegistryToken(token) => {
            !looks_sealed(token.expose())
        }
        Credentials::Basic { username, password } => {
            username.len() + password.expose().len() < MAX_CREDENTIAL_BYTES / 4 * 3
        }
        Credentials::Anonymous => false,
    }
}

fuzzing::target!(|bytes: &[u8]| {
    let file = SourceFile { name: "a", text: bytes };
    let offers = |widening| {
        let imported = import(&[file], Some("default"), widening);
        for finding in imported.findings.iter().chain(&imported.unread).chain(&imported.faults) {
            assert!(!finding.to_string().contains(char::is_control));
        }
        let merged = merge(b"", &imported.offers).expect("fits into an empty document");
        let lost = merged.origins.iter().map(|origin| origin.losers.len()).sum::<usize>();
        let taken = merged.origins.iter().flat_map(|origin| &origin.accounts);
        let taken = taken.filter(|account| account.offered_for.is_none());
        assert_eq!(taken.count() + lost, imported.offers.len());
        let unwritable = imported.offers.iter().filter(|offer| !is_writable(offer));
        let names: BTreeSet<_> = imported.offers.iter().map(|offer| &offer.name).collect();
        let crowded = names.iter().map(|name| {
            let same = imported.offers.iter().filter(|offer| offer.name == **name);
            same.count().saturating_sub(1 + MAX_ALSO)
        });
        assert!(lost <= unwritable.count() + crowded.sum::<usize>());
        imported.offers
    };
    let narrow = offers(Widening::Refused);
    let wide = offers(Widening::Allowed);
    // What names a registry itself is never displaced by what is widened to it.
    for offer in &narrow {
        let of_name = |offers: &[Offer]| -> Vec<Credentials> {
            let same = offers.iter().filter(|other| other.name == offer.name);
            same.map(|other| other.offered.clone()).collect()
        };
        assert!(of_name(&wide).starts_with(&of_name(&narrow)));
    }
});

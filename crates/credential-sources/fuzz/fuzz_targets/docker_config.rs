//! Invariant: any file is offers that all fit into a document, or faults; whatever is said about it
//! is plain text.
#![cfg_attr(fuzzing, no_main)]

use credential_sources::docker_config::Widening;
use credential_sources::merge::merge;
use credential_sources::secretgen::{SourceFile, import};

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
        assert_eq!(merged.document.registries.len(), imported.offers.len());
        assert!(
            merged
                .decisions
                .iter()
                .all(|decision| decision.losers.is_empty())
        );
        imported.offers
    };
    let narrow = offers(Widening::Refused);
    let wide = offers(Widening::Allowed);
    // What names a registry itself is never displaced by what is widened to it.
    for offer in &narrow {
        let same = wide.iter().find(|wide| wide.name == offer.name);
        assert!(same.is_some_and(|same| same.offered.is_same_as(&offer.offered)));
    }
});

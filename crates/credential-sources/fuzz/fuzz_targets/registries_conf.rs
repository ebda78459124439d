//! Invariant: any bytes become a valid document or faults, and messages in plain text.
#![cfg_attr(fuzzing, no_main)]

use credential_sources::registries_conf;
use registry_config::Document;

fuzzing::target!(|bytes: &[u8]| {
    let import = registries_conf::read(bytes, "registries.conf");
    let written = import.write(None);
    match &written.document {
        Some(text) => assert!(Document::parse(text.expose().as_bytes()).is_ok()),
        None => assert!(!written.report.faults.is_empty()),
    }
    for finding in written.report.findings.iter().chain(&written.report.faults) {
        assert!(!finding.to_string().contains(char::is_control), "{finding}");
    }
});

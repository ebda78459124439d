//! Invariant: any bytes become a valid document or faults, and messages in plain text.
#![cfg_attr(fuzzing, no_main)]

use std::path::Path;

use credential_sources::registries_yaml;
use registry_config::Document;

const CA: &[u8] = include_bytes!("../../../registry-config/tests/data/root.pem");

fuzzing::target!(|bytes: &[u8]| {
    let import =
        registries_yaml::read(bytes, "registries.yaml", &mut |_: &Path| Ok(CA.to_vec().into()));
    let written = import.write(None);
    match &written.document {
        Some(text) => assert!(Document::parse(text.expose().as_bytes()).is_ok()),
        None => assert!(!written.report.faults.is_empty()),
    }
    for finding in written.report.findings.iter().chain(&written.report.faults) {
        assert!(!finding.to_string().contains(char::is_control), "{finding}");
    }
});

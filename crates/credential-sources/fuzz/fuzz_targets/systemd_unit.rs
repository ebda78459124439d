//! Invariant: any output of `systemctl show` and any file of variables become a valid document or
//! faults, and messages in plain text.
#![cfg_attr(fuzzing, no_main)]

use std::path::Path;

use credential_sources::node_files::{NodeFiles, Unread};
use credential_sources::proxy_environment::{Program, document};
use credential_sources::registry_file::Report;
use credential_sources::systemd_unit::{self, units};
use registry_config::Document;
use zeroize::Zeroizing;

/// What every file is.
struct Variables<'t>(&'t str);

impl NodeFiles for Variables<'_> {
    fn read(&mut self, _: &Path, _: usize) -> Result<Zeroizing<Vec<u8>>, Unread> {
        Ok(self.0.as_bytes().to_vec().into())
    }

    fn list(&mut self, _: &Path) -> Vec<String> {
        vec!["a.env".into(), ".b".into()]
    }
}

// A line "---" ends the output; a file of variables follows.
fuzzing::target!(|text: &str| {
    let (shown, file) = text.split_once("\n---\n").unwrap_or((text, ""));
    for unit in units(shown) {
        let program = Program::of_unit("k3s.service");
        let mut report = Report::default();
        let wanted = |name: &str| program.wants(name);
        let mut variables = systemd_unit::Variables::new();
        let files = &mut Variables(file);
        unit.add_environment(&mut variables, "k3s.service", &wanted, files, &mut report);
        assert!(unit.option("sleep", "--config").is_none_or(|value| shown.contains(value)));
        let written = document(&variables, program, "k3s.service", report);
        match &written.document {
            Some(text) => assert!(Document::parse(text.expose().as_bytes()).is_ok()),
            None => assert!(!written.report.faults.is_empty()),
        }
        for finding in written.report.findings.iter().chain(&written.report.faults) {
            assert!(!finding.to_string().contains(char::is_control), "{finding}");
        }
    }
});

//! Invariant: any unit, drop-in and file of variables becomes a valid document or faults, and
//! messages in plain text.
#![cfg_attr(fuzzing, no_main)]

use std::path::Path;

use credential_sources::node_files::{NodeFiles, Unread};
use credential_sources::proxy_environment::{Program, document};
use credential_sources::registry_file::Report;
use credential_sources::systemd_unit::{UnitName, environment};
use registry_config::Document;
use zeroize::Zeroizing;

/// The unit, a drop-in, and what every other file is.
struct Parts<'t>([&'t str; 3]);

impl NodeFiles for Parts<'_> {
    fn read(&mut self, path: &Path, _: usize) -> Result<Zeroizing<Vec<u8>>, Unread> {
        let name = path.file_name().and_then(|name| name.to_str());
        let part = match name {
            Some("k3s.service") => self.0[0],
            Some("proxy.conf") => self.0[1],
            _ => self.0[2],
        };
        Ok(part.as_bytes().to_vec().into())
    }

    fn list(&mut self, directory: &Path) -> Vec<String> {
        match directory.to_str() {
            Some("/etc/systemd/system") => vec!["k3s.service".into()],
            Some("/etc/systemd/system/k3s.service.d") => vec!["proxy.conf".into()],
            _ => vec!["a.env".into(), ".b".into()],
        }
    }
}

// A line "---" ends a file: the unit, the drop-in, a file of variables.
fuzzing::target!(|text: &str| {
    let mut parts = text.split("\n---\n");
    let mut parts = Parts(std::array::from_fn(|_| parts.next().unwrap_or_default()));
    let unit = UnitName::parse("k3s").expect("a name");
    let program = Program::of_unit(&unit);
    let mut report = Report::default();
    let wanted = |name: &str| program.wants(name);
    let variables = environment(&unit, &wanted, &mut parts, &mut report);
    let written = document(&variables, program, "k3s.service", report);
    match &written.document {
        Some(text) => assert!(Document::parse(text.expose().as_bytes()).is_ok()),
        None => assert!(!written.report.faults.is_empty()),
    }
    for finding in written.report.findings.iter().chain(&written.report.faults) {
        assert!(!finding.to_string().contains(char::is_control), "{finding}");
    }
});

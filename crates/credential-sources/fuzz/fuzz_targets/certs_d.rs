//! Invariant: a directory of any name with any hosts.toml and CA file becomes a valid document or
//! faults, and messages in plain text.
#![cfg_attr(fuzzing, no_main)]

use std::path::Path;

use credential_sources::certs_d::{self, Directory, HostsToml};
use registry_config::Document;

const CA: &[u8] = include_bytes!("../../../registry-config/tests/data/root.pem");

// The first line is the directory's name, the rest its hosts.toml, and what is read where that
// names a file.
fuzzing::target!(|bytes: &[u8]| {
    let end = bytes.iter().position(|byte| *byte == b'\n');
    let (name, text) = bytes.split_at(end.map_or(0, |end| end + 1));
    let name = String::from_utf8_lossy(name).trim_end().to_owned();
    let (hosts_toml, ca) = (text.to_vec(), text);
    let directory = |name: String, files: Vec<String>, text: Vec<u8>| Directory {
        path: Path::new("/etc/containerd/certs.d").join(&name),
        hosts_toml: Some(Ok(HostsToml(text.into()))),
        name,
        files,
    };
    let directories = vec![
        directory("_default".into(), Vec::new(), hosts_toml.clone()),
        directory("m.corp".into(), vec!["ca.crt".into()], Vec::new()),
        directory(name, vec!["x.crt".into(), "x.key".into()], hosts_toml),
    ];
    let mut read_file = |path: &Path| {
        if path.ends_with("ca.crt") { Ok(CA.to_vec().into()) } else { Ok(ca.to_vec().into()) }
    };
    let written = certs_d::read(directories, &mut read_file).write(None);
    match &written.document {
        Some(text) => assert!(Document::parse(text.expose().as_bytes()).is_ok()),
        None => assert!(!written.report.faults.is_empty()),
    }
    for finding in written.report.findings.iter().chain(&written.report.faults) {
        assert!(!finding.to_string().contains(char::is_control), "{finding}");
    }
});

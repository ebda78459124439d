//! Invariant: any file, with any directory of a registry, becomes a valid document or faults, files
//! that import each other become runtimes or faults, and all messages are plain text.
#![cfg_attr(fuzzing, no_main)]

use std::path::Path;

use credential_sources::Loss;
use credential_sources::certs_d::{Directory, HostsToml};
use credential_sources::containerd_config;
use credential_sources::node_files::{NodeFiles, Unread};
use registry_config::Document;
use zeroize::Zeroizing;

const CA: &[u8] = include_bytes!("../../../registry-config/tests/data/root.pem");

/// Parts of the input by number: `/etc/containerd/1.toml` is the second.
struct Parts<'b>(Vec<&'b [u8]>);

impl NodeFiles for Parts<'_> {
    fn read(&mut self, path: &Path, _: usize) -> Result<Zeroizing<Vec<u8>>, Unread> {
        let stem = path.file_stem().and_then(|stem| stem.to_str());
        let number = stem.and_then(|stem| stem.parse::<usize>().ok());
        let part = number.and_then(|number| self.0.get(number));
        part.map(|part| part.to_vec().into()).ok_or(Unread::Absent)
    }

    fn list(&mut self, _: &Path) -> Vec<String> {
        (0..self.0.len()).map(|number| format!("{number}.toml")).collect()
    }
}

// A line "---" ends a file. The first one is the configuration; the last one is the hosts.toml of
// two registries too.
fuzzing::target!(|text: &str| {
    let mut parts = Parts(text.split("\n---\n").map(str::as_bytes).collect());
    let main = Path::new("/etc/containerd/0.toml");
    let (first, last) = (parts.0[0], parts.0[parts.0.len() - 1]);
    let (_, runtimes) = containerd_config::runtimes(first.to_vec().into(), main, &mut parts);
    let config = containerd_config::read(first, "0.toml", Some(Loss::Lost));
    let directory = |name: &str| Directory {
        name: name.to_owned(),
        path: Path::new("/etc/containerd/certs.d").join(name),
        hosts_toml: Some(Ok(HostsToml(last.to_vec().into()))),
        files: Vec::new(),
    };
    let roots = config.config_paths().into_iter().take(2);
    let roots = roots.enumerate().map(|(number, _)| match number {
        0 => vec![directory("reg.corp")],
        _ => vec![directory("_default"), directory("docker.io")],
    });
    let roots = roots.collect();
    let import = config.import(roots, &mut |_: &Path| Ok(CA.to_vec().into()));
    let written = import.write(None);
    match &written.document {
        Some(text) => assert!(Document::parse(text.expose().as_bytes()).is_ok()),
        None => assert!(!written.report.faults.is_empty()),
    }
    let faults = written.report.faults.iter().chain(&runtimes.faults);
    for finding in written.report.findings.iter().chain(faults) {
        assert!(!finding.to_string().contains(char::is_control), "{finding}");
    }
});

//! `kata-configdev import node`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use clap::Args;
use credential_sources::containerd_config::MAX_CONTAINERD_CONFIG_BYTES;
use credential_sources::kubelet::run;
use credential_sources::printable;
use credential_sources::proxy_environment::{self, Program};
use credential_sources::registry_file::Report;
use credential_sources::systemd_unit::{MAX_UNIT_BYTES, SHOW, Unit, units};
use zeroize::Zeroizing;

use super::node_file::{Node, input, of_written};
use super::outcome::{Imported, Sources};
use crate::cli::{CommandError, UsageError};
use crate::node_root::NodeRoot;

/// The time for a program of the node: each answers at once, unless its daemon hangs.
const MAX_RUN: Duration = Duration::from_secs(10);

/// Reads a file, or a directory, with registries.
type Read = fn(&Node, &NodeRoot, &Path) -> Result<Imported, CommandError>;

/// The services that pull a node's images, and where their registries are.
const SERVICES: [(&str, &[(Read, &str)]); 6] = [
    (CONTAINERD, &[]),
    (
        "crio.service",
        &[
            (Node::registries_conf, "/etc/containers/registries.conf"),
            (Node::certs_d, "/etc/containers/certs.d"),
        ],
    ),
    ("k3s.service", &[K3S]),
    ("k3s-agent.service", &[K3S]),
    ("rke2-server.service", &[RKE2]),
    ("rke2-agent.service", &[RKE2]),
];

/// Prints its registries itself.
const CONTAINERD: &str = "containerd.service";
const K3S: (Read, &str) = (Node::registries_yaml, "/etc/rancher/k3s/registries.yaml");
const RKE2: (Read, &str) = (Node::registries_yaml, "/etc/rancher/rke2/registries.yaml");

/// Makes a document of what the node's container runtime goes by: the proxies of its service, and
/// its registries.
///
/// "systemctl show" says which of containerd, CRI-O, K3s and RKE2 runs, with its HTTP_PROXY,
/// HTTPS_PROXY and NO_PROXY and the files that hold more of them. The registries are those that
/// "containerd config dump" prints, the registries.conf and certs.d of CRI-O, or the registries.yaml
/// of K3s and RKE2. What the two programs printed may come from a file or a pipe instead, also from
/// another node. NO_PROXY should name what guests reach without a proxy, which may be less than what
/// the node does.
#[derive(Args, Debug)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  kata-configdev import node --output imagepuller.toml
  kata-configdev import node --unit k3s-agent --into imagepuller.toml
  ssh node systemctl show crio | kata-configdev import node --root /mnt/node --shown -
  containerd config dump | kata-configdev import node --root /host --shown shown --dump -"
)]
pub struct Arguments {
    /// The service of the container runtime, instead of the one that runs.
    #[arg(long, value_name = "NAME", value_parser = service)]
    unit: Option<String>,
    /// Take what "systemctl show NAME" printed from this file, or "-" for standard input.
    #[arg(long, value_name = "FILE")]
    shown: Option<PathBuf>,
    /// Take what "containerd config dump" printed from this file, or "-" for standard input.
    #[arg(long, value_name = "FILE")]
    dump: Option<PathBuf>,
    #[command(flatten)]
    pub node: Node,
}

/// The whole name of a service.
fn service(text: &str) -> Result<String, &'static str> {
    let stem = text.strip_suffix(".service").unwrap_or(text);
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || b":-_.@\\".contains(&byte);
    match !stem.is_empty() && !stem.starts_with(['.', '-']) && stem.bytes().all(is_legal) {
        true => Ok(format!("{stem}.service")),
        false => Err("not the name of a service such as containerd.service"),
    }
}

impl Arguments {
    pub fn read(&self) -> Result<Imported, CommandError> {
        let root = self.node.open(self.shown.iter().chain(&self.dump))?;
        let mut arguments = SHOW.to_vec();
        match &self.unit {
            Some(name) => arguments.push(name),
            None => arguments.extend(SERVICES.iter().map(|(name, _)| name)),
        }
        let shown = printed(&root, "systemctl", &arguments, &self.shown, MAX_UNIT_BYTES)?;
        let shown = Zeroizing::new(String::from_utf8_lossy(&shown).into_owned());
        let unit = self.chosen(&shown)?;
        let name = self.unit.as_deref().or_else(|| unit.property("Id")).unwrap_or("the service");
        let mut imported = proxies(unit, name, &root);
        let known = SERVICES.iter().find(|(known, _)| *known == name);
        for (read, path) in known.into_iter().flat_map(|(_, files)| *files) {
            let path = Path::new(path);
            if !root.is_missing(path) {
                imported.add(read(&self.node, &root, path)?);
            }
        }
        if name == CONTAINERD || self.dump.is_some() {
            let (arguments, limit) = (["config", "dump"], MAX_CONTAINERD_CONFIG_BYTES);
            let text = printed(&root, "containerd", &arguments, &self.dump, limit)?;
            let source = "containerd config dump";
            imported.add(self.node.containerd_config(&root, &text, source, true)?);
        }
        Ok(imported)
    }

    /// The service that is named, else the one that runs.
    fn chosen<'t>(&self, shown: &'t str) -> Result<Unit<'t>, UsageError> {
        let is_it = |unit: &Unit<'_>| match (self.unit.as_deref(), unit.property("Id")) {
            (Some(name), Some(id)) => name == id,
            _ => true,
        };
        let mut found: Vec<_> = units(shown).filter(is_it).collect();
        if found.len() > 1 {
            found.retain(|unit| unit.property("ActiveState") == Some("active"));
        }
        match found[..] {
            [unit] => Ok(unit),
            [] => Err(UsageError::WhichService("no service that is known runs".into())),
            _ => {
                let names: Vec<_> = found.iter().filter_map(|unit| unit.property("Id")).collect();
                Err(UsageError::WhichService(printable(&format!(
                    "several run: {}",
                    names.join(", ")
                ))))
            }
        }
    }
}

/// The proxies of a service.
fn proxies(unit: Unit<'_>, name: &str, root: &NodeRoot) -> Imported {
    let program = Program::of_unit(name);
    let mut report = Report::default();
    let wanted = |name: &str| program.wants(name);
    let variables = unit.environment(name, &wanted, &mut &*root, &mut report);
    let written = proxy_environment::document(&variables, program, name, report);
    of_written(written, Sources::from([(None, name.to_owned())]))
}

/// What a program of the node prints, or has printed into a `file`.
fn printed(
    root: &NodeRoot,
    program: &'static str,
    arguments: &[&str],
    file: &Option<PathBuf>,
    limit: usize,
) -> Result<Zeroizing<Vec<u8>>, CommandError> {
    if let Some(file) = file {
        return input(&NodeRoot::open(None)?, file, limit);
    }
    let failed = |why| CommandError::Program { program, why };
    if !root.is_here() {
        return Err(failed("it would tell of this machine, and not of --root".to_owned()));
    }
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let mut paths = std::env::split_paths(&paths).map(|path| path.join(program));
    let path = paths.find(|path| path.is_absolute() && path.is_file());
    let mut command = Command::new(path.ok_or_else(|| failed("it is not in PATH".to_owned()))?);
    command.args(arguments);
    let said = run::run(command, &[], limit, Instant::now() + MAX_RUN);
    said.map_err(|failure| failed(failure.why))
}

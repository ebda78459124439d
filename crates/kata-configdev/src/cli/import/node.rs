//! `kata-configdev import node`.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use clap::Args;
use credential_sources::containerd_config::MAX_CONTAINERD_CONFIG_BYTES;
use credential_sources::kubelet::run;
use credential_sources::proxy_environment::{self, Program};
use credential_sources::registries_conf::MAX_REGISTRIES_CONF_BYTES;
use credential_sources::registry_file::Report;
use credential_sources::systemd_unit::{MAX_UNIT_BYTES, SHOW, Unit, Variables, units};
use credential_sources::{Finding, Loss, printable};
use zeroize::Zeroizing;

use super::node_file::{Node, of_written};
use super::outcome::{Imported, Sources};
use crate::cli::{CommandError, UsageError};
use crate::host_file::read_named;
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
            (Node::certs_d, "/etc/docker/certs.d"),
        ],
    ),
    ("k3s.service", &[K3S]),
    ("k3s-agent.service", &[K3S]),
    ("rke2-server.service", &[RKE2]),
    ("rke2-agent.service", &[RKE2]),
];

/// Prints its registries itself.
const CONTAINERD: &str = "containerd.service";
/// More of CRI-O's registries.
const DROP_INS: &str = "/etc/containers/registries.conf.d";
const K3S: (Read, &str) = (Node::registries_yaml, "/etc/rancher/k3s/registries.yaml");
const RKE2: (Read, &str) = (Node::registries_yaml, "/etc/rancher/rke2/registries.yaml");

/// Makes a document of what the node's container runtime goes by: the proxies of its service, and
/// its registries.
///
/// "systemctl show" says which of containerd, CRI-O, K3s and RKE2 runs, with its HTTP_PROXY,
/// HTTPS_PROXY and NO_PROXY and the files that hold more of them. The registries are those that
/// "containerd config dump" prints, the registries.conf and certs.d of CRI-O, or the
/// registries.yaml of K3s and RKE2. The output of the two programs may come from a file or a pipe
/// instead, also from another node. NO_PROXY should name what guests reach without a proxy, which
/// may be less than what the node does.
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
    /// Take what "systemctl show NAME" printed from this file, or "-" for standard input. It may
    /// begin with what "systemctl show" printed, or be a file of variables.
    #[arg(long, value_name = "FILE")]
    pub shown: Option<PathBuf>,
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
        let shown = self.shown(&root)?;
        let unit = self.chosen(&shown)?;
        let name = unit.property("Id").or(self.unit.as_deref()).unwrap_or("the service");
        let name = &printable(name);
        let every = units(&shown).find(|one| one.property("Id").is_none());
        let every = every.filter(|_| unit.property("Id").is_some());
        let mut imported = proxies(every, unit, name, &root);
        let known = SERVICES.iter().find(|(known, _)| *known == name);
        for (read, path) in known.into_iter().flat_map(|(_, files)| *files) {
            let path = Path::new(path);
            if !root.is_missing(path) {
                imported.add(read(&self.node, &root, path)?);
            }
        }
        let mut lost = |source: &str, text| {
            imported.findings.push(Finding::new(source, "", Loss::Lost, text));
        };
        if name == "crio.service" && has_drop_ins(&root) {
            lost(DROP_INS, "[[registry]] is left out; see import registries-conf");
        }
        if name == CONTAINERD || self.dump.is_some() {
            let mut options = ["--config", "-c"].into_iter();
            let file = options.find_map(|option| unit.option("containerd", option));
            let mut arguments = ["config", "dump"].to_vec();
            if let Some(file) = file {
                arguments.splice(0..0, ["--config", file]);
            }
            let limit = MAX_CONTAINERD_CONFIG_BYTES;
            let text = printed(&root, "containerd", &arguments, &self.dump, limit)?;
            let source = "containerd config dump";
            imported.add(self.node.containerd_config(&root, &text, source, None)?);
        } else if known.is_none() && unit.property("Id").is_some() {
            lost(name, "left out: where this service has its registries is not known here");
        }
        Ok(imported)
    }

    /// What `systemctl show` prints of every service, and of the one that is named or of all that
    /// are known.
    fn shown(&self, root: &NodeRoot) -> Result<Zeroizing<String>, CommandError> {
        let mut arguments = SHOW.to_vec();
        match &self.unit {
            Some(name) => arguments.push(name),
            None => arguments.extend(SERVICES.iter().map(|(name, _)| name)),
        }
        let ask = |arguments| printed(root, "systemctl", arguments, &self.shown, MAX_UNIT_BYTES);
        let shown = ask(&arguments)?;
        let every = match self.shown {
            Some(_) => Zeroizing::default(),
            None => ask(&["show", "--property=Environment"])?,
        };
        let [every, shown] = [every, shown].map(|text| {
            // As it comes through a terminal.
            Zeroizing::new(String::from_utf8_lossy(&text).replace('\r', ""))
        });
        Ok(Zeroizing::new(format!("{}\n\n{}", *every, *shown)))
    }

    /// The service that is named, else the one that runs.
    fn chosen<'t>(&self, shown: &'t str) -> Result<Unit<'t>, UsageError> {
        let mut found: Vec<_> = units(shown).collect();
        if found.iter().any(|unit| unit.property("Id").is_some()) {
            found.retain(|unit| match &self.unit {
                Some(name) => unit.is_called(name),
                None => unit.property("Id").is_some(),
            });
        }
        if found.len() > 1 {
            let runs = |unit: &Unit<'_>| {
                matches!(unit.property("ActiveState"), Some("active" | "reloading"))
            };
            found.retain(runs);
        }
        match (&found[..], &self.unit) {
            ([unit], _) => Ok(*unit),
            ([], Some(name)) => Err(UsageError::WhichService(format!("{name} is not shown"))),
            ([], None) => {
                let text = "none of containerd, CRI-O, K3s and RKE2 runs";
                Err(UsageError::WhichService(text.to_owned()))
            }
            (several, _) => {
                let names: Vec<_> = several.iter().filter_map(|unit| unit.property("Id")).collect();
                let text = format!("several run: {}", names.join(", "));
                Err(UsageError::WhichService(printable(&text)))
            }
        }
    }
}

/// Whether CRI-O has registries in further files: most nodes have some for short names alone.
fn has_drop_ins(root: &NodeRoot) -> bool {
    let directory = Path::new(DROP_INS);
    let has_registry = |text: &[u8]| text.windows(10).any(|word| word == b"[[registry");
    root.list(directory).unwrap_or_default().into_iter().any(|entry| {
        let text = root.read(&directory.join(entry.name), MAX_REGISTRIES_CONF_BYTES);
        text.is_ok_and(|text| has_registry(&text))
    })
}

/// The proxies of a service, over those of `every` service.
fn proxies(every: Option<Unit<'_>>, unit: Unit<'_>, name: &str, root: &NodeRoot) -> Imported {
    let program = Program::of_unit(name);
    let mut report = Report::default();
    let wanted = |name: &str| program.wants(name);
    let mut variables = Variables::new();
    for unit in every.into_iter().chain([unit]) {
        unit.add_environment(&mut variables, name, &wanted, &mut &*root, &mut report);
    }
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
        return Ok(read_named(file, limit)?);
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
    said.map_err(|failure| match failure.hung {
        true => failed(format!("it took longer than {} s", MAX_RUN.as_secs())),
        false => failed(failure.why),
    })
}

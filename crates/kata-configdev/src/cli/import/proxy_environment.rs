//! `kata-configdev import proxy-environment`.

use std::path::PathBuf;

use clap::{ArgGroup, Args};
use credential_sources::proxy_environment::{self, Program};
use credential_sources::registry_file::Report;
use credential_sources::systemd_unit::{self, UnitName, Variables};
use zeroize::Zeroizing;

use super::node_file::of_written;
use super::outcome::{Imported, Options, Sources};
use crate::cli::CommandError;
use crate::node_root::NodeRoot;

/// Makes a document of the node's own proxies: HTTP_PROXY, HTTPS_PROXY and NO_PROXY, as containerd
/// reads them.
///
/// --unit reads the files of a service and its drop-ins as systemd does: Environment=,
/// EnvironmentFile= and UnsetEnvironment=. systemd itself is not asked. For the units of K3s and
/// RKE2, variables with CONTAINERD_ in front win. NO_PROXY should name what guests reach without a
/// proxy, which may be less than what the node does.
///
/// The document holds the proxies' passwords: --output keeps it from other users.
#[derive(Args, Debug)]
#[command(
    verbatim_doc_comment,
    group(ArgGroup::new("environment").required(true).args(["unit", "from_env"])),
    after_help = "\
Examples:
  kata-configdev import proxy-environment --into imagepuller.toml --unit containerd.service
  kata-configdev import proxy-environment --root /host --unit k3s.service --strict
  kata-configdev import proxy-environment --from-env --json | jq .findings"
)]
pub struct Arguments {
    /// Read the files of this service.
    #[arg(long, value_name = "NAME", value_parser = unit_name)]
    unit: Option<UnitName>,
    /// Read the environment of this command.
    #[arg(long)]
    from_env: bool,
    /// Take files from this directory as if it were "/": a node's file system, mounted elsewhere.
    #[arg(long, value_name = "DIR", conflicts_with = "from_env")]
    root: Option<PathBuf>,
    #[command(flatten)]
    pub options: Options,
}

fn unit_name(text: &str) -> Result<UnitName, &'static str> {
    UnitName::parse(text).ok_or("not the name of a service such as containerd.service")
}

impl Arguments {
    pub fn read(&self) -> Result<Imported, CommandError> {
        self.options.target.require([])?;
        let mut report = Report::default();
        let (variables, program, source) = match &self.unit {
            Some(unit) => {
                let root = NodeRoot::open(self.root.as_deref())?;
                let program = Program::of_unit(unit);
                let wanted = |name: &str| program.wants(name);
                let variables = systemd_unit::environment(unit, &wanted, &mut &root, &mut report);
                (variables, program, unit.full())
            }
            None => (own_variables(Program::Engine), Program::Engine, "the environment"),
        };
        let written = proxy_environment::document(&variables, program, source, report);
        Ok(of_written(written, Sources::from([(None, source.to_owned())])))
    }
}

/// The variables of this process. One that is not UTF-8 is no address.
fn own_variables(program: Program) -> Variables {
    let all = std::env::vars_os().filter_map(|(name, value)| {
        let name = name.into_string().ok()?;
        let value = Zeroizing::new(value.into_string().ok()?);
        program.wants(&name).then_some((name, value))
    });
    all.collect()
}

//! `kata-configdev-remove`: see the library for what it does.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use fleet_removal::account::{self, Account};
use fleet_removal::api::Object;
use fleet_removal::{Error, Limits, exit, remove};
use tokio::signal::unix::{SignalKind, signal};

/// Between two looks at the DaemonSet.
const PAUSE: Duration = Duration::from_secs(2);

/// Makes the pods of a DaemonSet remove from their nodes what they installed, and waits until each
/// has. The chart runs it before "helm uninstall" deletes the DaemonSet.
///
/// It runs in a pod whose service account may get and patch that DaemonSet.
#[derive(Debug, Parser)]
#[command(
    name = "kata-configdev-remove",
    version,
    long_version = program_version::VERSION,
    verbatim_doc_comment,
    after_help = "\
Exit codes:
  0   every node is clean, or there is no such DaemonSet
  64  wrong arguments
  65  the pod has no account, or the DaemonSet is not the installer's
  69  the API server does not answer or refuses, nodes are not clean in time, or there are none
  70  internal error"
)]
struct Cli {
    /// The DaemonSet's name; it is in the pod's namespace.
    #[arg(long, value_name = "NAME")]
    daemon_set: String,
    /// The role binding that gives the pod's account its right: deleted at the end, whatever that
    /// is, because the right is root on all nodes.
    #[arg(long, value_name = "NAME")]
    role_binding: Option<String>,
    /// How long is waited for the nodes.
    #[arg(long, value_name = "SECONDS", default_value_t = 240,
        value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout: u64,
    /// Where the pod's service account is mounted.
    #[arg(long, value_name = "DIRECTORY", default_value = account::DIRECTORY)]
    account: PathBuf,
}

fn main() -> ExitCode {
    let arguments = match Cli::try_parse() {
        Ok(arguments) => arguments,
        Err(error) => {
            let _ = error.print();
            return match error.use_stderr() {
                true => ExitCode::from(exit::USAGE),
                false => ExitCode::SUCCESS,
            };
        }
    };
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tell(&format!("failed to {error}"));
            ExitCode::from(error.exit_code())
        }
    }
}

fn run(arguments: &Cli) -> Result<(), Error> {
    let variable = |name| std::env::var(name).ok();
    let server = account::server(
        variable("KUBERNETES_SERVICE_HOST").as_deref(),
        variable("KUBERNETES_SERVICE_PORT").as_deref(),
    )?;
    let account = Account::read(&arguments.account, server)?;
    let limits = Limits { whole: Duration::from_secs(arguments.timeout), pause: PAUSE };
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| Error::Client { reason: error.to_string() })?;
    let object = Object::new(&account, &arguments.daemon_set)?;
    runtime.block_on(async {
        let ended = tokio::select! {
            ended = remove(&object, limits, tell) => ended,
            () = terminated() => Err(Error::Ended),
        };
        if let Some(binding) = &arguments.role_binding
            && let Err(error) = object.delete_binding(binding).await
        {
            tell(&format!("failed to {error}; delete the role binding {binding}"));
        }
        ended
    })
}

/// Waits for SIGTERM. The first process of a container gets none that it does not wait for.
async fn terminated() {
    match signal(SignalKind::terminate()) {
        Ok(mut signals) => {
            signals.recv().await;
        }
        Err(error) => {
            tell(&format!("failed to wait for signals: {error}"));
            std::future::pending::<()>().await;
        }
    }
}

fn tell(line: &str) {
    eprintln!("kata-configdev-remove: {line}");
}

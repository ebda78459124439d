//! `imagepuller gc` and `imagepuller list`.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use foreign_text::shown;
use layer_store::listing::{self, Listed};
use layer_store::store::Store;
use serde_json::json;

use super::{exit_code, fail, print};
use crate::blocking::blocking;
use crate::collection::{self, Collected};
use crate::error::{Error, chain};
use crate::request;

/// How long a service may take to remove what it does not need.
const COLLECT_TIMEOUT: Duration = Duration::from_secs(600);

/// Remove layers that no mount and no running pull uses.
///
/// A service that runs is asked with --socket; its store is locked. With --store the store of a
/// service that does not run is cleared. Says how much was removed. Exits with 69 if the service
/// cannot be reached, with 70 if the store cannot be used.
#[derive(Debug, Args)]
pub struct Gc {
    /// Directory of the store
    #[arg(long, value_name = "DIR", required_unless_present = "socket")]
    store: Option<PathBuf>,
    /// Socket of a running service
    #[arg(long, value_name = "PATH", conflicts_with = "store")]
    socket: Option<PathBuf>,
    /// Keep what was used within this time
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    unused_for: u64,
    /// Only show the layers that would go; beside a running service too
    #[arg(long, conflicts_with = "socket")]
    dry_run: bool,
    /// Print a JSON object
    #[arg(long)]
    json: bool,
}

/// Show the layers in a store: digest of the plain bytes, bytes on disk, last use, and the mounts
/// that use it.
///
/// Works beside a running service and changes nothing. Only mounts that this process sees are shown
/// by their place.
#[derive(Debug, Args)]
pub struct List {
    /// Directory of the store
    #[arg(long, value_name = "DIR")]
    store: PathBuf,
    /// Print a JSON array
    #[arg(long)]
    json: bool,
}

/// Removes, or shows what would be.
pub async fn gc(arguments: Gc) -> ExitCode {
    let unused_for = Duration::from_secs(arguments.unused_for);
    let json = arguments.json;
    if arguments.dry_run {
        let store = arguments.store.unwrap_or_default();
        return show(&store, json, |layer| layer.is_unused_for(unused_for));
    }
    let collected = match (&arguments.store, &arguments.socket) {
        (_, Some(socket)) => request::collect(socket, unused_for, COLLECT_TIMEOUT)
            .await
            .map_err(|error| (error.to_string(), exit_code(error.kind()))),
        (store, None) => {
            let store = store.clone().unwrap_or_default();
            let collected = collect_here(store, unused_for).await;
            collected.map_err(|error| (explained(&error), exit_code(error.kind())))
        }
    };
    match collected {
        Ok(collected) => {
            print(&said(&collected, json));
            ExitCode::SUCCESS
        }
        Err((message, code)) => fail(&format!("failed to remove unused layers: {message}"), code),
    }
}

/// Lists a store.
pub fn list(arguments: &List) -> ExitCode {
    show(&arguments.store, arguments.json, |_| true)
}

async fn collect_here(path: PathBuf, unused_for: Duration) -> Result<Collected, Error> {
    // Opening would make one.
    if !path.is_dir() {
        let missing = std::io::Error::from(ErrorKind::NotFound);
        return Err(layer_store::Error::file("open", path)(missing).into());
    }
    let store = blocking(move || Ok(Arc::new(Store::open(&path)?))).await?;
    collection::collect(store, unused_for).await
}

/// With the remedy, where a service has the store.
fn explained(error: &Error) -> String {
    let mut text = chain(error);
    if let Error::Store(layer_store::Error::File { source, .. }) = error
        && source.kind() == ErrorKind::WouldBlock
    {
        text.push_str("; a running service is asked with --socket PATH");
    }
    text
}

fn show(store: &Path, json: bool, which: impl Fn(&Listed) -> bool) -> ExitCode {
    let layers = match listing::list(store) {
        Ok(layers) => layers,
        Err(error) => {
            let error = Error::from(error);
            let message = format!("failed to list layers: {}", chain(&error));
            return fail(&message, exit_code(error.kind()));
        }
    };
    let layers: Vec<_> = layers.iter().filter(|layer| which(layer)).collect();
    if json {
        let layers: Vec<_> = layers.into_iter().map(object).collect();
        print(&serde_json::Value::from(layers).to_string());
    } else {
        for layer in layers {
            print(&line(layer));
        }
    }
    ExitCode::SUCCESS
}

fn seconds(time: SystemTime) -> u64 {
    time.duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs())
}

fn object(layer: &Listed) -> serde_json::Value {
    let users: Vec<_> = layer.users.iter().map(|path| path.to_string_lossy()).collect();
    json!({
        "digest": layer.name.digest().to_string(),
        "keyed": layer.name.is_keyed(),
        "diskBytes": layer.disk_bytes,
        "lastUsed": seconds(layer.last_used),
        "users": users,
    })
}

fn line(layer: &Listed) -> String {
    let age = SystemTime::now().duration_since(layer.last_used).unwrap_or_default();
    let users: Vec<_> = layer
        .users
        .iter()
        .map(|path| shown(path.as_os_str().as_encoded_bytes()).to_string())
        .collect();
    let users = if users.is_empty() { "unused".to_owned() } else { users.join(" ") };
    format!("{}  {} bytes  used {} s ago  {users}", layer.name, layer.disk_bytes, age.as_secs())
}

fn said(collected: &Collected, json: bool) -> String {
    let Collected { layers, containers, bytes } = collected;
    if json {
        return json!({ "layers": layers, "containers": containers, "bytes": bytes }).to_string();
    }
    format!(
        "removed {layers} layers and the directories of {containers} containers; {bytes} bytes \
        more are free"
    )
}

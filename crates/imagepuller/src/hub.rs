//! In the confidential data hub's place: the process that holds the agent's one connection.
//!
//! Kata's agent connects to the hub's socket once. This process is what it connects to. It relays
//! image pulls to the service (`imagepuller serve`) and all other calls to the real hub, and has no
//! work of its own that could bring it down: both may end and come back, started by systemd or the
//! init. The hub gets its own configuration, with nothing changed but the socket.
//!
//! - [`configuration`]: the hub's, and the sockets that follow from it.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use crate::cli::DEFAULT_SOCKET;
use crate::error::Error;
use crate::forward::front::Front;
use crate::forward::{Others, Own};
use crate::hub::configuration::Moved;
use crate::notify;
use crate::socket::{Address, Listening};

pub mod configuration;

/// Where agents look for the hub.
pub const SOCKET: &str = "/run/confidential-containers/cdh.sock";

/// Relays until told to stop.
///
/// # Errors
///
/// [`Error::Socket`] or [`Error::Internal`]. A configuration that cannot be used does not keep
/// image pulls away: the hub's calls are answered with what is wrong with it.
pub async fn serve(
    configuration: Result<Moved, String>,
    stop: impl Future<Output = ()>,
) -> Result<(), Error> {
    let (socket, others) = match configuration {
        Ok(moved) => {
            write(&moved)?;
            (moved.socket, Others::At(moved.upstream))
        }
        Err(reason) => {
            tracing::error!("the data hub is not reached: {reason}");
            (Address::fixed(SOCKET), Others::Absent(reason))
        }
    };
    let mut front = Front::of_others(Own::At(DEFAULT_SOCKET.into()), others);
    front.serve(Listening::bind(&socket)?)?;
    notify::ready([socket.path()].into_iter());
    tokio::select! {
        () = stop => {}
        () = notify::alive() => {}
        () = front.keep() => {}
    }
    tracing::info!("stopping");
    notify::stopping();
    front.stop();
    Ok(())
}

/// Leaves the hub's configuration where the hub, or its unit, finds it.
fn write(moved: &Moved) -> Result<(), Error> {
    let file = moved.file();
    let directory = file.parent().unwrap_or(Path::new("/"));
    let written = std::fs::create_dir_all(directory)
        .and_then(|()| tempfile::NamedTempFile::new_in(directory))
        .and_then(|mut new| {
            new.write_all(moved.text.as_bytes())?;
            Ok(new.persist(&file)?)
        });
    written.map(drop).map_err(|error| internal(format!("cannot write {}: {error}", file.display())))
}

fn internal(error: impl ToString) -> Error {
    Error::Internal(error.to_string())
}

impl Moved {
    /// Where the hub's configuration is: beside its socket.
    fn file(&self) -> PathBuf {
        self.upstream.with_extension("toml")
    }
}

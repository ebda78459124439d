//! In the confidential data hub's place: the process that holds the agent's one connection.
//!
//! Kata's agent connects to the hub's socket once, and starts a hub there itself unless told not
//! to. This process is what it connects to, or what it starts. It relays image pulls to the service
//! (`imagepuller serve`) and all other calls to the real hub, and has no work of its own that could
//! bring it down: both may end and come back. The hub gets its own configuration, with nothing
//! changed but the socket.
//!
//! - [`configuration`]: the hub's, and the sockets that follow from it. [`settings`]: the image
//!   builder's. [`program`]: what is started here.

use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use futures_util::future::join_all;

use crate::error::Error;
use crate::forward::front::Front;
use crate::forward::{Others, Own};
use crate::hub::configuration::Moved;
use crate::hub::program::Program;
use crate::hub::settings::Settings;
use crate::notify;
use crate::socket::{Address, Listening};

pub mod configuration;
pub mod program;
pub mod settings;

/// Where agents look for the hub.
pub const SOCKET: &str = "/run/confidential-containers/cdh.sock";

/// Relays, with the programs that the settings name, until told to stop.
///
/// # Errors
///
/// [`Error::Socket`] or [`Error::Internal`]. A configuration that cannot be used does not keep
/// image pulls away: the hub's calls are answered with what is wrong with it.
pub async fn serve(
    settings: Settings,
    configuration: Result<Moved, String>,
    stop: impl Future<Output = ()>,
) -> Result<(), Error> {
    let mut programs = Vec::new();
    let (socket, others) = match configuration {
        Ok(moved) => {
            write(&moved)?;
            if let Some(hub) = settings.hub {
                let mut command = Command::new(&hub);
                command.arg("-c").arg(moved.file());
                programs.push(Program::new("the data hub", command));
            }
            (moved.socket, Others::At(moved.upstream))
        }
        Err(reason) => {
            tracing::error!("the data hub is not started: {reason}");
            (Address::fixed(SOCKET), Others::Absent(reason))
        }
    };
    if let Some(arguments) = settings.serve {
        let mut command = Command::new(std::env::current_exe().map_err(internal)?);
        let listen = format!("unix:{}", settings.puller.display());
        // By the name of the hub, which a copy of it has, it would be this command again.
        command.arg0("imagepuller");
        command.args(["serve", "--listen", &listen]).args(arguments);
        programs.push(Program::new("the image puller", command));
    }
    let mut front = Front::of_others(Own::At(settings.puller), others);
    front.serve(Listening::bind(&socket)?)?;
    notify::ready([socket.path()].into_iter());
    let kept = async {
        join_all(programs.iter_mut().map(Program::keep)).await;
        std::future::pending().await
    };
    tokio::select! {
        () = stop => {}
        () = notify::alive() => {}
        () = front.keep() => {}
        () = kept => {}
    }
    tracing::info!("stopping");
    notify::stopping();
    front.stop();
    join_all(programs.iter_mut().map(Program::end)).await;
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

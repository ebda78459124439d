//! The sockets, and the forwarding of calls that belong to another program.
//!
//! A stock agent knows one socket for image pulls and for the confidential data hub's secrets,
//! mounts and resources. A socket of that name is served as the hub's: each frame is looked at,
//! requests for this program's services are answered here, or by the service in another process,
//! and every other frame goes to the hub behind, unchanged. So services that the hub gets one day
//! need no change here. Without a hub such calls get a status that says what is missing. On other
//! sockets every call is answered here.
//!
//! - `frame`: who a frame is for, and statuses as frames.
//! - `relay`: one caller; `upstream`: that caller's connection to another program.
//! - `front`: the sockets, which stay where callers look for them.

pub mod frame;
pub mod front;
mod relay;
mod upstream;

use std::path::PathBuf;
use std::time::Duration;

use tokio::sync::mpsc;
use ttrpc::r#async::transport::Socket;

/// Who answers the calls that come in on a socket.
#[derive(Clone, Debug)]
pub enum Route {
    /// This process, all of them.
    Here(mpsc::Sender<Socket>),
    /// This program's own ones one side, all others the other.
    Hub(Own, Others),
}

/// Who has this program's services.
#[derive(Clone, Debug)]
pub enum Own {
    /// This process.
    Here(mpsc::Sender<Socket>),
    /// The process that listens there, which may end and come back.
    At(PathBuf),
}

/// How long a program may take to come back before its calls are given up: longer would also hold
/// up the other calls of the same caller.
const RESTART: Duration = Duration::from_secs(20);

/// Who has a hub's other services.
#[derive(Clone, Debug)]
pub enum Others {
    /// The program that listens there.
    At(PathBuf),
    /// Nobody, for this reason.
    Absent(String),
}

//! The sockets, and the forwarding of calls that belong to another program.
//!
//! A stock agent knows one socket for image pulls and for the confidential data hub's secrets,
//! mounts and resources. A socket of that name is served as the hub's: each frame is looked at,
//! requests for this program's services are answered here, and every other frame goes to the
//! program at `upstream`, unchanged. So services that the hub gets one day need no change here.
//! Without an upstream such calls get a status that says what is missing. On other sockets every
//! call is answered here.
//!
//! - `frame`: who a frame is for, and statuses as frames.
//! - `relay`: one caller; `upstream`: that caller's connection to the other program.

use std::path::{Path, PathBuf};
use std::time::Duration;

use futures_util::stream;
use tokio::net::UnixListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use ttrpc::r#async::transport::{Listener, Socket};

pub mod frame;
mod relay;
mod upstream;

/// The name of the socket that agents look for; a socket called so, wherever it is, is served as
/// the hub's.
const HUB_SOCKET: &str = "cdh.sock";

/// The pause after a connection could not be taken: commonly there are no descriptors left, and
/// trying on would only burn time.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How many bytes of frames for this program's own services may be on their way inside it, for one
/// caller.
const LOCAL_BUFFER: usize = 64 << 10;

/// Connections for the services, from all sockets.
#[derive(Debug)]
pub struct Front {
    upstream: Option<PathBuf>,
    connections: mpsc::Sender<Socket>,
    sockets: Vec<JoinHandle<()>>,
}

impl Front {
    /// A front without sockets, and what the ttrpc server listens on.
    pub fn new(upstream: Option<PathBuf>) -> (Self, Listener) {
        let (connections, waiting) = mpsc::channel(1);
        let front = Self {
            upstream,
            connections,
            sockets: Vec::new(),
        };
        let waiting = stream::unfold(waiting, |mut waiting: mpsc::Receiver<Socket>| async {
            let socket = waiting.recv().await?;
            Some((Ok(socket), waiting))
        });
        (front, Listener::new(waiting))
    }

    /// Takes connections of a socket from now on.
    pub fn serve(&mut self, listener: UnixListener, path: &Path) {
        let is_hub = path.file_name().is_some_and(|name| name == HUB_SOCKET);
        let upstream = is_hub.then(|| self.upstream.clone());
        self.sockets.push(tokio::spawn(accept(
            listener,
            upstream,
            self.connections.clone(),
        )));
    }

    /// Takes no more connections; those that exist stay.
    pub fn stop(&mut self) {
        for socket in self.sockets.drain(..) {
            socket.abort();
        }
    }
}

/// Hands connections on until the services are gone.
///
/// `hub` is there where frames have to be looked at, with the other program if there is one.
async fn accept(
    listener: UnixListener,
    hub: Option<Option<PathBuf>>,
    connections: mpsc::Sender<Socket>,
) {
    loop {
        let caller = match listener.accept().await {
            Ok((caller, _)) => caller,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be taken");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let connection = match &hub {
            None => Socket::from(caller),
            Some(upstream) => {
                let (ours, services) = tokio::io::duplex(LOCAL_BUFFER);
                // Ends when the caller hangs up, and when the services end.
                tokio::spawn(relay::relay(caller, ours, upstream.clone()));
                Socket::new(services)
            }
        };
        if connections.send(connection).await.is_err() {
            return;
        }
    }
}

//! The sockets of a service: connections are taken from them, and their names are kept.

use std::time::Duration;

use futures_util::stream;
use tokio::net::UnixListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use ttrpc::r#async::transport::{Listener, Socket};

use super::relay::{self, Services};
use super::{Others, Own, Route};
use crate::blocking::blocking;
use crate::error::{Error, chain};
use crate::socket::Listening;

/// The name of the socket that agents look for; a socket called so, wherever it is, is served as
/// the hub's.
const HUB_SOCKET: &str = "cdh.sock";

/// How long a socket may be gone before it is missed.
const LOOK: Duration = Duration::from_secs(1);

/// The pause after a connection could not be taken: commonly there are no descriptors left, and
/// trying on would only burn time.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// How many bytes of frames for this program's own services may be on their way inside it, for one
/// caller.
const LOCAL_BUFFER: usize = 64 << 10;

/// What to do about an agent that starts a hub of the image's.
const REMEDY: &str = "; if Kata's agent did that, start the guest with the kernel parameter \
    agent.guest_components_procs=none or =attestation-agent";

/// Connections, from all sockets.
#[derive(Debug)]
pub struct Front {
    /// For a socket with the hub's name.
    hub: Route,
    /// For any other.
    plain: Route,
    sockets: Vec<Served>,
}

#[derive(Debug)]
struct Served {
    listening: Listening,
    route: Route,
    accepting: JoinHandle<()>,
    /// Why the name cannot be taken back, as it was logged.
    trouble: Option<String>,
}

impl Front {
    /// A front without sockets for the services of this process, and what the ttrpc server listens
    /// on. The hub's other services are with `others`.
    pub fn of_services(others: Others) -> (Self, Listener) {
        let (connections, waiting) = mpsc::channel(1);
        let front = Self {
            hub: Route::Hub(Own::Here(connections.clone()), others),
            plain: Route::Here(connections),
            sockets: Vec::new(),
        };
        let waiting = stream::unfold(waiting, |mut waiting: mpsc::Receiver<Socket>| async {
            let socket = waiting.recv().await?;
            Some((Ok(socket), waiting))
        });
        (front, Listener::new(waiting))
    }

    /// A front without sockets and without services, whose calls all go to other processes.
    pub fn of_others(own: Own, others: Others) -> Self {
        let hub = Route::Hub(own, others);
        Self { plain: hub.clone(), hub, sockets: Vec::new() }
    }

    /// Takes connections of a socket from now on.
    ///
    /// # Errors
    ///
    /// [`Error::Socket`].
    pub fn serve(&mut self, listening: Listening) -> Result<(), Error> {
        let name = listening.path().file_name();
        let route = match name.is_some_and(|name| name == HUB_SOCKET) {
            true => self.hub.clone(),
            false => self.plain.clone(),
        };
        tracing::info!(socket = %listening.path().display(), "listening");
        self.sockets.push(Served {
            accepting: accepting(&listening, route.clone())?,
            listening,
            route,
            trouble: None,
        });
        Ok(())
    }

    /// Takes back the names of sockets that another process removed or took, as soon as nobody else
    /// listens there. Does not end.
    pub async fn keep(&mut self) {
        let mut turns = tokio::time::interval(LOOK);
        loop {
            turns.tick().await;
            for socket in &mut self.sockets {
                socket.keep().await;
            }
        }
    }

    /// Takes no more connections, and leaves the names; connections that exist stay.
    pub fn stop(&mut self) {
        for socket in self.sockets.drain(..) {
            socket.accepting.abort();
        }
    }
}

impl Served {
    async fn keep(&mut self) {
        if self.listening.is_found() {
            self.trouble = None;
            return;
        }
        let address = self.listening.address();
        let again = blocking(move || Listening::bind(&address)).await;
        let again = again.and_then(|new| Ok((accepting(&new, self.route.clone())?, new)));
        let path = self.listening.path().display();
        let remedy = match self.route {
            Route::Hub(..) => REMEDY,
            Route::Here(_) => "",
        };
        match again {
            Ok((accepting, new)) => {
                tracing::error!(
                    "another process removed the socket {path}; it is there \
                    again{remedy}"
                );
                self.accepting.abort();
                self.accepting = accepting;
                self.listening = new;
                self.trouble = None;
            }
            Err(error) => {
                let trouble = chain(&error);
                if self.trouble.as_ref() != Some(&trouble) {
                    tracing::error!(
                        "no call arrives at {path} any more, because another process \
                        removed or replaced the socket, and it cannot be taken back yet: \
                        {trouble}{remedy}"
                    );
                    self.trouble = Some(trouble);
                }
            }
        }
    }
}

fn accepting(listening: &Listening, route: Route) -> Result<JoinHandle<()>, Error> {
    let listener = listening.listener().map_err(|error| Error::Socket {
        path: listening.path().to_owned(),
        rule: format!("cannot be served: {error}"),
    })?;
    Ok(tokio::spawn(accept(listener, route)))
}

/// Hands connections on until the services are gone.
async fn accept(listener: UnixListener, route: Route) {
    loop {
        let caller = match listener.accept().await {
            Ok((caller, _)) => caller,
            Err(error) => {
                tracing::warn!(%error, "a connection could not be taken");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        // A relay ends when the caller hangs up, and when the services end.
        let (connections, connection) = match &route {
            Route::Here(connections) => (connections, Socket::from(caller)),
            Route::Hub(Own::Here(connections), others) => {
                let (ours, services) = tokio::io::duplex(LOCAL_BUFFER);
                let own = Services::Here(ours);
                tokio::spawn(relay::relay(caller, own, others.clone()));
                (connections, Socket::new(services))
            }
            Route::Hub(Own::At(path), others) => {
                let own = Services::At(path.clone());
                tokio::spawn(relay::relay(caller, own, others.clone()));
                continue;
            }
        };
        if connections.send(connection).await.is_err() {
            return;
        }
    }
}

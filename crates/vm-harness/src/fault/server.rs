//! The registry itself: a listener, a thread for each connection, and what was asked.

use std::collections::BTreeMap;
use std::io;
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

use anyhow::{Context, Result};
use rustls::ServerConfig;

use super::alter::Situation;
use super::answer::Answer;
use super::content::{Content, What};
use super::http1::{self, After};
use super::login::Tokens;
use super::request::Request;
use super::script::Script;
use super::tls::{Tls, server_config};
use super::wire::Wire;
use super::{http2, range};

/// A running registry; stopped when dropped.
#[derive(Debug)]
pub struct FaultRegistry {
    shared: Arc<Shared>,
    listener: Option<JoinHandle<()>>,
}

#[derive(Debug)]
pub(super) struct Shared {
    address: SocketAddr,
    base: String,
    content: Content,
    script: Script,
    tokens: Tokens,
    tls: Option<Arc<ServerConfig>>,
    is_stopped: Arc<AtomicBool>,
    /// How many connections there were.
    connections: AtomicUsize,
    /// Those that are open, to end them.
    open: Mutex<BTreeMap<usize, TcpStream>>,
    asked: Mutex<Asked>,
}

#[derive(Debug, Default)]
struct Asked {
    requests: Vec<Request>,
    /// For each rule, how many requests it looked at.
    counts: Vec<usize>,
}

impl FaultRegistry {
    /// Starts a registry on a free port of 127.0.0.1.
    ///
    /// # Errors
    ///
    /// Where certificate and key are none, or there is no port.
    pub fn start(content: Content, script: Script, tls: Option<&Tls<'_>>) -> Result<Self> {
        Self::listen(([127, 0, 0, 1], 0).into(), content, script, tls)
    }

    /// Starts a registry on this address.
    ///
    /// # Errors
    ///
    /// Where certificate and key are none, or the address cannot be listened on.
    pub fn listen(
        address: SocketAddr,
        content: Content,
        script: Script,
        tls: Option<&Tls<'_>>,
    ) -> Result<Self> {
        let listener = TcpListener::bind(address).context("failed to listen")?;
        let address = listener.local_addr().context("failed to listen")?;
        let base = match tls {
            Some(tls) => format!("https://{}:{}", tls.name, address.port()),
            None => format!("http://{address}"),
        };
        let counts = vec![0; script.rules.len()];
        let shared = Arc::new(Shared {
            address,
            base,
            content,
            script,
            tokens: Tokens::default(),
            tls: tls.map(server_config).transpose()?.map(Arc::new),
            is_stopped: Arc::default(),
            connections: AtomicUsize::new(0),
            open: Mutex::default(),
            asked: Mutex::new(Asked {
                requests: Vec::new(),
                counts,
            }),
        });
        let accepting = shared.clone();
        let listener = std::thread::spawn(move || accepting.accept(&listener));
        Ok(Self {
            shared,
            listener: Some(listener),
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.shared.address
    }

    /// Its own address, such as `https://localhost:5000`.
    #[must_use]
    pub fn base(&self) -> &str {
        &self.shared.base
    }

    /// Every request so far.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        lock(&self.shared.asked).requests.clone()
    }

    /// How many connections there were.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }
}

impl Drop for FaultRegistry {
    fn drop(&mut self) {
        self.shared.is_stopped.store(true, Ordering::SeqCst);
        for stream in lock(&self.shared.open).values() {
            let _ = stream.shutdown(Shutdown::Both);
        }
        // The listener looks up only when somebody comes.
        let _ = TcpStream::connect(self.shared.address);
        if let Some(listener) = self.listener.take() {
            let _ = listener.join();
        }
    }
}

impl Shared {
    fn accept(self: &Arc<Self>, listener: &TcpListener) {
        for stream in listener.incoming().flatten() {
            if self.is_stopped.load(Ordering::SeqCst) {
                return;
            }
            let number = self.connections.fetch_add(1, Ordering::SeqCst) + 1;
            if let Ok(clone) = stream.try_clone() {
                lock(&self.open).insert(number, clone);
            }
            let shared = self.clone();
            std::thread::spawn(move || {
                // A client that leaves in the middle is what many of the faults are for.
                let _ = shared.serve(stream, number);
                lock(&shared.open).remove(&number);
            });
        }
    }

    fn serve(&self, stream: TcpStream, number: usize) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let stop = self.is_stopped.clone();
        if let Some(how) = self.script.connection(number) {
            // The clone that is kept for stopping would hold the connection open.
            lock(&self.open).remove(&number);
            Wire::plain(stream, stop).end(how);
            return Ok(());
        }
        let mut wire = match &self.tls {
            Some(config) => Wire::tls(stream, config, stop)?,
            None => Wire::plain(stream, stop),
        };
        if wire.is_http2() {
            let after = http2::serve(&mut wire, number, self);
            self.leave(wire, number, after?);
            return Ok(());
        }
        loop {
            let Some(mut request) = Request::read(&mut wire)? else {
                return Ok(());
            };
            request.connection = number;
            let is_last = request
                .header("connection")
                .is_some_and(|value| value.eq_ignore_ascii_case("close"));
            let answer = self.answer(request);
            match http1::write(&mut wire, &answer)? {
                After::Next if !is_last => {}
                after => {
                    self.leave(wire, number, after);
                    return Ok(());
                }
            }
        }
    }

    fn leave(&self, wire: Wire, number: usize, after: After) {
        match after {
            After::End(how) => {
                if how != super::End::Stall {
                    lock(&self.open).remove(&number);
                }
                wire.end(how);
            }
            After::Next | After::Finish => wire.finish(),
        }
    }

    /// The answer to a request, remembered and altered as the script says.
    pub(super) fn answer(&self, mut request: Request) -> Answer {
        let (mut whole, what) = Answer::of(&self.content, &request);
        request.what = what;
        let mut is_before_login = false;
        if let Some(login) = &self.script.login {
            if request.path == "/token" {
                request.what = What::Token;
                whole = self.tokens.give(login, &request);
            } else if let Some(challenge) = self.tokens.challenge(login, &request) {
                is_before_login = true;
                request.is_challenged = true;
                whole = challenge;
            }
        }
        whole.body.is_withheld = request.method == "HEAD";
        let situation = Situation {
            request: &request,
            base: &self.base,
            names: &self.script.names,
            whole: &whole,
        };
        let mut answer = whole.clone();
        if answer.status == 200 {
            range::apply(&mut answer, &request);
        }
        situation.fill_in(&mut answer);
        if let Some(place) = self.rule(&request, is_before_login) {
            for action in &self.script.rules[place].actions {
                situation.alter(&mut answer, action);
            }
        }
        lock(&self.asked).requests.push(request);
        answer
    }

    /// Counts a request with all rules that look at it, and gives the first that applies.
    fn rule(&self, request: &Request, is_before_login: bool) -> Option<usize> {
        let mut asked = lock(&self.asked);
        let mut found = None;
        for (place, rule) in self.script.rules.iter().enumerate() {
            let method = rule.method.as_ref();
            let looks = rule.before_login == is_before_login
                && rule.what.covers(&request.what, &request.path)
                && method.is_none_or(|method| *method == request.method);
            if looks {
                asked.counts[place] += 1;
                if rule.applies(asked.counts[place]) {
                    found = found.or(Some(place));
                }
            }
        }
        found
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

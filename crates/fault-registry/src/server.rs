//! The registry itself: a listener, a thread for each connection, and what was asked.

use std::io::{self, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use anyhow::{Context, Result};
use rustls::ServerConfig;
use test_http::{Incoming, Listener, Ticket};

use crate::action::Action;
use crate::alter::Situation;
use crate::answer::Answer;
use crate::content::{Content, What};
use crate::http1::{self, After};
use crate::login::Tokens;
use crate::request::Request;
use crate::script::Script;
use crate::tls::{Http, Tls, server_config};
use crate::wire::Wire;
use crate::{http2, range};

/// How long requests that are to come together are waited for.
const TOGETHER_LIMIT: Duration = Duration::from_secs(20);

/// A running registry; stopped when dropped.
#[derive(Debug)]
pub struct FaultRegistry {
    shared: Arc<Shared>,
    listener: Listener,
}

#[derive(Debug)]
pub(super) struct Shared {
    /// Set before any request is answered.
    base: OnceLock<String>,
    content: Content,
    script: Script,
    tokens: Tokens,
    tls: Option<Arc<ServerConfig>>,
    http: Http,
    asked: Mutex<Asked>,
    /// There is one request more.
    one_more: Condvar,
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
        let counts = vec![0; script.rules.len()];
        let shared = Arc::new(Shared {
            base: OnceLock::new(),
            content,
            script,
            tokens: Tokens::default(),
            tls: tls.map(server_config).transpose()?.map(Arc::new),
            http: tls.map_or(Http::One, |tls| tls.http),
            asked: Mutex::new(Asked { requests: Vec::new(), counts }),
            one_more: Condvar::new(),
        });
        let serving = shared.clone();
        let listener = Listener::start(address, move |stream, ticket| {
            // A client that leaves in the middle is what many of the faults are for.
            let _ = serving.serve(stream, ticket);
        })
        .context("failed to listen")?;
        let address = listener.address();
        let base = match tls {
            Some(tls) => format!("https://{}:{}", tls.name, address.port()),
            None => format!("http://{address}"),
        };
        let _ = shared.base.set(base);
        Ok(Self { shared, listener })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.listener.address()
    }

    /// Its own address, such as `https://localhost:5000`.
    #[must_use]
    pub fn base(&self) -> &str {
        self.shared.base()
    }

    /// Every request so far.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        lock(&self.shared.asked).requests.clone()
    }

    /// How many connections there were.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.listener.connections()
    }
}

impl Shared {
    fn base(&self) -> &str {
        self.base.wait()
    }

    fn serve(&self, stream: TcpStream, ticket: Ticket) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let number = ticket.number();
        if let Some(how) = self.script.connection(number) {
            Wire::plain(stream, ticket).end(how);
            return Ok(());
        }
        let mut wire = match &self.tls {
            Some(config) => Wire::tls(stream, config, ticket)?,
            None => Wire::plain(stream, ticket),
        };
        if wire.is_http2() {
            let (wire, after) = http2::serve(wire, number, self)?;
            leave(wire, after);
            return Ok(());
        }
        if matches!(self.http, Http::TwoHangsUp | Http::TwoFrames) {
            http2::refuse(&mut wire, self.http == Http::TwoFrames)?;
            leave(wire, After::Finish);
            return Ok(());
        }
        loop {
            let mut request = match test_http::Request::read(&mut wire)? {
                Incoming::Request(read) => Request::of(read),
                Incoming::Nothing => return Ok(()),
                // As most servers do where TLS is begun with them and they have none.
                Incoming::Handshake => {
                    wire.write_all(test_http::head("400 Bad Request", "").as_bytes())?;
                    wire.finish();
                    return Ok(());
                }
            };
            request.connection = number;
            let is_last = request
                .header("connection")
                .is_some_and(|value| value.eq_ignore_ascii_case("close"));
            let answer = self.answer(request);
            match http1::write(&mut wire, &answer)? {
                After::Next if !is_last => {}
                after => {
                    leave(wire, after);
                    return Ok(());
                }
            }
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
            base: self.base(),
            names: &self.script.names,
            whole: &whole,
        };
        let mut answer = whole.clone();
        if answer.status == 200 {
            range::apply(&mut answer, &request);
        }
        situation.fill_in(&mut answer);
        let place = self.rule(&request, is_before_login);
        let actions = place.map_or(&[][..], |place| &self.script.rules[place].actions);
        for action in actions {
            situation.alter(&mut answer, action);
        }
        lock(&self.asked).requests.push(request);
        for action in actions {
            if let (Action::Together(count), Some(place)) = (action, place)
                && !self.came_together(place, *count)
            {
                answer = Answer::new(503, Vec::new());
            }
        }
        answer
    }

    /// Waits until a rule has looked at so many requests. Whether it ever did.
    fn came_together(&self, place: usize, count: usize) -> bool {
        let is_short = |asked: &mut Asked| asked.counts[place] < count;
        let asked = lock(&self.asked);
        let waited = self.one_more.wait_timeout_while(asked, TOGETHER_LIMIT, is_short);
        !waited.unwrap_or_else(PoisonError::into_inner).1.timed_out()
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
                self.one_more.notify_all();
                if rule.applies(asked.counts[place]) {
                    found = found.or(Some(place));
                }
            }
        }
        found
    }
}

fn leave(wire: Wire, after: After) {
    match after {
        After::End(how) => wire.end(how),
        After::Next | After::Finish => wire.finish(),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! Recording registries and proxies of this machine, and a pull that meets them.

use std::fmt::Write as _;
use std::io::{Read, Write as _};
use std::net::TcpStream;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use imagepuller::error::chain;
use imagepuller::pull::Options;
use imagepuller::pull::output::{Wanted, pull_to};
use imagepuller::watch::{Watch, silent};
use oci_image::named::NamedReference;
use registry_client::{Documents, Patience};
use registry_config::ResourceSource;
use tempfile::TempDir;
use test_http::pki::{Authority, Identity};
use test_http::{Incoming, Listener, Request, Server, head, ok};

use super::documents::Case;
use super::reference;

/// The hosts of registries and mirrors. Those below `corp` are found by proxies only.
pub const HOSTS: [&str; 4] = ["localhost", "127.0.0.1", "a.corp", "b.team.corp"];

/// How those begin whom no registry knows.
pub const REFUSED: &str = "n";

/// The token that every token server gives.
const ISSUED: &str = "issued";

/// One source that was asked.
#[derive(Debug, PartialEq, Eq)]
pub struct Visit {
    pub host: String,
    pub is_tls: bool,
    /// What stands before `/v2/`.
    pub path: String,
    /// The name of the repository there.
    pub repository: String,
    /// The registry that a mirror is to answer for.
    pub namespace: Option<String>,
    /// The port of the proxy on the way.
    pub proxy: Option<u16>,
    /// Whose client certificate the puller showed.
    pub client: Option<Party>,
    /// Who the puller said that it is, one after another.
    pub who: Vec<String>,
}

impl Visit {
    /// Whether it is of the same source, whoever asks.
    fn is_at_place_of(&self, other: &Self) -> bool {
        let place = |visit: &Self| {
            let Self { host, path, repository, namespace, .. } = visit;
            [host, path, repository, namespace.as_ref().unwrap_or(host)].map(Clone::clone)
        };
        place(self) == place(other)
    }
}

/// Who wrote a document; each has a client certificate of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Party {
    Host,
    Owner,
}

#[derive(Debug)]
enum Event {
    Asked { is_tls: bool, request: Request },
    Passed { proxy: u16, is_tunnel: bool, target: String },
}

type Log = Arc<Mutex<Vec<Event>>>;

pub struct Place {
    pub port: u16,
    /// Whose certificate it shows, or that it speaks no TLS.
    pub authority: Option<usize>,
    _server: Server,
}

/// Where registries send the puller instead of serving it: to one of the strangers.
#[derive(Clone, Copy, Debug, Default)]
pub enum Lure {
    #[default]
    Nowhere,
    /// As to a token server.
    Realm(usize),
    /// By a redirect.
    Redirect(usize),
}

pub struct World {
    /// The certificate of each [`Party`].
    pub clients: [Identity; 2],
    pub authorities: [Authority; 2],
    pub servers: Vec<Place>,
    pub proxies: [u16; 2],
    pub folder: TempDir,
    /// Servers that no document of a [`Case`] names: one with TLS, one without.
    strangers: [Server; 2],
    /// Whose certificate the first one shows.
    stranger: Authority,
    lure: Arc<Mutex<Lure>>,
    log: Log,
    _listeners: Vec<Listener>,
}

pub struct Files {
    pub configuration: String,
    pub measured: String,
}

impl World {
    pub fn start() -> Self {
        let log = Log::default();
        let authorities = ["first", "second"].map(|name| Authority::new(name).unwrap());
        let of_clients = Authority::new("of clients").unwrap();
        let (stranger, lure) = (Authority::new("stranger").unwrap(), Arc::<Mutex<Lure>>::default());
        let strangers = [Some(&stranger), None].map(|tls| Server::start(tls, temptation));
        let bases = ["https", "http"].into_iter().zip(&strangers);
        let bases = bases.map(|(scheme, server)| format!("{scheme}://localhost:{}", server.port));
        let bases: Vec<String> = bases.collect();
        let clients = ["host", "owner"].map(|name| of_clients.sign_client(name).unwrap());
        let servers = [Some(0), Some(0), Some(1), None, None].map(|authority: Option<usize>| {
            let tls = authority.map(|index| {
                let asking = authorities[index].server_config_asking(&HOSTS, &of_clients);
                asking.unwrap()
            });
            let (log, is_tls) = (log.clone(), tls.is_some());
            let (lure, bases) = (lure.clone(), bases.clone());
            let server = Server::start_with(tls, move |request: &Request| {
                let answer = answer(request, is_tls, *lure.lock().unwrap(), &bases);
                let request = request.clone();
                log.lock().unwrap().push(Event::Asked { is_tls, request });
                answer
            });
            Place { port: server.port, authority, _server: server }
        });
        let listeners = [(), ()].map(|()| proxy(&log));
        let world = Self {
            proxies: [0, 1].map(|index: usize| listeners[index].address().port()),
            folder: tempfile::tempdir().unwrap(),
            clients,
            authorities,
            servers: servers.into(),
            strangers,
            stranger,
            lure,
            log,
            _listeners: listeners.into(),
        };
        world.write_resources();
        world
    }

    /// A docker configuration that names every host, one that names those of the first and of the
    /// last server, and the roots of the first authority.
    fn write_resources(&self) {
        let config = |servers: &[&Place]| {
            let names = servers.iter().flat_map(|place| names(place.port));
            // Every second one is an identity token.
            let entry = |(index, name): (usize, String)| {
                let user = fetched_user(&name);
                let auth = BASE64_STANDARD.encode(format!("{user}:x"));
                let (key, value) = [("auth", auth), ("identitytoken", user)][index % 2].clone();
                format!("\"{name}\":{{\"{key}\":\"{value}\"}}")
            };
            let entries: Vec<_> = names.enumerate().map(entry).collect();
            BASE64_STANDARD.encode(format!("{{\"auths\":{{{}}}}}", entries.join(",")))
        };
        let all: Vec<_> = self.servers.iter().collect();
        let resources = serde_json::json!({
            "default/credential/test": config(&all),
            "default/credential/some": config(&[all[0], all[all.len() - 1]]),
            "default/ca/test": BASE64_STANDARD.encode(self.authorities[0].certificate()),
        });
        std::fs::write(self.folder.path().join("resources"), resources.to_string()).unwrap();
    }

    pub fn write(&self, case: &Case) -> Files {
        self.write_texts(&case.configuration.text, &case.measured.text)
    }

    pub fn write_texts(&self, configuration: &str, measured: &str) -> Files {
        let write = |name: &str, text: &str| {
            let path = self.folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            path.to_str().unwrap().to_owned()
        };
        Files {
            configuration: write("imagepuller.toml", configuration),
            measured: write("measured.toml", measured),
        }
    }

    /// Whom the guest asks, and how its pull ends.
    pub fn pull(&self, files: &Files, image: &str) -> (Vec<Visit>, String) {
        self.pull_by(documents(files), image)
    }

    /// What a stranger is sent where every registry sends the puller to it, under documents of
    /// which one has an entry that trusts it; and whom else the guest asked.
    pub fn tempt(
        &self,
        lure: Lure,
        is_trusted_by: Party,
        case: &Case,
    ) -> (Vec<Request>, Vec<Visit>) {
        let (Lure::Realm(index) | Lure::Redirect(index)) = lure else {
            return Default::default();
        };
        let stranger = &self.strangers[index];
        let [mut host, mut owner] =
            [&case.configuration, &case.measured].map(|document| document.text.clone());
        let entry = format!("[registries.\"localhost:{}\"]\n", stranger.port);
        match is_trusted_by {
            Party::Host if index == 0 => {
                let roots = self.stranger.certificate();
                write!(host, "{entry}ca-certs = \"\"\"\n{roots}\"\"\"\n").unwrap();
            }
            Party::Host => host.push_str(&format!("{entry}plain-http = true\n")),
            // The owner's own word, which does not hold for a secret.
            Party::Owner => {
                let weak = "insecure-skip-verify = true\nplain-http = true\n";
                owner.push_str(&format!("{entry}{weak}"));
            }
        }
        let files = self.write_texts(&host, &owner);
        let before = stranger.requests().len();
        *self.lure.lock().unwrap() = lure;
        let (visits, _) = self.pull(&files, &reference(&case.image));
        *self.lure.lock().unwrap() = Lure::Nowhere;
        (stranger.requests().split_off(before), visits)
    }

    /// The same, by any documents.
    pub fn pull_by(&self, documents: Documents, image: &str) -> (Vec<Visit>, String) {
        self.log.lock().unwrap().clear();
        let source = format!("file={}", self.folder.path().join("resources").display());
        let options = Options {
            patience: Patience {
                attempts: Some(1),
                connect: Duration::from_secs(5),
                ..Patience::default()
            },
            source: Some(ResourceSource::parse(&source).unwrap()),
            ..Options::default()
        };
        let wanted = Wanted {
            name: NamedReference::parse(image).unwrap(),
            written: image.to_owned(),
            may_be_unpinned: false,
        };
        let output = self.folder.path().join("output");
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let watch = Watch::new(image, silent);
        let pulled = runtime.block_on(pull_to(&wanted, &output, documents, options, &watch));
        (self.visits(), chain(&pulled.expect_err("no server has the image")))
    }

    /// The keys of an entry that has the client certificate of this party.
    pub fn client_keys(&self, party: Party) -> String {
        let Identity { certificate, key } = &self.clients[party as usize];
        format!("client-cert = \"\"\"\n{certificate}\"\"\"\nclient-key = \"\"\"\n{key}\"\"\"\n")
    }

    /// Whose client certificate a request came with.
    fn client(&self, request: &Request) -> Option<Party> {
        let shown = BASE64_STANDARD.encode(request.client.as_ref()?);
        let is_it = |identity: &Identity| {
            let lines = identity.certificate.lines();
            let text: String = lines.filter(|line| !line.starts_with("-----")).collect();
            text == shown
        };
        let at = self.clients.iter().position(is_it).unwrap();
        Some([Party::Host, Party::Owner][at])
    }

    /// What was recorded, as one visit for each source.
    fn visits(&self) -> Vec<Visit> {
        let log = self.log.lock().unwrap();
        let mut visits: Vec<Visit> = Vec::new();
        let mut passed = None;
        for event in log.iter() {
            let (is_tls, request) = match event {
                Event::Passed { proxy, is_tunnel, target } => {
                    passed = Some((*proxy, (*is_tunnel, target.as_str())));
                    continue;
                }
                Event::Asked { is_tls, request } => (*is_tls, request),
            };
            // What the puller did not trust is passed and not asked.
            let here = (is_tls, request.header("host").unwrap_or_default());
            let way = passed.take().filter(|(_, there)| *there == here);
            let proxy = way.map(|(port, _)| port);
            if let Some(visit) = visits.last_mut().filter(|_| request.target.contains("/token")) {
                assert_eq!(visit.proxy, proxy, "the way to the token server");
                assert_eq!(visit.client, self.client(request), "at the token server");
                visit.who.extend(account(request));
                continue;
            }
            let target = request.target.split("://").last().unwrap_or_default();
            let target = &target[target.find('/').unwrap_or_default()..];
            let (path, query) = target.split_once('?').unwrap_or((target, ""));
            let namespace = query.strip_prefix("ns=").map(|name| name.replace("%3A", ":"));
            let (path, asked) = path.split_once("/v2/").unwrap_or((path, ""));
            let visit = Visit {
                repository: asked.split("/manifests/").next().unwrap_or_default().to_owned(),
                host: request.header("host").unwrap_or_default().to_owned(),
                is_tls,
                path: path.to_owned(),
                namespace,
                proxy,
                client: self.client(request),
                who: Vec::new(),
            };
            // The second request of a source has what was earned by the first one.
            let is_second = request
                .header("authorization")
                .is_some_and(|header| header == format!("Bearer {ISSUED}"));
            // After a refusal the next account is shown to the same source.
            let is_next = |last: &&mut Visit| {
                is_second || last.who.last().is_some_and(|who| who.starts_with(REFUSED))
            };
            match visits.last_mut().filter(is_next) {
                Some(last) if is_second || last.is_at_place_of(&visit) => {
                    let mut who = std::mem::take(&mut last.who);
                    assert_eq!(*last, visit);
                    if !is_second {
                        who.extend(account(request));
                    }
                    last.who = who;
                }
                _ => visits.push(Visit { who: account(request).into_iter().collect(), ..visit }),
            }
        }
        visits
    }
}

/// How the user names of the fetched docker configuration begin.
pub const FETCHED: &str = "fetched-";

/// The user name that the fetched docker configuration has for a host and port.
pub fn fetched_user(name: &str) -> String {
    format!("{FETCHED}{}", name.replace(':', "-"))
}

fn documents(files: &Files) -> Documents {
    Documents {
        configuration: files.configuration.clone().into(),
        measured: Some(files.measured.clone().into()),
        any_address: true,
        ..Documents::default()
    }
}

fn names(port: u16) -> impl Iterator<Item = String> {
    HOSTS.iter().map(move |host| format!("{host}:{port}"))
}

/// Gives a token to who asks for one, and asks everybody else for credentials.
fn temptation(request: &Request) -> String {
    match request.target.contains("/token") {
        true => ok(&format!("{{\"token\":\"{ISSUED}\"}}")),
        false => head("401 Unauthorized", "WWW-Authenticate: Basic realm=\"x\"\r\n"),
    }
}

/// A registry that wants a token, gives one to everyone, and has no image.
fn answer(request: &Request, is_tls: bool, lure: Lure, bases: &[String]) -> String {
    let scheme = if is_tls { "https" } else { "http" };
    let host = request.header("host").unwrap_or_default();
    let challenge = || {
        let base = match lure {
            Lure::Realm(index) => bases[index].clone(),
            _ => format!("{scheme}://{host}"),
        };
        let realm = format!("WWW-Authenticate: Bearer realm=\"{base}/token\"\r\n");
        head("401 Unauthorized", &realm)
    };
    let is_refused = account(request).is_some_and(|who| who.starts_with(REFUSED));
    if request.target.contains("/token") {
        if is_refused {
            return head("403 Forbidden", "");
        }
        return ok(&format!("{{\"token\":\"{ISSUED}\"}}"));
    }
    match (request.header("authorization"), lure) {
        (Some(_), Lure::Redirect(index)) if !is_refused => {
            head("307 Temporary Redirect", &format!("Location: {}/blob\r\n", bases[index]))
        }
        (Some(_), _) if !is_refused => head("404 Not Found", ""),
        _ => challenge(),
    }
}

/// A proxy to which every name means this machine.
fn proxy(log: &Log) -> Listener {
    let log = log.clone();
    Listener::start(([127, 0, 0, 1], 0).into(), move |mut client, _ticket| {
        let Ok(Incoming::Request(request)) = Request::read(&mut client) else {
            return;
        };
        let is_tunnel = request.method == "CONNECT";
        let proxy = client.local_addr().unwrap().port();
        let target = request.target.trim_start_matches("http://");
        let target = target.split('/').next().unwrap_or_default().to_owned();
        let port = target.rsplit(':').next().map(str::parse);
        let port: u16 = port.and_then(Result::ok).unwrap_or_default();
        log.lock().unwrap().push(Event::Passed { proxy, is_tunnel, target });
        let Ok(mut server) = TcpStream::connect(("127.0.0.1", port)) else {
            return;
        };
        let begun = match is_tunnel {
            true => client.write_all(b"HTTP/1.1 200 OK\r\n\r\n"),
            false => server.write_all(request.as_bytes()),
        };
        if begun.is_ok() {
            let (up, down) = (client.try_clone().unwrap(), server.try_clone().unwrap());
            let upwards = std::thread::spawn(move || pass(up, down));
            pass(server, client);
            let _ = upwards.join();
        }
    })
    .unwrap()
}

fn pass(mut from: TcpStream, mut to: TcpStream) {
    let mut buffer = [0; 4096];
    while let Ok(read @ 1..) = from.read(&mut buffer) {
        if to.write_all(&buffer[..read]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(std::net::Shutdown::Both);
    let _ = from.shutdown(std::net::Shutdown::Both);
}

/// Who a request says that it is from.
pub fn account(request: &Request) -> Option<String> {
    let header = request.header("authorization").unwrap_or_default();
    if let Some(token) = header.strip_prefix("Bearer ") {
        return Some(token.to_owned());
    }
    if let Some(pair) = header.strip_prefix("Basic ") {
        let pair = String::from_utf8(BASE64_STANDARD.decode(pair).unwrap()).unwrap();
        return Some(pair.split(':').next().unwrap().to_owned());
    }
    let mut fields = request.body.split('&');
    let token = fields.find_map(|field| field.strip_prefix("refresh_token="));
    token.map(ToOwned::to_owned)
}

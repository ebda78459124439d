//! Documents made up from a seed, and what their author knows of each entry.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use fastrand::Rng;

use super::world::{HOSTS, Party, REFUSED, World};

/// What the author of an entry knows and `explain` does not show.
#[derive(Clone, Debug, Default)]
pub struct Secret {
    /// The user names or tokens that servers see, in the order in which they are tried.
    pub who: Vec<String>,
    /// The authorities that are trusted; `None` for the web's.
    pub roots: Option<Vec<usize>>,
    /// Whether it has a client certificate, that of its document's author.
    pub has_client: bool,
}

#[derive(Debug, Default)]
pub struct Text {
    pub text: String,
    /// By the entry's name as it is written.
    pub secrets: BTreeMap<String, Secret>,
}

#[derive(Debug)]
pub struct Case {
    pub configuration: Text,
    pub measured: Text,
    /// Registry and port of the image.
    pub image: String,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let without_roots = |text: &str| {
            let lines = text.lines().filter(|line| {
                let is_base64 = line.len() > 50 && !line.contains(' ');
                !is_base64 && !line.starts_with("-----")
            });
            lines.collect::<Vec<_>>().join("\n")
        };
        let [host, owner] = [&self.configuration, &self.measured];
        write!(f, "# host\n{}\n# owner\n{}", without_roots(&host.text), without_roots(&owner.text))
    }
}

impl Case {
    pub fn make(seed: u64, world: &World) -> Self {
        let mut rng = Rng::with_seed(seed);
        let image = address(&mut rng, world);
        let configuration = document(&mut rng, world, &image, false);
        let measured = match rng.u8(..5) {
            0..2 => document(&mut rng, world, &image, true),
            _ => Text::default(),
        };
        Self { configuration, measured, image }
    }

    /// What the entry's author knows; the owner writes names in another way.
    pub fn secret(&self, entry: &str) -> Secret {
        let [host, owner] = [&self.configuration, &self.measured];
        // Of the one name that both spell alike, "." of the owner is in charge of everything.
        let found = owner.secrets.get(entry).or_else(|| host.secrets.get(entry));
        found.cloned().unwrap_or_default()
    }
}

fn host(rng: &mut Rng) -> &'static str {
    HOSTS[rng.usize(..HOSTS.len())]
}

fn address(rng: &mut Rng, world: &World) -> String {
    let port = world.servers[rng.usize(..world.servers.len())].port;
    format!("{}:{port}", host(rng))
}

fn document(rng: &mut Rng, world: &World, image: &str, is_measured: bool) -> Text {
    let mut made = Text::default();
    if rng.u8(..20) < if is_measured { 6 } else { 19 } {
        made.text.push_str("[extra-env]\n");
        for variable in ["HTTP_PROXY", "HTTPS_PROXY"] {
            if rng.u8(..20) < 19 {
                let port = world.proxies[rng.usize(..2)];
                writeln!(made.text, "{variable} = \"http://127.0.0.1:{port}\"").unwrap();
            }
        }
        let excepted = ["", ".team.corp", "b.team.corp", "x.corp,a.corp:1", "127.0.0.0/8"];
        let excepted = excepted[rng.usize(..excepted.len())];
        writeln!(made.text, "NO_PROXY = \"{excepted}\"").unwrap();
    }
    // Two, since one that is asked twice is recorded as one visit.
    let first = address(rng, world);
    let other = std::iter::repeat_with(|| address(rng, world)).find(|other| *other != first);
    let mirrors = [first, other.unwrap()];
    let without_port = |address: &str| address.split(':').next().unwrap().to_owned();
    let names = [
        image.to_owned(),
        without_port(image),
        mirrors[0].clone(),
        without_port(&mirrors[1]),
        ".corp".to_owned(),
        ".team.corp".to_owned(),
        ".".to_owned(),
    ];
    for (index, name) in names.into_iter().enumerate() {
        // The image's own entry more often than others.
        let is_there = rng.u8(..10) < if index == 0 { 8 } else { 3 };
        let name = spelled(&name, is_measured);
        if is_there && !made.secrets.contains_key(&name) {
            let is_image = index != 2 && index != 3;
            let first = rng.usize(..2);
            let both = is_image.then(|| [mirrors[first].as_str(), mirrors[1 - first].as_str()]);
            let secret = entry(rng, world, (&name, is_measured), both, &mut made.text);
            made.secrets.insert(name, secret);
        }
    }
    // Every image is of the repository team/app; the last name holds for none of them.
    for (name, odds) in [
        (format!("{image}/team"), 2),
        (format!("{}/team/app", without_port(image)), 1),
        (format!("{image}/team/a"), 1),
    ] {
        let name = spelled(&name, is_measured);
        if rng.u8(..10) < odds {
            writeln!(made.text, "[registries.\"{name}\"]").unwrap();
            let who = credentials(rng, is_measured, &mut made.text).0;
            let secret = Secret { who, ..Secret::default() };
            made.secrets.insert(name, secret);
        }
    }
    made
}

/// Writes who the puller is: the user names or tokens, and what kind the first one is.
fn credentials(rng: &mut Rng, is_measured: bool, text: &mut String) -> (Vec<String>, u8) {
    // An owner leaves credentials to the host more often.
    let kind = rng.u8(if is_measured { 6..13 } else { 0..12 });
    let mut who = vec![user(rng)];
    match kind {
        0..=7 => writeln!(text, "{}", account(kind, &who[0]).join("\n")).unwrap(),
        8..=9 => writeln!(text, "credentials-uri = \"kbs:///default/credential/test\"").unwrap(),
        10 if is_measured => writeln!(text, "anonymous = true").unwrap(),
        _ => {}
    }
    if kind < 8 && rng.u8(..3) == 0 {
        let mut accounts = Vec::new();
        for _ in 0..rng.usize(1..4) {
            let user = user(rng);
            accounts.push(format!("{{{}}}", account(rng.u8(..8), &user).join(", ")));
            who.push(user);
        }
        writeln!(text, "also = [{}]", accounts.join(", ")).unwrap();
    }
    (who, kind)
}

/// Somebody whom every registry knows, or nobody does.
fn user(rng: &mut Rng) -> String {
    let known = if rng.u8(..3) > 0 { "w" } else { REFUSED };
    format!("{known}{}", rng.u32(..))
}

fn account(kind: u8, user: &str) -> Vec<String> {
    match kind {
        0..=3 => vec![format!("username = \"{user}\""), "password = \"x\"".to_owned()],
        4..=5 => vec![format!("registrytoken = \"{user}\"")],
        _ => vec![format!("identitytoken = \"{user}\"")],
    }
}

/// Hosts of the owner end in a dot, so that `explain` tells which document an entry is in.
fn spelled(name: &str, is_measured: bool) -> String {
    if let Some((host, repositories)) = name.split_once('/') {
        return format!("{}/{repositories}", spelled(host, is_measured));
    }
    match name.split_once(':') {
        _ if !is_measured || name == "." => name.to_owned(),
        Some((host, port)) => format!("{host}.:{port}"),
        None => format!("{name}."),
    }
}

fn entry(
    rng: &mut Rng,
    world: &World,
    (name, is_measured): (&str, bool),
    mirrors: Option<[&str; 2]>,
    text: &mut String,
) -> Secret {
    let mut secret = Secret::default();
    writeln!(text, "[registries.\"{name}\"]").unwrap();
    let (who, credentials) = credentials(rng, is_measured, text);
    secret.who = who;
    let roots = match rng.u8(..16) {
        // What is fetched is sent over TLS that fetched roots vouch for.
        _ if credentials == 8 => None,
        0..=4 => Some(vec![0]),
        5..=8 => Some(vec![1]),
        9..=12 => Some(vec![0, 1]),
        13 => Some(Vec::new()),
        _ => None,
    };
    if roots.is_none() && (credentials == 8 || rng.u8(..3) == 0) {
        writeln!(text, "ca-certs-uri = \"kbs:///default/ca/test\"").unwrap();
    }
    if let Some(roots) = &roots {
        let certificates = roots.iter().map(|index| world.authorities[*index].certificate());
        let certificates = certificates.collect::<String>();
        writeln!(text, "ca-certs = \"\"\"\n{certificates}\"\"\"").unwrap();
    }
    secret.roots = roots;
    // An owner leaves this to the host more often, too.
    if rng.u8(..6) < if is_measured { 1 } else { 3 } && credentials != 10 {
        let author = [Party::Host, Party::Owner][usize::from(is_measured)];
        text.push_str(&world.client_keys(author));
        secret.has_client = true;
    }
    let weakness = rng.u8(..12);
    if weakness < 4 {
        writeln!(text, "insecure-skip-verify = true").unwrap();
    }
    let mirrors = mirrors.filter(|_| rng.bool());
    let mirror = mirrors.map(|[first, _]| first);
    let is_plain = |mirror: &str| {
        let mut plain = world.servers.iter().filter(|place| place.authority.is_none());
        plain.any(|place| mirror.ends_with(&format!(":{}", place.port)))
    };
    let is_plain = mirror.is_some_and(is_plain) && rng.u8(..4) > 0;
    if (3..7).contains(&weakness) || is_plain && rng.u8(..4) > 0 {
        writeln!(text, "plain-http = true").unwrap();
    }
    if let Some(mirror) = mirror {
        let scheme = if is_plain { "http" } else { "https" };
        let path = ["", "/cache", "/cache/"][rng.usize(..3)];
        let url = format!("{scheme}://{mirror}{path}");
        let second = mirrors.map_or(mirror, |[_, second]| second);
        let names = ["cache", "team", "a/b"];
        let name = format!("name = \"{}\"", names[rng.usize(..3)]);
        match rng.u8(..4) {
            0 => {
                let prefix = ["team", "team/app", "tea"][rng.usize(..3)];
                let first = format!("{{url = \"{url}\", prefix = \"{prefix}\"}}");
                writeln!(text, "mirrors = [{first}, \"https://{second}\"]").unwrap();
            }
            1 => writeln!(text, "mirrors = [{{url = \"{url}\", {name}}}]").unwrap(),
            2 => {
                let name = ["name = \"\"", name.as_str()][rng.usize(..2)];
                let fallback = ["", ", fallback = false", ", fallback = true"][rng.usize(..3)];
                let keys = format!("prefix = \"team\", {name}{fallback}");
                let second = format!("{{url = \"https://{second}\", {keys}}}");
                writeln!(text, "mirrors = [\"{url}\", {second}]").unwrap();
            }
            _ => writeln!(text, "mirror = \"{url}\"").unwrap(),
        }
        if rng.u8(..3) > 0 {
            writeln!(text, "mirror-fallback = true").unwrap();
        }
    }
    secret
}

//! What the data hub does by its configuration, and what the guest's own pull does by the same
//! file: the same hosts are asked, the same way, as the same account.
//!
//! The hub's side is written down here from its recorded behaviour, apart from the room that reads
//! the file. Three things are known to differ, see `docs/credentials.md`: loopback addresses never
//! go through a proxy here, nothing fetched is sent over plain HTTP, and what is asked over plain
//! HTTP is asked over TLS first.

use std::fmt::Write as _;

use fastrand::Rng;
use registry_client::{Documents, HubConfiguration};

use super::command::run;
use super::reference;
use super::world::{HOSTS, Visit, World, fetched_user};

/// How many files are made up. Each is pulled by twice.
const CASES: u64 = 60;

/// A file, in the hub's terms.
#[derive(Debug, Default)]
struct Hub {
    image: String,
    /// The name of the docker configuration.
    credentials: Option<&'static str>,
    /// The authorities that are trusted beside the web's.
    roots: Vec<usize>,
    /// For HTTPS, for HTTP, and who is excepted.
    proxies: Option<(u16, u16, &'static str)>,
    rules: Vec<Rule>,
}

#[derive(Debug, Default)]
struct Rule {
    prefix: String,
    blocked: bool,
    /// And whether that is over plain HTTP.
    location: Option<(String, bool)>,
    mirror: Option<(String, bool)>,
}

impl Hub {
    fn make(seed: u64, world: &World) -> Self {
        let mut rng = Rng::with_seed(seed);
        let mut address = |server: usize| {
            let host = HOSTS[rng.usize(..HOSTS.len())];
            format!("{host}:{}", world.servers[server].port)
        };
        let (own, other) = (seed as usize % 5, (seed as usize / 2 + 1) % 5);
        let is_plain = |server: usize| world.servers[server].authority.is_none();
        let image = address(own);
        let target = (address(other), is_plain(other));
        let mut rules = Vec::new();
        let rule = Rule { prefix: image.clone(), ..Rule::default() };
        match rng.u8(..8) {
            0 => rules.push(Rule { blocked: true, ..rule }),
            1 => rules.push(Rule {
                prefix: "*.corp".into(),
                blocked: true,
                location: Some(target),
                ..rule
            }),
            2 => rules.push(Rule { location: Some((image.clone(), is_plain(own))), ..rule }),
            3 if target.0 != image => rules.push(Rule { location: Some(target), ..rule }),
            4 | 5 if target.0 != image => rules.push(Rule { mirror: Some(target), ..rule }),
            6 if target.0 != image => rules.push(Rule {
                mirror: Some(target),
                location: Some((image.clone(), is_plain(own))),
                ..rule
            }),
            _ => {}
        }
        let excepted = [".team.corp", "team.corp", "b.team.corp", "x.corp, .corp", "127.0.0.0/8"];
        Self {
            image,
            credentials: [None, Some("test"), Some("some")][rng.usize(..3)],
            roots: [vec![], vec![0], vec![0, 1], vec![0, 1]][rng.usize(..4)].clone(),
            proxies: (rng.u8(..4) > 0).then(|| {
                let [one, other] = world.proxies;
                (one, other, excepted[rng.usize(..excepted.len())])
            }),
            rules,
        }
    }

    /// The file, as an owner writes it.
    fn text(&self, world: &World) -> String {
        let mut text =
            "socket = 'x'\n[kbc]\nname = 'cc_kbc'\nurl = 'http://kbs'\n[image]\n".to_owned();
        if let Some(name) = self.credentials {
            let uri = format!("kbs:///default/credential/{name}");
            writeln!(text, "authenticated_registry_credentials_uri = '{uri}'").unwrap();
        }
        let roots = self.roots.iter().map(|index| world.authorities[*index].certificate());
        let roots: Vec<_> = roots.map(|root| format!("'''\n{root}'''")).collect();
        writeln!(text, "extra_root_certificates = [{}]", roots.join(",")).unwrap();
        if let Some((https, http, excepted)) = self.proxies {
            let proxy = |port| format!("'http://127.0.0.1:{port}'");
            writeln!(text, "[image.image_pull_proxy]\nhttps_proxy = {}", proxy(https)).unwrap();
            writeln!(text, "http_proxy = {}\nno_proxy = '{excepted}'", proxy(http)).unwrap();
        }
        for Rule { prefix, blocked, location, mirror } in &self.rules {
            writeln!(text, "[[image.registry_config.registry]]\nprefix = '{prefix}'").unwrap();
            if let Some((location, insecure)) = location {
                writeln!(text, "location = '{location}'\ninsecure = {insecure}").unwrap();
            }
            writeln!(text, "blocked = {blocked}").unwrap();
            if let Some((location, insecure)) = mirror {
                text.push_str("[[image.registry_config.registry.mirror]]\n");
                writeln!(text, "location = '{location}'\ninsecure = {insecure}").unwrap();
            }
        }
        text
    }

    /// Where the hub looks for the image, in order, and whether over plain HTTP.
    fn places(&self) -> Vec<(String, bool)> {
        let matches = |rule: &&Rule| match rule.prefix.strip_prefix('*') {
            Some(domain) => self.image.split(':').next().unwrap().ends_with(domain),
            None => self.image == rule.prefix,
        };
        let Some(rule) = self.rules.iter().find(matches) else {
            return vec![(self.image.clone(), false)];
        };
        if rule.blocked {
            return Vec::new();
        }
        let last = rule.location.clone().unwrap_or((self.image.clone(), false));
        rule.mirror.clone().into_iter().chain([last]).collect()
    }

    /// Whether a file means something that the document refuses: a mirror, or the registry behind
    /// one, over plain HTTP with credentials that are fetched.
    fn is_refused(&self) -> bool {
        let is_elsewhere = |rule: &&Rule| {
            let location = rule.location.as_ref().is_some_and(|(host, _)| *host != self.image);
            !rule.blocked && (location || rule.mirror.is_some())
        };
        let is_plain = |rule: &Rule| {
            let places = rule.location.iter().chain(&rule.mirror);
            places.into_iter().any(|(_, is_plain)| *is_plain)
        };
        self.credentials.is_some() && self.rules.iter().filter(is_elsewhere).any(is_plain)
    }

    /// Whom the hub asks at a place; nobody where the connection fails.
    fn visit(&self, (host, is_plain): &(String, bool), world: &World) -> Option<Visit> {
        let (name, port) = host.split_once(':').unwrap();
        let server = world.servers.iter().position(|place| place.port.to_string() == port)?;
        let is_trusted = match world.servers[server].authority {
            Some(authority) => !is_plain && self.roots.contains(&authority),
            None => *is_plain,
        };
        let is_loopback = !name.ends_with("corp");
        let proxy = self.proxies.filter(|(.., excepted)| {
            let mut items = excepted.split(',').map(|item| item.trim().trim_start_matches('.'));
            !items.any(|item| name == item || name.ends_with(&format!(".{item}")))
        });
        let proxy = proxy.filter(|_| !is_loopback);
        let proxy = proxy.map(|(https, http, _)| if *is_plain { http } else { https });
        let is_named = match self.credentials {
            None => false,
            Some("some") => server == 0 || server == world.servers.len() - 1,
            Some(_) => true,
        };
        (is_trusted && (is_loopback || proxy.is_some())).then(|| Visit {
            host: host.clone(),
            is_tls: !is_plain,
            path: String::new(),
            repository: "team/app".to_owned(),
            // Only here mirrors are told for whom they answer.
            namespace: None,
            proxy,
            client: None,
            who: (is_named && !is_plain).then(|| fetched_user(host)).into_iter().collect(),
        })
    }
}

#[test]
fn the_hubs_configuration_asks_whom_the_hub_asks() {
    let world = World::start();
    let write = |name: &str, text: &str| {
        let path = world.folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let none = write("none", "");
    let [mut refused, mut named, mut proxied, mut second, mut plain] = [0; 5];
    for seed in 0..CASES {
        let hub = Hub::make(seed, &world);
        let file = write("cdh.toml", &hub.text(&world));
        let image = reference(&hub.image);
        let documents = Documents {
            configuration: none.clone(),
            measured: Some(world.folder.path().join("absent")),
            hub: Some(HubConfiguration { file: file.clone(), parameters: none.clone() }),
            any_address: true,
            ..Documents::default()
        };
        let (asked, error) = world.pull_by(documents, &image);
        let imported = run(&["import", "cdh", "--allow-empty", file.to_str().unwrap()]);
        if hub.is_refused() {
            assert!(asked.is_empty() && error.contains("over plain HTTP"), "{hub:?} {error}");
            assert_eq!((imported.code, imported.stdout.as_str()), (65, ""), "{hub:?}");
            refused += 1;
            continue;
        }
        let places = hub.places();
        let expected: Vec<_> = places.iter().filter_map(|it| hub.visit(it, &world)).collect();
        let without_namespace = |visits: Vec<Visit>| -> Vec<Visit> {
            let visits = visits.into_iter();
            visits.map(|visit| Visit { namespace: None, ..visit }).collect()
        };
        assert_eq!(without_namespace(asked), expected, "seed {seed} {hub:?} {error}");
        // What `import cdh` prints means the same.
        let documents = Documents {
            configuration: none.clone(),
            measured: Some(write("imported.toml", &imported.stdout)),
            any_address: true,
            ..Documents::default()
        };
        let (asked, error) = world.pull_by(documents, &image);
        assert_eq!(without_namespace(asked), expected, "imported, {hub:?} {error}");
        assert_eq!(imported.code, 0);
        named += expected.iter().filter(|visit| !visit.who.is_empty()).count();
        proxied += expected.iter().filter(|visit| visit.proxy.is_some()).count();
        plain += expected.iter().filter(|visit| !visit.is_tls).count();
        second += usize::from(expected.len() > 1);
    }
    let seen = [refused, named, proxied, second, plain];
    assert!(seen.iter().all(|count| *count > 1), "{seen:?}");
}

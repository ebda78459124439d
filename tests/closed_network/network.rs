//! A network behind a proxy: a registry that wants tokens, its token server, a mirror that has lost
//! a layer.

use std::fs;

use anyhow::{Context, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use end_to_end::{assert_no_secret, site};
use vm_harness::kata::PROXY_ADDRESS;
use vm_harness::proxy::Rules;
use vm_harness::site::{REGISTRY_NAME, USERNAME, invent_password};
use vm_harness::{Network, Registry, Report, Scenario, Scratch, Site, TokenServer};

const MIRROR_NAME: &str = "mirror.corp";
const TOKEN_SERVER_NAME: &str = "auth.corp";
const MIRROR_PREFIX: &str = "/cache/";
const MIRROR_USER: &str = "reader";
pub const PROXY_USER: &str = "robot";

/// What the proxy knows, by name.
pub const NAMES: [&str; 3] = [REGISTRY_NAME, MIRROR_NAME, TOKEN_SERVER_NAME];

/// The main job, after the proof that the guest reaches the proxy and nothing else.
///
/// `PORTS` are open on the host. With a route everything beyond the network is a question to QEMU,
/// not to the guest's kernel.
const PROOF: &str = r#"
route add default gw 10.0.2.2
reach() {
    nc -w 5 "$1" "$2" -e /bin/true 2>/dev/null && mark reach "$1:$2 open" || mark reach "$1:$2 closed"
}
for port in $PORTS; do reach 10.0.2.2 $port; done
reach 10.0.2.100 3128
nslookup -type=a registry.corp 10.0.2.3 >/tmp/dns 2>&1
grep -q 'no servers could be reached' /tmp/dns && mark dns silent || mark dns "$(tr '\n' ' ' </tmp/dns)"
"#;

/// The servers, each a real one; only a proxy's `/etc/hosts` has their names.
pub struct Closed {
    pub site: Site,
    pub registry: Registry,
    pub mirror: Registry,
    pub tokens: TokenServer,
    /// The layer that the mirror has lost.
    pub lost: String,
    pub proxy_password: String,
    mirror_password: String,
    scratch: Scratch,
}

impl Closed {
    pub fn start() -> Result<Self> {
        let site = site()?;
        let scratch = Scratch::new()?;
        let authority = &site.authority;
        let (name, password) = (TOKEN_SERVER_NAME, &site.password);
        let tokens = TokenServer::start(&scratch, authority, name, USERNAME, password)?;
        let names = [REGISTRY_NAME];
        let (signer, realm) = (tokens.signer(), tokens.realm());
        let registry = site.registry.with_tokens(&scratch, authority, &names, signer, &realm)?;

        let names = [MIRROR_NAME];
        let mirror_password = invent_password(&scratch);
        let plain = Registry::start(&scratch, authority, &names, MIRROR_USER, &mirror_password)?;
        // skopeo knows no prefixes.
        plain.push(&scratch, &site.layout.path, "team/app")?;
        let mirror = plain.with_prefix(&scratch, authority, &names, MIRROR_PREFIX)?;
        let lost = site.layout.layers.get(1).context("the image has layers")?;
        fs::remove_file(plain.blob(lost))?;
        Ok(Self {
            lost: lost.clone(),
            proxy_password: invent_password(&Scratch::new()?),
            site,
            registry,
            mirror,
            tokens,
            mirror_password,
            scratch,
        })
    }

    pub const fn scratch(&self) -> &Scratch {
        &self.scratch
    }

    /// What a proxy has to know.
    pub fn rules<'a>(&'a self, ports: &'a [u16]) -> Rules<'a> {
        Rules { username: PROXY_USER, password: &self.proxy_password, names: &NAMES, ports }
    }

    /// The ports of mirror, token server and registry, in the order in which a pull has to ask
    /// them.
    pub fn ports(&self) -> [u16; 3] {
        [self.mirror.port(), self.tokens.port(), self.registry.port()]
    }

    /// The same as a proxy is asked for them.
    pub fn targets(&self) -> [String; 3] {
        let [mirror, tokens, registry] = self.ports();
        [
            format!("{MIRROR_NAME}:{mirror}"),
            format!("{TOKEN_SERVER_NAME}:{tokens}"),
            format!("{REGISTRY_NAME}:{registry}"),
        ]
    }

    /// The node's document.
    pub fn document(&self) -> String {
        self.document_with(&self.proxy_password, self.site.authority.certificate())
    }

    /// A document with another password for the proxy, or other roots in the registry's entry.
    pub fn document_with(&self, proxy_password: &str, registry_roots: &str) -> String {
        let roots = |pem: &str| match pem {
            "" => String::new(),
            pem => format!("ca-certs = \"\"\"\n{pem}\"\"\"\n"),
        };
        format!(
            "[extra-env]\n\
             HTTPS_PROXY = \"http://{PROXY_USER}:{proxy_password}@{PROXY_ADDRESS}\"\n\
             \n\
             [registries.\"{REGISTRY_NAME}\"]\n\
             auth = \"{}\"\n\
             mirror = \"https://{MIRROR_NAME}:{}{MIRROR_PREFIX}\"\n\
             mirror-fallback = true\n\
             {}\
             \n\
             [registries.\"{MIRROR_NAME}\"]\n\
             username = \"{MIRROR_USER}\"\n\
             password = \"{}\"\n\
             {}",
            Site::auth(&self.site.password),
            self.mirror.port(),
            roots(registry_roots),
            self.mirror_password,
            roots(self.site.authority.certificate()),
        )
    }

    /// A sandbox that reaches the proxy at `port` and nothing else, and proves it before its main
    /// job.
    pub fn scenario(&self, proxy_port: u16, document: String) -> Scenario {
        let image = &self.site.layout.manifest;
        Scenario {
            image: format!("{REGISTRY_NAME}:{}/team/app@{image}", self.registry.port()),
            document: Some(document),
            network: Network::ProxyOnly(proxy_port),
            hosts: String::new(),
            job: Some(self.job(proxy_port)),
            ..self.site.scenario()
        }
    }

    /// The proof alone.
    pub fn proof(&self, proxy_port: u16) -> String {
        let [mirror, tokens, registry] = self.ports();
        format!("PORTS='{registry} {mirror} {tokens} {proxy_port}'\n{PROOF}")
    }

    fn job(&self, proxy_port: u16) -> String {
        let main = include_str!("../../qemu-fixtures/guest/job");
        format!("{}\n{main}", self.proof(proxy_port))
    }

    /// Fails where a password or token of anybody shows on the console.
    pub fn assert_no_secret(&self, report: &Report) {
        assert_no_secret(&self.site, &report.console);
        let basic = |user: &str, password: &str| STANDARD.encode(format!("{user}:{password}"));
        let mut secrets = vec![
            basic(PROXY_USER, &self.proxy_password),
            basic(MIRROR_USER, &self.mirror_password),
            self.proxy_password.clone(),
            self.mirror_password.clone(),
        ];
        secrets.extend(self.tokens.given().tokens);
        for secret in secrets {
            let shows = report.console.contains(&secret);
            assert!(!shows, "a secret shows on: {}", report.console);
        }
    }
}

/// Fails where the guest could reach more than the proxy, or not even that.
pub fn assert_closed(report: &Report) {
    let reached: Vec<&str> = report.values("reach").collect();
    let (proxy, others) = reached.split_last().expect("the guest tried nothing");
    assert_eq!(*proxy, format!("{PROXY_ADDRESS} open"));
    assert_eq!(others.len(), 4, "{reached:?}");
    assert!(others.iter().all(|line| line.ends_with(" closed")), "{reached:?}");
    assert_eq!(report.value("dns"), Some("silent"));
}

//! What follows from the documents for a pull, as the guest plans it. Nothing here decides
//! anything, and nothing here holds a secret.

use std::net::IpAddr;

use pull_route::{EntryName, Plan, Proxies, Step};
use registry_config::{Credentials, ExtraEnv, Mirror, Registry, RegistryName};
use serde::Serialize;

/// Everything that the guest's puller does for an image.
#[derive(Debug, Serialize)]
pub struct Consequences {
    /// Who the entry says that the puller is.
    credentials: Account,
    #[serde(flatten)]
    trust: Trust,
    /// Asked first.
    mirror: Option<Source>,
    /// Asked after it, in this order.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    further_mirrors: Vec<Source>,
    /// The registry itself.
    registry: Source,
    /// Which key says whether that is asked after mirrors.
    #[serde(skip)]
    fallback_key: &'static str,
    proxy: ProxyReport,
}

/// Who the puller is to a host.
#[derive(Debug, Serialize)]
pub struct Account {
    kind: &'static str,
    username: Option<String>,
    /// Where the guest gets the docker configuration that says who it is; only where it does.
    #[serde(skip_serializing_if = "Option::is_none")]
    uri: Option<String>,
    /// Who else it is, in this order, where that one is refused.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    also: Vec<Account>,
    /// Why it is nobody, or not certain.
    #[serde(skip)]
    why: Option<String>,
}

/// Whom the puller trusts, and by which protocol it asks.
#[derive(Debug, Serialize)]
struct Trust {
    /// How many certificates replace the web's; `None` where they are the web's, or those of
    /// `roots_uri`.
    roots: Option<usize>,
    /// Where the guest gets the certificates that replace the web's.
    #[serde(skip_serializing_if = "Option::is_none")]
    roots_uri: Option<String>,
    /// Which roots are trusted, and by which entry.
    #[serde(skip)]
    roots_text: String,
    insecure_skip_verify: bool,
    plain_http: bool,
    /// Whether a client certificate is shown.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    client_cert: bool,
}

/// A host that may be asked.
#[derive(Debug, Serialize)]
struct Source {
    asked: bool,
    url: String,
    /// The name under which a mirror has the repository, where it is another one.
    #[serde(skip_serializing_if = "Option::is_none")]
    repository: Option<String>,
    /// The entry whose credentials, roots and flags hold, as the document has its name.
    entry: Option<String>,
    /// The entry whose credentials hold instead: for the image's repository, or the host's.
    #[serde(skip_serializing_if = "Option::is_none")]
    credentials_entry: Option<String>,
    /// Whether the entry is the owner's, and the host's document says who the puller is.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    host_credentials: bool,
    /// Whether that is an entry of the host's own. Otherwise the entry that names the mirror lends
    /// what it has.
    own_entry: bool,
    credentials: Account,
    /// Whether credentials are kept back where the host is asked in clear.
    credentials_withheld: bool,
    #[serde(flatten)]
    trust: Trust,
    /// Where it is, in the place of a look-up; a proxy looks the name up all the same.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    addresses: Vec<IpAddr>,
    /// The proxy on the way, without user name and password; `None` where it is asked directly.
    proxy: Option<String>,
    /// The same where the host does not speak TLS and is asked over plain HTTP.
    proxy_in_clear: Option<String>,
    /// Why this is so, in the words that the guest's errors have.
    reasons: Vec<String>,
}

/// The documents' proxies. Addresses are shown without user name and password.
#[derive(Debug, Serialize)]
struct ProxyReport {
    https: Option<String>,
    http: Option<String>,
    except: Option<String>,
}

impl Consequences {
    /// `is_offered` says whether an entry has its credentials from elsewhere: then not even their
    /// user name is shown.
    pub fn of(plan: &Plan, is_offered: &dyn Fn(&RegistryName) -> bool) -> Self {
        let proxies = plan.settings().proxies();
        let source = |step: &Step, asked| Source::of(plan, step, asked, is_offered);
        let authority = plan.authority();
        let is_offered = is_nameless(authority.credentials_name(), is_offered);
        let mut credentials = Account::of(authority.credentials_entry(), is_offered);
        if let (None, pull_route::Account::Anonymous(reason)) =
            (plan.mirrors().first(), plan.registry().account())
        {
            credentials.why = Some(reason.to_string());
        }
        let mut mirrors = plan.mirrors().iter().map(|mirror| source(mirror, true));
        let has_own =
            |mirror: &Mirror| mirror.has(plan.repository()) && mirror.fallback().is_some();
        let is_own = authority.registry.mirrors.iter().any(has_own);
        Self {
            credentials,
            trust: Trust::of(authority),
            mirror: mirrors.next(),
            further_mirrors: mirrors.collect(),
            registry: source(plan.registry(), plan.is_registry_asked()),
            fallback_key: if is_own { "fallback" } else { "mirror-fallback" },
            proxy: ProxyReport::of(proxies),
        }
    }

    /// Label and text of each line that people get.
    pub fn rows(&self) -> Vec<(&'static str, String)> {
        let client = match self.trust.client_cert {
            true => "; the client certificate is shown",
            false => "",
        };
        let mut rows = vec![
            ("credentials", self.credentials.text()),
            ("roots", self.trust.roots_text.clone()),
            ("TLS", format!("{}{client}", self.tls_text())),
        ];
        if !self.registry.addresses.is_empty() {
            rows.push(("addresses", self.registry.addresses_text()));
        }
        match &self.mirror {
            None => rows.push(("mirror", "none".into())),
            Some(mirror) => {
                rows.push(("mirror", mirror.mirror_text("first")));
                for mirror in &self.further_mirrors {
                    rows.push(("mirror", mirror.mirror_text("next")));
                }
                rows.push(("registry", self.registry.fallback_text(self.fallback_key)));
            }
        }
        rows.push(("proxy", self.proxy.text()));
        rows
    }

    fn tls_text(&self) -> &'static str {
        match (self.trust.insecure_skip_verify, self.trust.plain_http) {
            (false, false) => "required and verified",
            (true, false) => {
                "tried first, the registry's certificate is NOT verified; else plain HTTP without \
                credentials"
            }
            (false, true) => "tried first and verified; else plain HTTP, credentials included",
            (true, true) => {
                "tried first, the registry's certificate is NOT verified; else plain HTTP, \
                credentials included"
            }
        }
    }
}

impl Account {
    /// Nobody.
    pub fn anonymous() -> Self {
        Self::of(&Registry::default(), false)
    }

    /// Who the puller is by this entry. `nameless`: without the user name.
    pub fn of(entry: &Registry, nameless: bool) -> Self {
        match &entry.credentials_uri {
            Some(uri) => Self::fetched(uri.to_string()),
            None => {
                Self::in_order(std::iter::once(&entry.credentials).chain(&entry.also), nameless)
            }
        }
    }

    /// One after another.
    fn in_order<'c>(all: impl IntoIterator<Item = &'c Credentials>, nameless: bool) -> Self {
        let mut all = all.into_iter().map(|credentials| Self::given(credentials, nameless));
        let first = all.next();
        let first = first.unwrap_or_else(|| Self::given(&Credentials::Anonymous, nameless));
        Self { also: all.collect(), ..first }
    }

    fn fetched(uri: String) -> Self {
        Self {
            kind: "credentials-uri",
            username: None,
            uri: Some(uri),
            also: Vec::new(),
            why: None,
        }
    }

    fn given(credentials: &Credentials, nameless: bool) -> Self {
        let kind = match credentials {
            Credentials::Anonymous => "anonymous",
            Credentials::Basic { .. } => "basic",
            Credentials::RegistryToken(_) => "registrytoken",
            Credentials::IdentityToken { .. } => "identitytoken",
        };
        let username = credentials.shown_username().filter(|_| !nameless);
        Self { kind, username: username.map(Into::into), uri: None, also: Vec::new(), why: None }
    }

    /// Who the puller is to a source of a plan.
    fn at(plan: &Plan, step: &Step, nameless: bool) -> Self {
        match step.account() {
            pull_route::Account::Given(accounts) => {
                Self::in_order(accounts.iter().map(|account| &account.credentials), nameless)
            }
            pull_route::Account::Anonymous(reason) => {
                Self { why: Some(reason.to_string()), ..Self::anonymous() }
            }
            pull_route::Account::Fetched { is_required, .. } => Self {
                why: (!is_required).then(|| "without an entry there, anonymously".to_owned()),
                ..Self::fetched(plan.credentials_uri().map(ToString::to_string).unwrap_or_default())
            },
        }
    }

    pub fn text(&self) -> String {
        let mut text = match (self.kind, &self.uri) {
            (_, Some(uri)) => format!(
                "what the docker configuration {uri} has for this registry; the guest gets it \
                where the host cannot see it"
            ),
            ("basic", _) => "user name and password".to_owned(),
            ("registrytoken", _) => "bearer token (registrytoken)".to_owned(),
            ("identitytoken", _) => "OAuth2 refresh token (identitytoken)".to_owned(),
            _ => "none, the pull is anonymous".to_owned(),
        };
        if let Some(username) = &self.username {
            text.push_str(&format!(", user {username:?}"));
        }
        for account in &self.also {
            text.push_str(&format!("; after a refusal {}", account.text()));
        }
        if let Some(why) = &self.why {
            text.push_str(&format!(": {why}"));
        }
        text
    }
}

impl Trust {
    fn of(authority: &pull_route::Authority) -> Self {
        let registry = &authority.registry;
        let roots_uri = registry.ca_certs_uri.as_ref().map(ToString::to_string);
        let uri = roots_uri.as_ref().map(|uri| format!(", {uri}"));
        Self {
            roots: registry.ca_certs.as_ref().map(|roots| roots.certificates().len()),
            roots_text: format!("{}{}", authority.roots(), uri.unwrap_or_default()),
            roots_uri,
            insecure_skip_verify: registry.insecure_skip_verify,
            plain_http: registry.plain_http,
            client_cert: registry.client.is_some() && !registry.insecure_skip_verify,
        }
    }
}

impl Source {
    fn of(
        plan: &Plan,
        step: &Step,
        asked: bool,
        is_offered: &dyn Fn(&RegistryName) -> bool,
    ) -> Self {
        let authority = step.authority();
        let proxies = Proxies::new(plan.settings().proxies());
        let access = authority.credentials_name();
        let credentials = Account::at(plan, step, is_nameless(access, is_offered));
        let trust = Trust::of(authority);
        let combined = authority.combined();
        let kept_back = step.kept_back();
        let mut in_clear = step.url().clone();
        // Between http and https the scheme may always be changed.
        let _ = in_clear.set_scheme("http");
        let reasons = [
            credentials.why.clone(),
            combined.as_ref().map(ToString::to_string),
            Some(format!("trusted roots: {}", trust.roots_text)),
            kept_back.as_ref().map(ToString::to_string),
            Some(proxies.reason(step.url()).to_string()),
        ];
        Self {
            asked,
            url: step.url().as_str().trim_end_matches('/').to_owned(),
            repository: step
                .repository()
                .filter(|name| *name != plan.repository())
                .map(ToOwned::to_owned),
            entry: super::name_of(&authority.name).map(RegistryName::written),
            credentials_entry: super::name_of(access)
                .filter(|name| name.repositories().is_some() || combined.is_some())
                .map(RegistryName::written),
            host_credentials: combined.is_some(),
            own_entry: step.is_own_entry(),
            credentials,
            credentials_withheld: kept_back.is_some(),
            trust,
            addresses: authority.registry.addresses.clone(),
            proxy: proxies.for_url(step.url()).map(ToString::to_string),
            proxy_in_clear: proxies.for_url(&in_clear).map(ToString::to_string),
            reasons: reasons.into_iter().flatten().collect(),
        }
    }

    /// The addresses, and whether they count.
    fn addresses_text(&self) -> String {
        let all: Vec<_> = self.addresses.iter().map(ToString::to_string).collect();
        let effect = match self.proxy {
            Some(_) => "without effect: the proxy looks the name up",
            None => "the name is not looked up",
        };
        format!("{}; {effect}", all.join(", "))
    }

    fn mirror_text(&self, place: &str) -> String {
        let whose =
            if self.own_entry { "by its own entry" } else { "with what is lent by the entry" };
        let protocol = match (self.url.starts_with("http:"), self.trust.insecure_skip_verify) {
            (true, _) => ", in plain HTTP",
            (false, true) => ", its certificate NOT verified",
            (false, false) => "",
        };
        let at = match self.addresses.is_empty() {
            true => String::new(),
            false => format!(" (at {})", self.addresses_text()),
        };
        let name = self.repository.as_ref();
        let name = name.map_or(String::new(), |name| format!(" for {name}"));
        let withheld = if self.credentials_withheld {
            ", never sent in clear because that entry does not say plain-http"
        } else {
            ""
        };
        format!(
            "{}{at} is asked {place}{name}{protocol}, {whose} \"{}\": credentials {}{withheld}; roots {}",
            self.url,
            self.entry.as_deref().unwrap_or_default(),
            self.credentials.text(),
            self.trust.roots_text
        )
    }

    fn fallback_text(&self, key: &str) -> String {
        match (self.asked, key) {
            (true, key) => {
                let account = self.credentials.text();
                format!("asked where the mirror fails ({key}): credentials {account}")
            }
            (false, "fallback") => "never asked itself, because fallback is false".to_owned(),
            (false, key) => format!("never asked itself, because {key} is not set"),
        }
    }
}

impl ProxyReport {
    fn of(environment: &ExtraEnv) -> Self {
        Self {
            https: environment.https_proxy.as_ref().map(ToString::to_string),
            http: environment.http_proxy.as_ref().map(ToString::to_string),
            except: environment.no_proxy.clone(),
        }
    }

    fn text(&self) -> String {
        let ways: Vec<String> = [("HTTPS", &self.https), ("HTTP", &self.http)]
            .into_iter()
            .filter_map(|(protocol, proxy)| {
                proxy.as_ref().map(|proxy| format!("{protocol} through {proxy}"))
            })
            .collect();
        match (ways.is_empty(), &self.except) {
            (true, _) => "none".into(),
            (false, None) => format!("{}; NO_PROXY excepts no host", ways.join(", ")),
            (false, Some(except)) => format!(
                "{}, except for hosts of NO_PROXY = {except:?}, by Go's rules",
                ways.join(", ")
            ),
        }
    }
}

/// Whether an entry's user name is hidden: a plugin offered its credentials.
fn is_nameless(entry: &EntryName, is_offered: &dyn Fn(&RegistryName) -> bool) -> bool {
    match entry {
        EntryName::Entry(name, registry_config::Origin::Host) => is_offered(name),
        _ => false,
    }
}

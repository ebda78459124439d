//! What follows from the documents for a pull, as the guest plans it. Nothing here decides
//! anything, and nothing here holds a secret.

use std::net::IpAddr;

use pull_route::{EntryName, Plan, Proxies, Step};
use registry_config::{Credentials, ExtraEnv, Mirror, Origin, Registry, RegistryName, ResourceUri};
use serde::Serialize;

use super::{Row, access_name, name_of};

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
    /// The same for people.
    #[serde(skip)]
    pub text: String,
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
        let source = |step: &Step, asked| Source::of(plan, step, asked, is_offered);
        let authority = plan.authority();
        let nameless = is_nameless(authority.credentials_name(), is_offered);
        let mut credentials = Account::of(authority.credentials_entry(), nameless);
        if let ([], pull_route::Account::Anonymous(reason)) =
            (plan.mirrors(), plan.registry().account())
        {
            credentials.add(&reason.to_string());
        }
        let mut mirrors = plan.mirrors().iter().map(|mirror| source(mirror, true));
        let has_own =
            |mirror: &Mirror| mirror.has(plan.repository()) && mirror.fallback().is_some();
        let is_own = authority.registry.mirrors.iter().any(has_own);
        let ExtraEnv { https_proxy, http_proxy, no_proxy, .. } = plan.settings().proxies();
        Self {
            credentials,
            trust: Trust::of(authority),
            mirror: mirrors.next(),
            further_mirrors: mirrors.collect(),
            registry: source(plan.registry(), plan.is_registry_asked()),
            fallback_key: if is_own { "fallback" } else { "mirror-fallback" },
            proxy: ProxyReport {
                https: https_proxy.as_ref().map(ToString::to_string),
                http: http_proxy.as_ref().map(ToString::to_string),
                except: no_proxy.clone(),
            },
        }
    }

    /// Label and text of each line that people get.
    pub fn rows(&self) -> Vec<Row> {
        let Trust { roots_text, insecure_skip_verify, plain_http, client_cert, .. } = &self.trust;
        let tls = match (insecure_skip_verify, plain_http) {
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
        };
        let client = if *client_cert { "; the client certificate is shown" } else { "" };
        let mut rows = vec![
            ("credentials", self.credentials.text.clone()),
            ("roots", roots_text.clone()),
            ("TLS", format!("{tls}{client}")),
        ];
        if !self.registry.addresses.is_empty() {
            rows.push(("addresses", self.registry.addresses_text()));
        }
        let mirrors = self.mirror.iter().chain(&self.further_mirrors);
        let places = std::iter::once("first").chain(std::iter::repeat("next"));
        rows.extend(mirrors.zip(places).map(|(one, place)| ("mirror", one.mirror_text(place))));
        let Source { asked, credentials, .. } = &self.registry;
        rows.push(match (&self.mirror, asked, self.fallback_key) {
            (None, ..) => ("mirror", "none".into()),
            (_, true, key) => {
                let text = format!("asked where the mirror fails ({key}): credentials");
                ("registry", format!("{text} {}", credentials.text))
            }
            (_, false, "fallback") => {
                ("registry", "never asked itself, because fallback is false".into())
            }
            (_, false, key) => {
                ("registry", format!("never asked itself, because {key} is not set"))
            }
        });
        rows.push(("proxy", self.proxy.text()));
        rows
    }
}

impl Account {
    /// Nobody.
    pub fn anonymous() -> Self {
        Self::given(&Credentials::Anonymous, true)
    }

    /// Who the puller is by this entry. `nameless`: without the user name.
    pub fn of(entry: &Registry, nameless: bool) -> Self {
        let given = [&entry.credentials].into_iter().chain(&entry.also);
        let uri = entry.credentials_uri.as_ref();
        uri.map_or_else(|| Self::in_order(given, nameless), Self::fetched)
    }

    /// One after another.
    fn in_order<'c>(all: impl Iterator<Item = &'c Credentials>, nameless: bool) -> Self {
        let all = all.map(|credentials| Self::given(credentials, nameless));
        let first = all.reduce(|mut first, next| {
            first.text.push_str(&format!("; after a refusal {}", next.text));
            first.also.push(next);
            first
        });
        first.unwrap_or_else(Self::anonymous)
    }

    fn fetched(uri: &ResourceUri) -> Self {
        let text = format!(
            "what the docker configuration {uri} has for this registry; the guest gets it where \
            the host cannot see it"
        );
        let uri = Some(uri.to_string());
        Self { kind: "credentials-uri", username: None, uri, also: Vec::new(), text }
    }

    fn given(credentials: &Credentials, nameless: bool) -> Self {
        let (kind, text) = match credentials {
            Credentials::Anonymous => ("anonymous", "none, the pull is anonymous"),
            Credentials::Basic { .. } => ("basic", "user name and password"),
            Credentials::RegistryToken(_) => ("registrytoken", "bearer token (registrytoken)"),
            Credentials::IdentityToken { .. } => {
                ("identitytoken", "OAuth2 refresh token (identitytoken)")
            }
        };
        let username = credentials.shown_username().filter(|_| !nameless);
        let user = username.map_or(String::new(), |username| format!(", user {username:?}"));
        Self {
            kind,
            username: username.map(Into::into),
            uri: None,
            also: Vec::new(),
            text: format!("{text}{user}"),
        }
    }

    /// Says why it is nobody, or not certain.
    fn add(&mut self, why: &str) {
        self.text.push_str(&format!(": {why}"));
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
        let nameless = is_nameless(authority.credentials_name(), is_offered);
        let (mut credentials, why) = match step.account() {
            pull_route::Account::Given(accounts) => {
                let given = accounts.iter().map(|account| &account.credentials);
                (Account::in_order(given, nameless), None)
            }
            pull_route::Account::Anonymous(reason) => {
                (Account::anonymous(), Some(reason.to_string()))
            }
            pull_route::Account::Fetched { is_required, .. } => (
                plan.credentials_uri().map_or_else(Account::anonymous, Account::fetched),
                (!is_required).then(|| "without an entry there, anonymously".to_owned()),
            ),
        };
        why.iter().for_each(|why| credentials.add(why));
        let trust = Trust::of(authority);
        let combined = authority.combined();
        let kept_back = step.kept_back();
        let mut in_clear = step.url().clone();
        // Between http and https the scheme may always be changed.
        let _ = in_clear.set_scheme("http");
        let renamed = step.repository().filter(|name| *name != plan.repository());
        let reasons = [
            why,
            combined.as_ref().map(ToString::to_string),
            Some(format!("trusted roots: {}", trust.roots_text)),
            kept_back.as_ref().map(ToString::to_string),
            Some(proxies.reason(step.url()).to_string()),
        ];
        Self {
            asked,
            url: step.url().as_str().trim_end_matches('/').to_owned(),
            repository: renamed.map(ToOwned::to_owned),
            entry: name_of(&authority.name).map(RegistryName::written),
            credentials_entry: access_name(authority),
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
            self.credentials.text,
            self.trust.roots_text
        )
    }
}

impl ProxyReport {
    fn text(&self) -> String {
        let ways = [("HTTPS", &self.https), ("HTTP", &self.http)].into_iter();
        let ways =
            ways.filter_map(|(way, proxy)| Some(format!("{way} through {}", proxy.as_ref()?)));
        let ways = ways.collect::<Vec<_>>().join(", ");
        match &self.except {
            _ if ways.is_empty() => "none".into(),
            None => format!("{ways}; NO_PROXY excepts no host"),
            Some(except) => {
                format!("{ways}, except for hosts of NO_PROXY = {except:?}, by Go's rules")
            }
        }
    }
}

/// Whether an entry's user name is hidden: a plugin offered its credentials.
fn is_nameless(entry: &EntryName, is_offered: &dyn Fn(&RegistryName) -> bool) -> bool {
    entry.origin() == Some(Origin::Host) && name_of(entry).is_some_and(is_offered)
}

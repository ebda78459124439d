//! What follows from an entry for a pull; nothing here holds a secret.

use puller_config::{
    Credentials, Document, ExtraEnv, Match, Mirror, Registry, RegistryHost, RegistryName,
};
use serde::Serialize;

/// Everything that the guest's puller does because of the entry.
#[derive(Debug, Serialize)]
pub struct Consequences {
    credentials: Account,
    /// How many certificates replace the web's; `None` where they are the web's, or those of
    /// `roots_uri`.
    roots: Option<usize>,
    /// Where the guest gets the certificates that replace the web's.
    #[serde(skip_serializing_if = "Option::is_none")]
    roots_uri: Option<String>,
    insecure_skip_verify: bool,
    plain_http: bool,
    mirror: Option<MirrorReport>,
    /// Whether the registry itself is asked, and as whom.
    registry: RegistryReport,
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
}

#[derive(Debug, Serialize)]
struct MirrorReport {
    url: String,
    /// The entry whose credentials, roots and flags hold for the mirror, as the document has its
    /// name.
    entry: String,
    /// Whether that is an entry of the mirror's own, not the one that names the mirror.
    own_entry: bool,
    credentials: Account,
    /// Whether credentials stay here because the mirror is asked in clear and its own entry does
    /// not say `plain-http`.
    credentials_withheld: bool,
    roots: Option<usize>,
    /// Always false where the entry is lent: that one speaks of the registry's certificate only.
    insecure_skip_verify: bool,
    plain_http: bool,
}

#[derive(Debug, Serialize)]
struct RegistryReport {
    asked: bool,
    credentials: Account,
}

/// The document's proxies. Addresses are shown without user name and password.
#[derive(Debug, Serialize)]
struct ProxyReport {
    https: Option<String>,
    http: Option<String>,
    except: Option<String>,
}

impl Consequences {
    /// `is_offered` says whether an entry has its credentials from elsewhere: then not even their
    /// user name is shown.
    pub fn of(
        document: &Document,
        host: &RegistryHost,
        found: Match<'_>,
        is_offered: &dyn Fn(&RegistryName) -> bool,
    ) -> Self {
        let defaults = Registry::default();
        let (key, entry, offered) = match found {
            Match::Entry { key, entry, .. } => (key.written(), entry, is_offered(key)),
            Match::Defaults => (host.to_string(), &defaults, false),
        };
        let heard = heard(entry);
        let entry = heard.as_ref().unwrap_or(entry);
        let lender = (key.as_str(), entry, offered);
        let mirror = entry
            .mirror
            .as_ref()
            .map(|mirror| MirrorReport::of(document, mirror, lender, is_offered));
        let lent = mirror.as_ref().is_some_and(|mirror| !mirror.own_entry);
        Self {
            credentials: Account::of(entry, offered),
            roots: roots(entry),
            roots_uri: entry.ca_certs_uri.as_ref().map(ToString::to_string),
            insecure_skip_verify: entry.insecure_skip_verify,
            plain_http: entry.plain_http,
            registry: RegistryReport {
                asked: mirror.is_none() || entry.mirror_fallback,
                credentials: if lent {
                    Account::anonymous()
                } else {
                    Account::of(entry, offered)
                },
            },
            mirror,
            proxy: ProxyReport::of(&document.extra_env),
        }
    }

    /// Label and text of each line that people get.
    pub fn rows(&self) -> Vec<(&'static str, String)> {
        let mut rows = vec![
            ("credentials", self.credentials.text()),
            ("roots", self.roots_text()),
            ("TLS", self.tls_text().into()),
        ];
        match &self.mirror {
            None => rows.push(("mirror", "none".into())),
            Some(mirror) => {
                rows.push(("mirror", mirror.text()));
                rows.push(("registry", self.registry.text()));
            }
        }
        rows.push(("proxy", self.proxy.text()));
        rows
    }

    fn roots_text(&self) -> String {
        match &self.roots_uri {
            Some(uri) => {
                format!("the certificates that the guest gets by {uri}, instead of the web's")
            }
            None => roots_text(self.roots),
        }
    }

    fn tls_text(&self) -> &'static str {
        match (self.insecure_skip_verify, self.plain_http) {
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
        let credentials = &entry.credentials;
        let uri = entry.credentials_uri.as_ref().map(ToString::to_string);
        let kind = match credentials {
            _ if uri.is_some() => "credentials-uri",
            Credentials::Anonymous => "anonymous",
            Credentials::Basic { .. } => "basic",
            Credentials::RegistryToken(_) => "registrytoken",
            Credentials::IdentityToken { .. } => "identitytoken",
        };
        Self {
            kind,
            username: credentials
                .shown_username()
                .filter(|_| !nameless)
                .map(Into::into),
            uri,
        }
    }

    pub fn text(&self) -> String {
        let kind = match self.kind {
            "basic" => "user name and password",
            "registrytoken" => "bearer token (registrytoken)",
            "identitytoken" => "OAuth2 refresh token (identitytoken)",
            _ => "none, the pull is anonymous",
        };
        if let Some(uri) = &self.uri {
            return format!(
                "what the docker configuration {uri} has for this registry; the guest gets it \
                where the host cannot see it"
            );
        }
        match &self.username {
            Some(username) => format!("{kind}, user {username:?}"),
            None => kind.into(),
        }
    }
}

impl MirrorReport {
    fn of(
        document: &Document,
        mirror: &Mirror,
        (key, lender, offered): (&str, &Registry, bool),
        is_offered: &dyn Fn(&RegistryName) -> bool,
    ) -> Self {
        let own = document.registries.literal_entry_for(mirror.host());
        let (entry, name, nameless) = match own {
            Some((name, own)) => (own, name.written(), is_offered(name)),
            None => (lender, key.to_owned(), offered),
        };
        Self {
            url: mirror.url().to_string(),
            entry: name,
            own_entry: own.is_some(),
            credentials: Account::of(entry, nameless),
            credentials_withheld: mirror.is_plain_http()
                && !entry.plain_http
                && !matches!(entry.credentials, Credentials::Anonymous),
            roots: roots(entry),
            insecure_skip_verify: own.is_some_and(|(_, own)| own.insecure_skip_verify),
            plain_http: mirror.is_plain_http(),
        }
    }

    fn text(&self) -> String {
        let Self {
            url,
            entry,
            credentials,
            roots,
            ..
        } = self;
        let whose = if self.own_entry {
            "by its own entry"
        } else {
            "with what is lent by the entry"
        };
        let protocol = match (self.plain_http, self.insecure_skip_verify) {
            (true, _) => ", in plain HTTP",
            (false, true) => ", its certificate NOT verified",
            (false, false) => "",
        };
        let withheld = if self.credentials_withheld {
            ", never sent in clear because that entry does not say plain-http"
        } else {
            ""
        };
        format!(
            "{url} is asked first{protocol}, {whose} \"{entry}\": credentials {}{withheld}; roots \
            {}",
            credentials.text(),
            roots_text(*roots)
        )
    }
}

impl RegistryReport {
    fn text(&self) -> String {
        if self.asked {
            let account = self.credentials.text();
            format!("asked where the mirror fails (mirror-fallback): credentials {account}")
        } else {
            "never asked itself, because mirror-fallback is not set".into()
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
                proxy
                    .as_ref()
                    .map(|proxy| format!("{protocol} through {proxy}"))
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

/// What the guest takes from an entry with `credentials-uri` that the host wrote; `None` for any
/// other entry, of which it takes everything.
fn heard(entry: &Registry) -> Option<Registry> {
    entry.credentials_uri.as_ref().map(|uri| Registry {
        credentials_uri: Some(uri.clone()),
        ca_certs_uri: entry.ca_certs_uri.clone(),
        ..Registry::default()
    })
}

fn roots(entry: &Registry) -> Option<usize> {
    entry
        .ca_certs
        .as_ref()
        .map(|roots| roots.certificates().len())
}

fn roots_text(roots: Option<usize>) -> String {
    match roots {
        None => "the web's certificate authorities".into(),
        Some(0) => "none: nobody is trusted, so the pull is forbidden".into(),
        Some(1) => "1 certificate of ca-certs instead of the web's".into(),
        Some(count) => format!("{count} certificates of ca-certs instead of the web's"),
    }
}

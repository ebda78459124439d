//! A place that may have an image: a mirror, or the registry itself.

use std::fmt;

use registry_config::{Credentials, Mirror, RegistryHost};
use url::Url;

use crate::account::EntryAccount;
use crate::error::Error;
use crate::reason::Reason;
use crate::settings::Authority;

/// The host that serves Docker Hub's images, which are named after another one.
const DOCKER_HUB_SERVER: &str = "registry-1.docker.io";

/// One place that may have the image, and what holds there.
#[derive(Clone, Debug)]
pub struct Source {
    /// Scheme, host, port and the path before `/v2/`, ending in a slash.
    pub base: Url,
    /// Whether the scheme was written down; otherwise HTTPS is tried, and plain HTTP where that is
    /// allowed.
    pub is_scheme_fixed: bool,
    /// What holds for this host, and for those it sends the puller to that have no entry of their
    /// own.
    pub authority: Authority,
    /// Who the puller is there, in the order in which that is tried; nobody if there is none.
    pub accounts: Vec<EntryAccount>,
    /// Why it is nobody.
    pub why_anonymous: Option<Reason>,
    /// The registry that a mirror is to answer for.
    pub namespace: Option<String>,
    /// The name under which a mirror has the repository.
    pub repository: Option<String>,
    /// Whether another source is asked where this one fails.
    pub has_fallback: bool,
}

impl Source {
    /// The registry itself, with no credentials yet.
    pub(crate) fn registry(host: &RegistryHost, authority: Authority) -> Result<Self, Error> {
        let server =
            if host.is_docker_hub() { DOCKER_HUB_SERVER.to_owned() } else { host.to_string() };
        let base = Url::parse(&format!("https://{server}/"))
            .map_err(|error| Error::Address { host: server, reason: error.to_string() })?;
        Ok(Self {
            base,
            is_scheme_fixed: false,
            authority,
            accounts: Vec::new(),
            why_anonymous: None,
            namespace: None,
            repository: None,
            has_fallback: false,
        })
    }

    /// A mirror, with no credentials yet. One at `http://` is one that its entry allows, or the
    /// document would have been refused.
    pub(crate) fn mirror(
        mirror: &Mirror,
        registry: &RegistryHost,
        repository: String,
        authority: Authority,
        has_fallback: bool,
    ) -> Self {
        let mut base = mirror.url().clone();
        if !base.path().ends_with('/') {
            base.set_path(&format!("{}/", base.path()));
        }
        Self {
            base,
            is_scheme_fixed: true,
            authority,
            accounts: Vec::new(),
            why_anonymous: None,
            namespace: Some(registry.to_string()),
            repository: Some(repository),
            has_fallback,
        }
    }

    /// One of the accounts, from 0; anonymous if there is none.
    pub fn credentials(&self, at: usize) -> &Credentials {
        let account = self.accounts.get(at);
        account.map_or(&Credentials::Anonymous, |account| &account.credentials)
    }

    /// Whether what the puller has to show may be sent over this scheme.
    pub fn may_tell(&self, scheme: &str) -> bool {
        scheme == "https" || self.authority.registry.plain_http
    }

    /// Whether plain HTTP may be tried at all.
    pub fn may_be_plain(&self) -> bool {
        self.authority.registry.plain_http || self.authority.registry.insecure_skip_verify
    }

    /// Host and port as a person writes them.
    pub fn host(&self) -> String {
        host_of(&self.base)
    }

    /// Whether a URL is at this source's own host and port.
    pub fn is_own(&self, url: &Url) -> bool {
        let same_port = url.port_or_known_default() == self.base.port_or_known_default();
        // A registry without a port answers at 443, or over plain HTTP at 80.
        let default_ports =
            !self.is_scheme_fixed && url.port().is_none() && self.base.port().is_none();
        url.host() == self.base.host() && (same_port || default_ports)
    }

    /// The URL of something in a repository, such as `manifests` or `blobs`; without a repository
    /// that of the registry itself.
    pub fn url(
        &self,
        scheme: &str,
        repository: &str,
        kind: &str,
        name: &str,
    ) -> Result<Url, Error> {
        let path = match repository {
            "" => format!("{}v2/", self.base.path()),
            _ => format!("{}v2/{repository}/{kind}/{name}", self.base.path()),
        };
        let mut url = self.base.clone();
        // A base is http or https, and between these two the scheme may always be changed.
        if url.set_scheme(scheme).is_err() {
            return Err(Error::Internal(format!("no {scheme} URL for {}", self.host())));
        }
        url.set_path(&path);
        if let Some(namespace) = &self.namespace {
            url.query_pairs_mut().append_pair("ns", namespace);
        }
        Ok(url)
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let role = if self.namespace.is_some() { "mirror" } else { "registry" };
        write!(f, "{role} {}", self.host())
    }
}

/// Host and port of a URL as a person writes them: the port only where the URL has one.
pub fn host_of(url: &Url) -> String {
    let host = url.host_str().unwrap_or_default();
    url.port().map_or_else(|| host.to_owned(), |port| format!("{host}:{port}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::tests::settings;

    fn order(document: &str, registry: &str) -> Vec<Source> {
        let plan = settings("", document).plan(&RegistryHost::parse(registry).unwrap(), "team/app");
        let route = plan.unwrap().fill(None, None).unwrap();
        route.sources
    }

    fn shown(document: &str, registry: &str) -> String {
        let show = |source: &Source| {
            let who = match source.credentials(0) {
                Credentials::Anonymous => "anonymous",
                Credentials::Basic { username, .. } => username,
                _ => "token",
            };
            let url = source.url(source.base.scheme(), "team/app", "blobs", "x").unwrap();
            format!("{source} {url} as {who} by {}", source.authority)
        };
        order(document, registry).iter().map(show).collect::<Vec<_>>().join("\n")
    }

    const LENT: &str = "[registries.\"registry.corp.\"]\nusername = \"lent\"\npassword \
    = \"x\"\nmirror = \"https://mirror.corp/cache\"\n";

    #[test]
    fn without_a_mirror_the_registry_is_asked() {
        let document = "[registries.\"registry.corp.\"]\nusername = \"user\"\npassword = \"x\"\n";
        assert_eq!(
            shown(document, "registry.corp:5000"),
            "registry registry.corp:5000 https://registry.corp:5000/v2/team/app/blobs/x as user by \
            entry \"registry.corp.\""
        );
        let other = shown(document, "docker.io");
        assert!(
            other.starts_with("registry registry-1.docker.io https://registry-1.docker.io/v2/"),
            "{other}"
        );
        assert!(other.contains("as anonymous by no entry of "), "{other}");
    }

    #[test]
    fn a_mirror_borrows_the_credentials_and_the_registry_goes_without() {
        let mirror = "mirror mirror.corp \
        https://mirror.corp/cache/v2/team/app/blobs/x?ns=registry.corp as lent by \
        entry \"registry.corp.\"";
        assert_eq!(shown(LENT, "registry.corp"), mirror);
        let with_fallback = format!("{LENT}mirror-fallback = true\n");
        let registry = "registry registry.corp https://registry.corp/v2/team/app/blobs/x as \
        anonymous by entry \"registry.corp.\"";
        assert_eq!(shown(&with_fallback, "registry.corp"), format!("{mirror}\n{registry}"));
    }

    #[test]
    fn an_unchecked_certificate_is_not_lent() {
        let document = format!("{LENT}insecure-skip-verify = true\nplain-http = true\n");
        let source = order(&document, "registry.corp").remove(0);
        assert_eq!(source.base.host_str(), Some("mirror.corp"));
        assert!(!source.authority.registry.insecure_skip_verify);
        assert!(source.authority.registry.plain_http);
    }

    #[test]
    fn a_mirror_with_an_entry_of_its_own_uses_it() {
        let document = format!(
            "{LENT}mirror-fallback = true\n[registries.\"mirror.corp.\"]\nusername \
            = \"own\"\npassword = \"y\"\n"
        );
        let text = shown(&document, "registry.corp");
        assert!(
            text.contains("as own by entry \"mirror.corp.\"\nregistry registry.corp "),
            "{text}"
        );
        assert!(text.ends_with("as lent by entry \"registry.corp.\""), "{text}");
    }

    #[test]
    fn a_mirror_may_be_asked_over_plain_http() {
        let document = "[registries.\"registry.corp.\"]\nmirror = \"http://mirror.corp:5000\"\n";
        let allowed = format!("{document}plain-http = true\n");
        assert!(
            shown(&allowed, "registry.corp")
                .contains("http://mirror.corp:5000/v2/team/app/blobs/x?ns=registry.corp")
        );
    }
}

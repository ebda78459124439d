//! The address of a host that is asked for images.

use registry_config::{RegistryHost, RegistryName};
use url::Url;

use super::plan::Names;
use crate::printable;

/// Where a host's API is, as far as the document can say it: below an optional path, always at
/// `v2/`.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    /// Host and port.
    pub(crate) host: RegistryHost,
    /// Whether it is asked over plain HTTP.
    pub(crate) is_http: bool,
    /// What stands before `/v2/`, without a slash at its end; empty in most cases.
    pub(crate) prefix: String,
    /// What the names of repositories begin with there, as in Harbor's `/v2/PROJECT`, without a
    /// slash at its end; empty in most cases.
    below: String,
    /// The host as it was written, with its port where that is not the scheme's.
    pub(crate) authority: String,
    /// Whether the address held a user name or password, which no engine uses.
    pub(crate) had_user: bool,
}

/// Where a file's addresses put the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ApiPath {
    /// Below the address's path.
    Below,
    /// At the address's path itself.
    Exactly,
}

impl Endpoint {
    /// Reads an address. A missing scheme means HTTPS.
    ///
    /// # Errors
    ///
    /// Why the document cannot say it, as a fragment without a value.
    pub(crate) fn parse(text: &str, api: ApiPath) -> Result<Self, &'static str> {
        if text.chars().any(|character| character.is_control() || " \\".contains(character)) {
            return Err("not a URL");
        }
        let scheme = if text.contains("://") { "" } else { "https://" };
        let url = Url::parse(&format!("{scheme}{text}")).map_err(|_| "not a URL")?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err("neither \"https://\" nor \"http://\"");
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err("a URL with \"?\" or \"#\"");
        }
        let host = RegistryHost::of_url(&url).ok_or("a URL without a registry's host")?;
        let port = url.port().map_or(String::new(), |port| format!(":{port}"));
        let (prefix, below) = split(url.path(), api)?;
        Ok(Self {
            is_http: url.scheme() == "http",
            prefix,
            below,
            authority: format!("{}{port}", url.host_str().unwrap_or_default()),
            had_user: !url.username().is_empty() || url.password().is_some(),
            host,
        })
    }

    /// Reads an address for which a file has rules for names. Returns the names that repositories
    /// have there: those of each rule, then those of all that no rule is for.
    ///
    /// # Errors
    ///
    /// Why the document cannot say it, as a fragment without a value.
    pub(crate) fn with_rules(
        text: &str,
        api: ApiPath,
        rules: &[Names],
    ) -> Result<(Self, Vec<Names>), &'static str> {
        let endpoint = Self::parse(text, api)?;
        let is_for_all = |rule: &Names| rule.prefix.is_none();
        let count = rules.iter().position(is_for_all).map_or(rules.len(), |at| at + 1);
        let rest = (!rules.iter().any(is_for_all)).then(Names::default);
        let names = rules.iter().take(count).cloned().chain(rest);
        let names =
            names.map(|Names { prefix, name }| Names { prefix, name: endpoint.name_of(name) });
        let names = names.collect();
        Ok((endpoint, names))
    }

    /// A name behind what is in the address.
    fn name_of(&self, name: Option<String>) -> Option<String> {
        match (self.below.as_str(), name.as_deref()) {
            ("", _) => name,
            (below, None | Some("")) => Some(below.to_owned()),
            (below, Some(name)) => Some(format!("{below}/{name}")),
        }
    }

    /// The address as the document writes a mirror.
    pub(crate) fn url(&self) -> String {
        let scheme = if self.is_http { "http" } else { "https" };
        format!("{scheme}://{}{}", self.authority, self.prefix)
    }

    /// The name of the host's own entry: without a port where HTTPS would use that one anyway.
    pub(crate) fn name(&self) -> String {
        let host = self.host.name();
        match self.host.port() {
            None | Some(443) => host,
            Some(port) => format!("{host}:{port}"),
        }
    }
}

/// An address, as scheme, host and port; a path or a query may be a secret.
pub(crate) fn shown_address(text: &str) -> String {
    let parsed = Url::parse(text).ok();
    let address = parsed.as_ref().and_then(|url| {
        let port = url.port().map_or(String::new(), |port| format!(":{port}"));
        Some(format!("{}://{}{port}", url.scheme(), url.host_str()?))
    });
    printable(&address.unwrap_or_else(|| {
        let end = text.find(['?', '#']).unwrap_or(text.len());
        text[..end].to_owned()
    }))
}

/// What stands before `/v2` in a path, and behind it.
fn split(path: &str, api: ApiPath) -> Result<(String, String), &'static str> {
    let path = path.trim_end_matches('/');
    let (prefix, below) = match (path.strip_suffix("/v2"), api) {
        (Some(prefix), _) => (prefix, ""),
        (None, ApiPath::Below) => return Ok((path.to_owned(), String::new())),
        (None, ApiPath::Exactly) => {
            path.rsplit_once("/v2/").ok_or("an API at another path than \"v2/\"")?
        }
    };
    if !below.is_empty() && RegistryName::parse(&format!("host/{below}")).is_err() {
        return Err("a path behind \"v2/\" with which no repository's name begins");
    }
    Ok((prefix.trim_end_matches('/').to_owned(), below.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_looks_like_a_password_is_shown() {
        for (text, expected) in [
            ("https://robot:hunter2@m.corp:5000/hunter2?hunter2", "https://m.corp:5000"),
            ("m.corp/path?hunter2", "m.corp/path"),
            ("robot:hunter2@m.corp", "[redacted]@m.corp"),
        ] {
            assert_eq!(shown_address(text), expected);
        }
    }

    #[test]
    fn addresses_become_mirrors_and_names() {
        use ApiPath::{Below, Exactly};
        for (text, api, url, name) in [
            ("https://m.corp", Below, "https://m.corp", "m.corp"),
            ("m.corp:5000", Below, "https://m.corp:5000", "m.corp:5000"),
            ("http://m.corp/", Below, "http://m.corp", "m.corp:80"),
            ("https://m.corp/v2", Below, "https://m.corp", "m.corp"),
            ("https://m.corp/a/v2/", Exactly, "https://m.corp/a", "m.corp"),
            ("https://m.corp/a/../b", Below, "https://m.corp/b", "m.corp"),
            ("http://[::1]:5000", Below, "http://[::1]:5000", "[::1]:5000"),
            ("registry-1.docker.io", Below, "https://registry-1.docker.io", "docker.io"),
        ] {
            let endpoint = Endpoint::parse(text, api).unwrap();
            assert_eq!((endpoint.url(), endpoint.name()), (url.into(), name.into()));
        }
        for text in [
            "https://m.corp/v2/Proj",
            "https://m.corp/v2//proj",
            "https://m.corp/v22/proj",
            "https://m.corp",
            "ftp://m.corp/v2",
            "https:///v2",
        ] {
            assert!(Endpoint::parse(text, Exactly).is_err(), "{text}");
        }
        for text in ["", "https://m.corp?x", "https://m corp", "unix:///run/x", "https://*.corp"] {
            assert!(Endpoint::parse(text, Below).is_err(), "{text}");
        }
        assert!(Endpoint::parse("https://u:p@m.corp", Below).unwrap().had_user);
    }
}

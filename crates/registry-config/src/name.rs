//! The names of `[registries."NAME"]`: a single host, some of its repositories, or all hosts below
//! a domain.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};

use crate::host::HTTPS_PORT;
use crate::host_name::{HostName, parse_domain, split_port};
use crate::repositories::{check_prefix, prefixes};
use crate::{InvalidName, RegistryHost};

/// Which hosts an entry holds for, or which repositories of one host.
///
/// Two texts that mean the same hosts parse to equal names: ASCII case and the trailing dot do not
/// matter, and the names of Docker Hub are one. Shown in its normal form, with the trailing dot
/// where no repositories follow; [`RegistryName::written`] keeps the text.
#[derive(Clone, Debug)]
pub struct RegistryName {
    pub(crate) pattern: Pattern,
    /// The first segments of the repositories' names, where it is not for all of them; only ever
    /// there beside a literal.
    repositories: Option<Box<str>>,
    /// The text that was parsed. Has no part in comparisons.
    written: Option<Box<str>>,
}

/// The kinds of name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Pattern {
    /// Exactly this host; without a port, on every port.
    Literal(HostName, Option<u16>),
    /// Every host below this domain (lower case, no dot at either end), but not the domain itself.
    Below(String),
    /// Every host.
    Any,
}

impl RegistryName {
    /// Reads a literal (`registry.corp`, `registry.corp:5000`, `192.0.2.1`, `[::1]:5000`), perhaps
    /// with repositories behind it (`registry.corp/team`), a suffix (`.corp`) or `.`, each domain
    /// with or without its trailing dot.
    ///
    /// # Errors
    ///
    /// [`InvalidName`] names the first rule that the text breaks.
    pub fn parse(text: &str) -> Result<Self, InvalidName> {
        let (host, repositories) = match text.split_once('/') {
            // The slashes of a scheme are no path.
            Some((host, path)) if !text.contains("://") => (host, Some(path)),
            _ => (text, None),
        };
        let pattern = Pattern::parse(host)?;
        if let Some(path) = repositories {
            if !matches!(pattern, Pattern::Literal(..)) {
                return Err(InvalidName::SuffixWithRepositories);
            }
            check_prefix(path)?;
        }
        Ok(Self { pattern, repositories: repositories.map(Into::into), written: Some(text.into()) })
    }

    /// The first segments of the names of the repositories that it holds for; `None` where it holds
    /// for all of a host.
    pub fn repositories(&self) -> Option<&str> {
        self.repositories.as_deref()
    }

    /// The same name for all repositories.
    #[must_use]
    pub fn of_host(&self) -> Self {
        Self::from(self.pattern.clone())
    }

    /// The host, where it is the name of a single one.
    pub fn host(&self) -> Option<RegistryHost> {
        match &self.pattern {
            Pattern::Literal(name, port) => Some(RegistryHost { name: name.clone(), port: *port }),
            Pattern::Below(_) | Pattern::Any => None,
        }
    }

    /// The same name, written in its normal form.
    #[must_use]
    pub fn normal(&self) -> Self {
        Self { written: None, ..self.clone() }
    }

    /// The name of a single host with port 443 where it has none; any other as it is. Equal for
    /// equal [`RegistryHost`]s.
    #[must_use]
    pub fn with_https_port(&self) -> Self {
        match &self.pattern {
            Pattern::Literal(host, None) => {
                Self { pattern: Pattern::Literal(host.clone(), Some(HTTPS_PORT)), ..self.normal() }
            }
            _ => self.clone(),
        }
    }

    /// The name as it was written.
    pub fn written(&self) -> String {
        match &self.written {
            Some(text) => text.to_string(),
            None => self.to_string(),
        }
    }

    /// Whether the name is that of a single host that is looked up.
    pub(crate) fn is_domain(&self) -> bool {
        matches!(&self.pattern, Pattern::Literal(HostName::Domain(_), _))
    }

    /// Whether the name holds for one port of its host only.
    pub fn has_port(&self) -> bool {
        matches!(self.pattern, Pattern::Literal(_, Some(_)))
    }

    /// Whether the name is `.`, which holds for every host.
    pub fn is_any(&self) -> bool {
        self.pattern == Pattern::Any
    }

    /// Whether the name is that of a single host, with repositories or without.
    pub fn is_literal(&self) -> bool {
        matches!(self.pattern, Pattern::Literal(..))
    }

    /// Whether this is the name of a domain above a host, which it does not hold for: some people
    /// expect that, because Contrast takes it so. Never one for some repositories, which have no
    /// hosts below them.
    #[must_use]
    pub fn is_above(&self, host: &RegistryHost) -> bool {
        let Pattern::Literal(HostName::Domain(domain), port) = &self.pattern else {
            return false;
        };
        let wide = Self::from(Pattern::Below(domain.clone()));
        let is_host = self.repositories.is_none() && port.is_none();
        is_host && Self::candidates(host).any(|name| name == wide)
    }

    /// Whether this is the name of a host with a port, of whose host alone it has the name.
    pub(crate) fn is_port_of(&self, host: &RegistryHost) -> bool {
        let is_same =
            matches!(&self.pattern, Pattern::Literal(name, Some(_)) if *name == host.name);
        is_same && self.repositories.is_none()
    }

    /// The names that hold for a host, the most specific first; each host has finitely many and
    /// they have no ties.
    pub(crate) fn candidates(host: &RegistryHost) -> impl Iterator<Item = Self> {
        let parents = match &host.name {
            HostName::Domain(domain) => parents(domain),
            HostName::Ipv4(_) | HostName::Ipv6(_) => Vec::new(),
        };
        Self::literal_candidates(host)
            .into_iter()
            .chain(parents.into_iter().map(|domain| Self::from(Pattern::Below(domain))))
            .chain([Self::from(Pattern::Any)])
    }

    /// The literal names of a host, the one with the port first.
    pub(crate) fn literal_candidates(host: &RegistryHost) -> [Self; 2] {
        [Some(host.https_port()), None].map(|port| Pattern::Literal(host.name.clone(), port).into())
    }

    /// The names that hold for a repository and not for all of its host, the most specific first:
    /// the most segments, then the host with its port.
    pub(crate) fn repository_candidates(
        host: &RegistryHost,
        repository: &str,
    ) -> impl Iterator<Item = Self> {
        let hosts = Self::literal_candidates(host);
        prefixes(repository).flat_map(move |prefix| {
            hosts.clone().map(|name| Self { repositories: Some(prefix.into()), ..name })
        })
    }

    fn compared(&self) -> (&Pattern, Option<&str>) {
        (&self.pattern, self.repositories())
    }
}

impl Pattern {
    fn parse(text: &str) -> Result<Self, InvalidName> {
        if text == "." {
            return Ok(Self::Any);
        }
        let (name, port) = split_port(text)?;
        let Some(domain) = name.strip_prefix('.') else {
            return Ok(Self::Literal(HostName::parse(name)?, port));
        };
        if port.is_some() {
            return Err(InvalidName::SuffixWithPort);
        }
        let domain = domain.strip_suffix('.').unwrap_or(domain);
        Ok(Self::Below(parse_domain(domain)?))
    }
}

impl From<Pattern> for RegistryName {
    fn from(pattern: Pattern) -> Self {
        Self { pattern, repositories: None, written: None }
    }
}

impl PartialEq for RegistryName {
    fn eq(&self, other: &Self) -> bool {
        self.compared() == other.compared()
    }
}

impl Eq for RegistryName {}

impl PartialOrd for RegistryName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for RegistryName {
    fn cmp(&self, other: &Self) -> Ordering {
        self.compared().cmp(&other.compared())
    }
}

impl Hash for RegistryName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.compared().hash(state);
    }
}

/// The domains above a domain, the longest first.
fn parents(domain: &str) -> Vec<String> {
    let dots = domain.match_indices('.');
    dots.map(|(dot, _)| domain[dot + 1..].to_owned()).collect()
}

impl fmt::Display for RegistryName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let (Some(host), Some(repositories)) = (self.host(), self.repositories()) {
            return write!(f, "{host}/{repositories}");
        }
        match &self.pattern {
            Pattern::Literal(HostName::Domain(domain), None) => write!(f, "{domain}."),
            Pattern::Literal(host, None) => write!(f, "{host}"),
            Pattern::Literal(host, Some(port)) => write!(f, "{host}:{port}"),
            Pattern::Below(domain) => write!(f, ".{domain}."),
            Pattern::Any => f.write_str("."),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_has_one_normal_form() {
        for (text, shown) in [
            (".", "."),
            (".corp", ".corp."),
            (".Registry.Corp.", ".registry.corp."),
            ("registry.corp", "registry.corp."),
            ("REGISTRY.corp.", "registry.corp."),
            ("registry.corp.:5000", "registry.corp:5000"),
            ("registry.corp:443", "registry.corp:443"),
            ("192.0.2.1.", "192.0.2.1"),
            ("[0::1]:80", "[::1]:80"),
            ("index.docker.io", "docker.io."),
            (".docker.io", ".docker.io."),
            ("Registry.corp./team", "registry.corp/team"),
            ("registry.corp:5000/a/b-c", "registry.corp:5000/a/b-c"),
            ("[0::1]:80/a", "[::1]:80/a"),
            ("index.docker.io/library", "docker.io/library"),
        ] {
            let name = RegistryName::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(name.to_string(), shown, "{text}");
            assert_eq!(RegistryName::parse(shown), Ok(name.clone()), "{text}");
            assert_eq!(name.is_literal(), !shown.starts_with('.'), "{text}");
            assert_eq!(name.is_any(), shown == ".", "{text}");
            assert_eq!(name.written(), text);
        }
    }

    #[test]
    fn what_is_no_name_is_refused_by_the_rule_it_breaks() {
        for (text, rule) in [
            ("", InvalidName::Empty),
            ("..", InvalidName::EmptyLabel),
            ("..corp", InvalidName::EmptyLabel),
            (".corp..", InvalidName::EmptyLabel),
            (".corp:5000", InvalidName::SuffixWithPort),
            (".:5000", InvalidName::SuffixWithPort),
            (".0.0.1", InvalidName::NumericLabel),
            (".192.0.2.1", InvalidName::NumericLabel),
            (".[::1]", InvalidName::Character),
            ("*.corp", InvalidName::Character),
            ("https://registry.corp", InvalidName::Scheme),
            ("https://registry.corp/team", InvalidName::Scheme),
            ("u:p@registry.corp/team", InvalidName::UserInfo),
            ("registry.corp/u:p@team", InvalidName::Repositories),
            ("registry.corp/", InvalidName::Repositories),
            ("registry.corp/team/", InvalidName::Repositories),
            ("registry.corp//team", InvalidName::Repositories),
            ("registry.corp/Team", InvalidName::Repositories),
            ("registry.corp/team*", InvalidName::Repositories),
            ("registry.corp/team:1", InvalidName::Repositories),
            ("/team", InvalidName::Empty),
            ("./team", InvalidName::SuffixWithRepositories),
            (".corp/team", InvalidName::SuffixWithRepositories),
        ] {
            assert_eq!(RegistryName::parse(text), Err(rule), "{text:?}");
        }
    }

    #[test]
    fn candidates_go_from_the_host_to_everything() {
        let candidates = |host| {
            let host = RegistryHost::parse(host).unwrap();
            RegistryName::candidates(&host).map(|name| name.to_string()).collect::<Vec<_>>()
        };
        assert_eq!(candidates("a.b.c:5000"), ["a.b.c:5000", "a.b.c.", ".b.c.", ".c.", "."]);
        assert_eq!(candidates("a.b"), ["a.b:443", "a.b.", ".b.", "."]);
        let repositories = |host, repository| {
            let host = RegistryHost::parse(host).unwrap();
            RegistryName::repository_candidates(&host, repository)
                .map(|name| name.to_string())
                .collect::<Vec<_>>()
        };
        assert_eq!(
            repositories("a.b:80", "team/app"),
            ["a.b:80/team/app", "a.b/team/app", "a.b:80/team", "a.b/team"]
        );
        assert_eq!(candidates("192.0.2.1"), ["192.0.2.1:443", "192.0.2.1", "."]);
        assert_eq!(candidates("[::1]:80"), ["[::1]:80", "[::1]", "."]);
    }
}

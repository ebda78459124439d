//! Where to ask before the registry itself.

use std::borrow::Cow;

use url::Url;

use crate::limits::{MAX_MIRROR_BYTES, MAX_REPOSITORY_BYTES};
use crate::repositories::{check_prefix, is_below};
use crate::{RegistryHost, Rule};

/// The address of a registry's mirror: `http` or `https`, host, optional port and path; no user, no
/// query, no fragment. And which repositories it has, under which names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mirror {
    pub(crate) url: Url,
    pub(crate) host: RegistryHost,
    pub(crate) prefix: Option<Box<str>>,
    pub(crate) name: Option<Box<str>>,
    pub(crate) fallback: Option<bool>,
    /// Whether it stands in the list `mirrors`, not in `mirror`.
    pub(crate) is_listed: bool,
}

impl Mirror {
    /// The address; its path is put in front of the registry's paths.
    pub fn url(&self) -> &Url {
        &self.url
    }

    /// The mirror's own host and port (written or its scheme's), to look its own entry up with.
    pub fn host(&self) -> &RegistryHost {
        &self.host
    }

    /// Whether the mirror is asked over plain HTTP. Then the document allows it: in the mirror's
    /// own literal entry, or by `plain-http` in the entry that names it.
    pub fn is_plain_http(&self) -> bool {
        self.url.scheme() == "http"
    }

    /// Whether it is asked for a repository: it is below the mirror's prefix, by whole segments, or
    /// the mirror has none.
    pub fn has(&self, repository: &str) -> bool {
        let prefix = self.prefix.as_deref();
        prefix.is_none_or(|prefix| is_below(repository, prefix))
    }

    /// The first segments of the names of the repositories that it has; `None` where it may have
    /// them all.
    pub fn prefix(&self) -> Option<&str> {
        self.prefix.as_deref()
    }

    /// What takes the place of the prefix in a repository's name, or stands before the name where
    /// there is no prefix. Empty, it takes the prefix away.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Whether the registry itself is asked for the repositories that it has; `None` where the
    /// entry says that.
    pub fn fallback(&self) -> Option<bool> {
        self.fallback
    }

    /// The name under which it is asked for a repository that it has. `None` where nothing is left
    /// of the name, or it would be longer than a repository's may be.
    pub fn name_of<'r>(&self, repository: &'r str) -> Option<Cow<'r, str>> {
        let Some(name) = self.name() else {
            return Some(Cow::Borrowed(repository));
        };
        let rest = repository.strip_prefix(self.prefix().unwrap_or_default())?;
        let name = match (name, rest.trim_start_matches('/')) {
            ("", rest) => rest.to_owned(),
            (name, "") => name.to_owned(),
            (name, rest) => format!("{name}/{rest}"),
        };
        (1..=MAX_REPOSITORY_BYTES).contains(&name.len()).then_some(Cow::Owned(name))
    }

    /// A mirror of the repositories below `prefix`, or of all, which have other names there by
    /// `name`.
    ///
    /// # Errors
    ///
    /// The rule that the address, the prefix or the name breaks.
    pub fn new(
        url: &str,
        prefix: Option<&str>,
        name: Option<&str>,
        fallback: Option<bool>,
    ) -> Result<Self, Rule> {
        let mirror = Self::parse(url)?;
        check_repositories(prefix, false)?;
        check_repositories(name, prefix.is_some())?;
        let [prefix, name] = [prefix, name].map(|part| part.map(Into::into));
        Ok(Self { prefix, name, fallback, ..mirror })
    }

    pub(crate) fn parse(text: &str) -> Result<Self, Rule> {
        if text.len() > MAX_MIRROR_BYTES {
            return Err(Rule::MirrorTooLong);
        }
        // A URL parser would drop, move or add these silently.
        if text.chars().any(|character| {
            character.is_control() || character.is_whitespace() || character == '\\'
        }) {
            return Err(Rule::MirrorUrl);
        }
        let Some((scheme, rest)) = text.split_once("://") else {
            return Err(Rule::MirrorScheme);
        };
        if !["http", "https"].iter().any(|known| scheme.eq_ignore_ascii_case(known)) {
            return Err(Rule::MirrorScheme);
        }
        if rest.starts_with('/') {
            return Err(Rule::MirrorUrl);
        }
        let url = Url::parse(text).map_err(|_| Rule::MirrorUrl)?;
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        if authority.contains('@') {
            return Err(Rule::MirrorUserInfo);
        }
        if url.query().is_some() || url.fragment().is_some() {
            return Err(Rule::MirrorQuery);
        }
        let host = RegistryHost::of_url(&url).ok_or(Rule::MirrorUrl)?;
        Ok(Self { url, host, prefix: None, name: None, fallback: None, is_listed: false })
    }
}

/// Checks a prefix or a name.
///
/// # Errors
///
/// [`Rule::MirrorRepositories`].
pub(crate) fn check_repositories(text: Option<&str>, may_be_empty: bool) -> Result<(), Rule> {
    match text {
        Some("") if may_be_empty => Ok(()),
        Some(text) => check_prefix(text).map_err(|_| Rule::MirrorRepositories),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mirror_has_a_host_and_perhaps_a_path() {
        for (text, host, is_plain_http) in [
            ("https://mirror.corp", "mirror.corp:443", false),
            ("HTTPS://Mirror.corp:5000/a/b", "mirror.corp:5000", false),
            ("http://192.0.2.1/", "192.0.2.1:80", true),
            ("http://[::1]:5000", "[::1]:5000", true),
            ("https://mirror.corp/p@th", "mirror.corp:443", false),
        ] {
            let mirror = Mirror::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(mirror.host().to_string(), host, "{text}");
            assert_eq!(mirror.is_plain_http(), is_plain_http, "{text}");
        }
        assert_eq!(Mirror::parse("https://mirror.corp/a/b").unwrap().url().path(), "/a/b");
    }

    /// The name becomes part of an address.
    #[test]
    fn a_name_takes_the_place_of_the_prefix() {
        let longest = "a".repeat(MAX_REPOSITORY_BYTES);
        for (prefix, name, repository, expected) in [
            (None, None, "team/app", Some("team/app")),
            (None, Some("hub"), "team/app", Some("hub/team/app")),
            (Some("team"), None, "team/app", Some("team/app")),
            (Some("team"), Some("a/b"), "team/app/x", Some("a/b/app/x")),
            (Some("team"), Some("a/b"), "team", Some("a/b")),
            (Some("team"), Some("team"), "team/app", Some("team/app")),
            (Some("team"), Some(""), "team/app", Some("app")),
            (Some("team"), Some(""), "team", None),
            (None, Some("a"), longest.as_str(), None),
        ] {
            let [prefix, name] = [prefix, name].map(|part: Option<&str>| part.map(Into::into));
            let mirror = Mirror { prefix, name, ..Mirror::parse("https://m").unwrap() };
            assert!(mirror.has(repository));
            assert_eq!(mirror.name_of(repository).as_deref(), expected, "{mirror:?} {repository}");
        }
    }

    #[test]
    fn what_is_no_mirror_is_refused_by_the_rule_it_breaks() {
        let long = format!("https://mirror.corp/{}", "a".repeat(MAX_MIRROR_BYTES));
        for (text, rule) in [
            ("", Rule::MirrorScheme),
            ("mirror.corp", Rule::MirrorScheme),
            ("mirror.corp:5000", Rule::MirrorScheme),
            ("https:mirror.corp", Rule::MirrorScheme),
            ("ftp://mirror.corp", Rule::MirrorScheme),
            ("https://", Rule::MirrorUrl),
            ("https:///mirror.corp", Rule::MirrorUrl),
            ("https://mirror.corp\\x", Rule::MirrorUrl),
            (" https://mirror.corp", Rule::MirrorUrl),
            ("https://mir\nror.corp", Rule::MirrorUrl),
            ("https://mirror.corp:x", Rule::MirrorUrl),
            ("https://mirror..corp", Rule::MirrorUrl),
            ("https://robot:hunter2@mirror.corp", Rule::MirrorUserInfo),
            ("https://@mirror.corp", Rule::MirrorUserInfo),
            ("https://mirror.corp/?ns=x", Rule::MirrorQuery),
            ("https://mirror.corp#x", Rule::MirrorQuery),
            (&long, Rule::MirrorTooLong),
        ] {
            assert_eq!(Mirror::parse(text).err(), Some(rule), "{text:?}");
        }
    }
}

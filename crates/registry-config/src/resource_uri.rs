//! The name of a secret that a key broker keeps.

use std::fmt;

use thiserror::Error;

use crate::limits::MAX_RESOURCE_URI_BYTES;
use crate::problem::Origin;
use crate::{RegistryHost, Rule};

/// The plugin of the broker that is meant when a URI names none.
const RESOURCE_PLUGIN: &str = "resource";

/// What the `resource` plugin names: repository, type and tag.
const RESOURCE_SEGMENTS: usize = 3;

/// The most segments for another plugin, each with rules of its own.
const MAX_SEGMENTS: usize = 8;

/// A resource of a key broker service (KBS), in its canonical form `kbs:///repository/type/tag`, or
/// for a plugin of the broker other than `resource`, `kbs+plugin:///segment?query`.
///
/// Which broker is asked is the guest's own configuration: a host in the URI is legal, ignored, and
/// not kept.
///
/// Invariants: at most [`MAX_RESOURCE_URI_BYTES`] of printable ASCII; each segment begins with a
/// letter, a digit, `_` or `-` and goes on with these and dots, so none is `..`; a query has no
/// fragment behind it. It is not a secret.
///
/// Specification: "KBS resource URI" of the Confidential Containers guest components, as of 2025.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ResourceUri {
    plugin: String,
    path: String,
    query: Option<String>,
}

/// Why a text is not the URI of a resource. Quotes nothing but a URI that is well formed.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidResourceUri {
    /// The URI is longer than [`MAX_RESOURCE_URI_BYTES`].
    #[error("a resource URI has at most {MAX_RESOURCE_URI_BYTES} bytes")]
    TooLong,
    /// The scheme that the first drafts of the specification had.
    #[error("\"cckbc://\" is no longer in use: write \"kbs:///repository/type/tag\"")]
    OldScheme,
    /// Another scheme, or none.
    #[error("a resource URI begins with \"kbs:///\", or with \"kbs+PLUGIN:///\", in lower case")]
    Scheme,
    /// A scheme that is not followed by two slashes.
    #[error(
        "a resource URI has three slashes after its colon, as in \"kbs:///repository/type/tag\""
    )]
    Slashes,
    /// Two slashes, so that the repository stands where the host does.
    #[error(
        "the repository stands where the broker's host would: three slashes are meant, as \
        in \"{meant}\""
    )]
    TwoSlashes {
        /// The URI with the third slash.
        meant: ResourceUri,
    },
    /// A name of a plugin that no scheme can have.
    #[error(
        "the name of a plugin has at most 64 lower-case letters, digits, \"-\" and \".\", and \
        begins with a letter or digit"
    )]
    Plugin,
    /// A user name or password.
    #[error("a resource URI holds no user name or password, and no \"@\"")]
    UserInfo,
    /// What stands where the host does is none.
    #[error(
        "what stands between the second and the third slash is no host; leave it out, it is \
        ignored anyway"
    )]
    Host,
    /// A fragment.
    #[error("a resource URI has no \"#\"")]
    Fragment,
    /// A percent sign where no escape can be.
    #[error(
        "the path of a resource URI has no escapes with \"%\"; names that need them cannot be \
        stored"
    )]
    Escape,
    /// Two slashes in a row, or one at the end.
    #[error(
        "the path of a resource URI has an empty segment: two slashes in a row, or one at its end"
    )]
    EmptySegment,
    /// A character that no segment has.
    #[error(
        "a segment of a resource URI consists of ASCII letters, digits, \"-\", \"_\" and \".\", \
        and does not begin with \".\""
    )]
    Character,
    /// A number of segments that names no resource.
    #[error(
        "a resource has three segments, as in \"kbs:///repository/type/tag\", and this URI has \
        {found}"
    )]
    SegmentCount {
        /// How many there are.
        found: usize,
    },
    /// A number of segments that no plugin has.
    #[error("the path of a plugin has 1 to {MAX_SEGMENTS} segments")]
    PluginSegmentCount,
    /// A query for a resource.
    #[error("a resource has no query: leave out \"?\" and what follows")]
    QueryOfResource,
    /// A query that is none.
    #[error(
        "the query of a resource URI is not empty and consists of printable ASCII characters other \
        than quotation marks, \"#<>\\^`{{|}}\"; \"%\" begins an escape of two hexadecimal digits"
    )]
    Query,
}

impl ResourceUri {
    /// Reads a URI.
    ///
    /// # Errors
    ///
    /// The first rule that the text breaks; it quotes nothing of a text that is not well formed.
    pub fn parse(text: &str) -> Result<Self, InvalidResourceUri> {
        if text.len() > MAX_RESOURCE_URI_BYTES {
            return Err(InvalidResourceUri::TooLong);
        }
        let (scheme, rest) = text.split_once(':').ok_or(InvalidResourceUri::Scheme)?;
        let plugin = parse_scheme(scheme)?;
        let rest = rest.strip_prefix("//").ok_or(InvalidResourceUri::Slashes)?;
        if rest.contains('#') {
            return Err(InvalidResourceUri::Fragment);
        }
        let (rest, query) = match rest.split_once('?') {
            Some((rest, query)) => (rest, Some(query)),
            None => (rest, None),
        };
        if rest.contains('@') {
            return Err(InvalidResourceUri::UserInfo);
        }
        if rest.contains('%') {
            return Err(InvalidResourceUri::Escape);
        }
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        let uri = Self {
            plugin: plugin.to_owned(),
            path: path.to_owned(),
            query: query.map(str::to_owned),
        };
        uri.check(authority)?;
        Ok(uri)
    }

    /// Reads what a document refers to. Another plugin than `resource` may make something up, on
    /// parameters of whoever names it, or do something: what is asked of it is the owner's to say.
    pub(crate) fn parse_from(origin: Origin, text: &str) -> Result<Self, Rule> {
        let uri = Self::parse(text)?;
        if origin == Origin::Host && uri.names_plugin() {
            return Err(Rule::PluginOfHost);
        }
        Ok(uri)
    }

    /// Whether it names another plugin of the broker than `resource`, which only the measured
    /// document may ([`Rule::PluginOfHost`]).
    pub fn names_plugin(&self) -> bool {
        !self.is_resource()
    }

    /// Whether the text of a URI names a host, which decides nothing.
    #[must_use]
    pub fn names_host(text: &str) -> bool {
        text.split_once("://").is_some_and(|(_, rest)| !rest.starts_with('/'))
    }

    /// The plugin of the broker that is asked, `resource` where the URI names none.
    pub fn plugin(&self) -> &str {
        &self.plugin
    }

    /// The segments with slashes between them, none in front: `repository/type/tag`.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// What a plugin other than `resource` is asked with, as written.
    pub fn query(&self) -> Option<&str> {
        self.query.as_deref()
    }

    fn is_resource(&self) -> bool {
        self.plugin == RESOURCE_PLUGIN
    }

    /// Checks a URI whose parts have been told from each other, against what stands in the host's
    /// place.
    fn check(&self, authority: &str) -> Result<(), InvalidResourceUri> {
        let found = check_segments(&self.path)?;
        if self.is_resource() {
            if self.query.is_some() {
                return Err(InvalidResourceUri::QueryOfResource);
            }
            if found != RESOURCE_SEGMENTS {
                return Err(self.with_repository(authority, found));
            }
        } else if !(1..=MAX_SEGMENTS).contains(&found) {
            return Err(InvalidResourceUri::PluginSegmentCount);
        }
        if !authority.is_empty() && RegistryHost::parse(authority).is_err() {
            return Err(InvalidResourceUri::Host);
        }
        match &self.query {
            Some(query) if !is_query(query) => Err(InvalidResourceUri::Query),
            _ => Ok(()),
        }
    }

    /// What is wrong with a resource of another number of segments: perhaps the repository went
    /// where the host belongs.
    fn with_repository(&self, authority: &str, found: usize) -> InvalidResourceUri {
        if found + 1 == RESOURCE_SEGMENTS && check_segments(authority) == Ok(1) {
            return InvalidResourceUri::TwoSlashes {
                meant: Self { path: format!("{authority}/{}", self.path), ..self.clone() },
            };
        }
        InvalidResourceUri::SegmentCount { found }
    }
}

/// The canonical form, without the host and without the plugin that goes without saying.
impl fmt::Display for ResourceUri {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("kbs")?;
        if !self.is_resource() {
            write!(f, "+{}", self.plugin)?;
        }
        write!(f, ":///{}", self.path)?;
        self.query.as_ref().map_or(Ok(()), |query| write!(f, "?{query}"))
    }
}

/// The plugin that a scheme names.
fn parse_scheme(scheme: &str) -> Result<&str, InvalidResourceUri> {
    if scheme.eq_ignore_ascii_case("cckbc") {
        return Err(InvalidResourceUri::OldScheme);
    }
    let plugin = match scheme.strip_prefix("kbs") {
        Some("") => return Ok(RESOURCE_PLUGIN),
        Some(rest) => rest.strip_prefix('+').ok_or(InvalidResourceUri::Scheme)?,
        None => return Err(InvalidResourceUri::Scheme),
    };
    let is_legal = |byte: u8| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'-' | b'.');
    let begins_well = plugin.starts_with(|first: char| first.is_ascii_alphanumeric());
    if plugin.len() <= 64 && begins_well && plugin.bytes().all(is_legal) {
        Ok(plugin)
    } else {
        Err(InvalidResourceUri::Plugin)
    }
}

/// Checks the segments of a path and counts them.
fn check_segments(path: &str) -> Result<usize, InvalidResourceUri> {
    if path.is_empty() {
        return Ok(0);
    }
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    let mut count = 0;
    for segment in path.split('/') {
        if segment.is_empty() {
            return Err(InvalidResourceUri::EmptySegment);
        }
        if segment.starts_with('.') || !segment.bytes().all(is_legal) {
            return Err(InvalidResourceUri::Character);
        }
        count += 1;
    }
    Ok(count)
}

/// Whether a text may follow the question mark of a URL unchanged.
fn is_query(query: &str) -> bool {
    let is_legal = |byte: u8| byte.is_ascii_graphic() && !b"\"'#<>\\^`{|}".contains(&byte);
    let is_escape = |rest: &str| {
        rest.as_bytes()
            .first_chunk::<2>()
            .is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    !query.is_empty() && query.bytes().all(is_legal) && query.split('%').skip(1).all(is_escape)
}

#[cfg(test)]
mod tests;

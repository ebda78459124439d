//! Which images a pattern of `matchImages`, or a key of an answer, stands for; exactly as the
//! kubelet decides it.
//!
//! Both sides are read as URLs without their scheme. Ports must be equal as texts, so that a
//! pattern without a port matches no image with one. Hosts are compared label by label with shell
//! globs, and must have equally many. The image's path must begin with that of the pattern, as
//! text: `/team` matches `/teams` too.

use std::fmt;

use super::glob::glob_matches;

/// The longest pattern or key that is read; far more than a host and a path. Free to change.
pub const MAX_PATTERN_BYTES: usize = 4096;

/// Not a URL, once it has a scheme. The text is not repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a host with an optional port and path")]
pub struct InvalidPattern;

/// A pattern, or an image: a host with an optional port and path.
#[derive(Clone, PartialEq, Eq)]
pub struct Pattern {
    labels: Vec<String>,
    port: String,
    path: Vec<u8>,
}

/// Shows the host. The `user:password@` of a pasted address is not kept.
impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pattern({})", self.host())
    }
}

impl Pattern {
    /// Reads a text without a scheme, such as `*.dkr.ecr.*.amazonaws.com` or
    /// `registry.corp:5000/team`.
    ///
    /// # Errors
    ///
    /// [`InvalidPattern`], where Go's URL parser refuses it.
    pub fn parse(text: &str) -> Result<Self, InvalidPattern> {
        if text.len() > MAX_PATTERN_BYTES || text.bytes().any(|byte| byte < 0x20 || byte == 0x7f) {
            return Err(InvalidPattern);
        }
        // The query and the fragment are not compared.
        let text = text.split(['#', '?']).next().unwrap_or_default();
        let (authority, path) = match text.find('/') {
            Some(slash) => text.split_at(slash),
            None => (text, ""),
        };
        let host = authority.rsplit('@').next().unwrap_or_default();
        if !is_host(host) {
            return Err(InvalidPattern);
        }
        let (host, port) = split_port(host);
        Ok(Self {
            labels: host.split('.').map(Into::into).collect(),
            port: port.into(),
            path: unescaped(path)?,
        })
    }

    /// Whether `image` is one of those that this pattern stands for.
    #[must_use]
    pub fn matches(&self, image: &Self) -> bool {
        image.path.starts_with(&self.path) && self.matches_host_of(image)
    }

    /// Whether it would match, were it not for the path.
    #[must_use]
    pub fn matches_host_of(&self, image: &Self) -> bool {
        self.port == image.port
            && self.labels.len() == image.labels.len()
            && self
                .labels
                .iter()
                .zip(&image.labels)
                .all(|(glob, label)| glob_matches(glob, label))
    }

    /// Whether it says more than a host.
    #[must_use]
    pub fn has_path(&self) -> bool {
        !matches!(self.path.as_slice(), b"" | b"/")
    }

    /// The beginning of the repositories' names that it is for, as a document may have it: the
    /// kubelet compares texts, and a document whole segments.
    #[must_use]
    pub fn repositories(&self) -> Option<&str> {
        let path = std::str::from_utf8(&self.path).ok()?;
        let path = path.strip_prefix('/')?;
        Some(path.strip_suffix('/').unwrap_or(path))
    }

    fn host(&self) -> String {
        let host = self.labels.join(".");
        if self.port.is_empty() {
            host
        } else {
            format!("{host}:{}", self.port)
        }
    }
}

/// Whether Go's URL parser takes the text for a host with an optional port.
fn is_host(text: &str) -> bool {
    let after_address = match text.strip_prefix('[') {
        Some(rest) => match rest.rsplit_once(']') {
            Some((_, rest)) => rest,
            None => return false,
        },
        None => text.rfind(':').map_or("", |colon| &text[colon..]),
    };
    let port = match after_address.strip_prefix(':') {
        Some(port) => port,
        None if after_address.is_empty() => "",
        None => return false,
    };
    port.bytes().all(|byte| byte.is_ascii_digit())
        && text.chars().all(|character| {
            !character.is_ascii()
                || character.is_ascii_alphanumeric()
                || "-_.~!$&'()*+,;=:[]<>\"".contains(character)
        })
}

/// Host and port as Go's `net.SplitHostPort` divides them; what that refuses is all host.
fn split_port(text: &str) -> (&str, &str) {
    let Some((host, port)) = text.rsplit_once(':') else {
        return (text, "");
    };
    match host.strip_prefix('[') {
        Some(inner) => match inner.strip_suffix(']') {
            Some(address) if !address.contains(['[', ']']) => (address, port),
            _ => (text, ""),
        },
        None if host.contains([':', '[', ']']) => (text, ""),
        None => (host, port),
    }
}

/// The path with its percent signs resolved.
fn unescaped(path: &str) -> Result<Vec<u8>, InvalidPattern> {
    let mut bytes = path.bytes();
    let mut result = Vec::with_capacity(path.len());
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            result.push(byte);
            continue;
        }
        let mut digit = || {
            let digit = char::from(bytes.next()?).to_digit(16)?;
            u8::try_from(digit).ok()
        };
        let (high, low) = digit().zip(digit()).ok_or(InvalidPattern)?;
        result.push(high << 4 | low);
    }
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_what_the_kubelet_matches() {
        for (pattern, image, expected) in [
            ("registry.corp", "registry.corp/team/app", true),
            ("registry.corp", "registry.corp", true),
            ("registry.corp", "other.corp/app", false),
            ("registry.corp", "Registry.corp/app", false),
            ("Registry.corp", "Registry.corp/app", true),
            // Labels: equally many, each by its glob.
            ("*.corp", "registry.corp/app", true),
            ("*.corp", "a.registry.corp/app", false),
            ("*.*.corp", "a.registry.corp/app", true),
            ("*.corp", "corp/app", false),
            ("*", "localhost/app", true),
            ("*", "registry.corp/app", false),
            (
                "*.dkr.ecr.*.amazonaws.com",
                "123456789012.dkr.ecr.eu-central-1.amazonaws.com/probe",
                true,
            ),
            (
                "*.dkr.ecr.*.amazonaws.com",
                "123456789012.dkr.ecr.cn-north-1.amazonaws.com.cn/probe",
                false,
            ),
            ("k8s.*", "k8s.io/app", true),
            ("prefix.*.io", "prefix.kubernetes.io/app", true),
            ("*-good.k.io", "prefix-good.k.io/app", true),
            ("*-good.k.io", "prefix-bad.k.io/app", false),
            ("reg*y.corp", "registry.corp/app", true),
            ("r*s*y.corp", "rsrsrsyry.corp/app", true),
            ("r*s*x.corp", "rsrsrsyry.corp/app", false),
            ("x[a-c]*.corp", "xb1.corp/app", true),
            ("x[a-c]*.corp", "xd1.corp/app", false),
            ("reg[0-9].corp", "reg7.corp/app", true),
            ("reg[79].corp", "reg8.corp/app", false),
            // A malformed glob matches nothing, not even itself.
            ("reg[.corp", "reg[.corp/app", false),
            ("reg[].corp", "reg[].corp/app", false),
            // Ports: equal as texts, both ways.
            ("registry.corp:5000", "registry.corp:5000/app", true),
            ("registry.corp:5000", "registry.corp:5001/app", false),
            ("registry.corp:5000", "registry.corp/app", false),
            ("registry.corp", "registry.corp:5000/app", false),
            ("registry.corp:443", "registry.corp/app", false),
            ("registry.corp:05000", "registry.corp:5000/app", false),
            ("*:5000", "localhost:5000/app", true),
            // Paths: a prefix of the text.
            ("registry.corp/team", "registry.corp/team/app", true),
            ("registry.corp/team", "registry.corp/teams", true),
            ("registry.corp/team/", "registry.corp/team", false),
            ("registry.corp/te*", "registry.corp/team", false),
            ("registry.corp/te%61m", "registry.corp/team", true),
            ("registry.corp?query", "registry.corp/app", true),
            ("reg?stry.corp", "registry.corp/app", false),
            ("robot@registry.corp", "registry.corp/app", true),
            ("[::1]:5000", "[::1]:5000/app", true),
            // Without a port the brackets are a class of characters.
            ("[::1]", "[::1]/app", false),
            ("https://registry.corp", "registry.corp/app", false),
        ] {
            let [one, other] = [pattern, image].map(|text| Pattern::parse(text).unwrap());
            assert_eq!(one.matches(&other), expected, "{pattern} and {image}");
        }
    }

    #[test]
    fn what_is_no_url_is_no_pattern() {
        let long = "a".repeat(MAX_PATTERN_BYTES + 1);
        for text in [
            "registry corp",
            "registry.corp:http",
            "registry.corp/%zz",
            "registry.corp/%4",
            "reg\\*.corp",
            "[::1",
            "[::1]x",
            "a\nb",
            "registry.corp/\u{7f}",
            "a{b}.corp",
            &long,
        ] {
            assert_eq!(Pattern::parse(text), Err(InvalidPattern), "{text}");
        }
    }
}

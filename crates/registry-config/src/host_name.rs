//! Host names and addresses as text: one spelling for each, and a reason for what is none.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use thiserror::Error;

use crate::limits::{MAX_HOST_BYTES, MAX_REPOSITORY_BYTES};

/// The longest label of such a name (RFC 1035, section 2.3.4).
const MAX_LABEL_BYTES: usize = 63;

/// The spelling that all names of Docker Hub fold to.
pub(crate) const DOCKER_HUB: &str = "docker.io";

/// The other hosts under which Docker Hub's registry answers or is written in configuration files.
const DOCKER_HUB_ALIASES: [&str; 2] = ["index.docker.io", "registry-1.docker.io"];

/// A host without its port.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum HostName {
    Domain(String),
    Ipv4(Ipv4Addr),
    Ipv6(Ipv6Addr),
}

/// Why a text is not the name of a registry. Never quotes the text, which may hold a password
/// (`user:password@host`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum InvalidName {
    /// The text is empty.
    #[error("a registry name must not be empty")]
    Empty,
    /// The name is longer than [`MAX_HOST_BYTES`].
    #[error("a registry name has at most {MAX_HOST_BYTES} bytes")]
    TooLong,
    /// The name begins with `http://`, `https://` or another scheme.
    #[error("a registry name has no scheme: write the host alone, without \"https://\"")]
    Scheme,
    /// The name holds a user name or password.
    #[error(
        "a registry name holds no user name or password: write credentials as \"username\" \
        and \"password\""
    )]
    UserInfo,
    /// A host has a path.
    #[error("the name of a host ends before \"/\": write the host alone, without what follows")]
    Path,
    /// What follows the host are no repositories.
    #[error(
        "behind the host follow whole segments of repository names, as in \
        \"registry.corp/team/app\": lower-case letters, digits and \"-\", \"_\" or \".\" between \
        them, at most {MAX_REPOSITORY_BYTES} bytes, without \"/\" at the end"
    )]
    Repositories,
    /// Repositories of many hosts.
    #[error("only a single host's name may have repositories behind it, no suffix and not \".\"")]
    SuffixWithRepositories,
    /// A label between two dots is empty.
    #[error(
        "a registry name has an empty label: two dots in a row, or a dot where a label should be"
    )]
    EmptyLabel,
    /// A label is longer than 63 bytes.
    #[error("a label of a registry name has at most {MAX_LABEL_BYTES} bytes")]
    LabelTooLong,
    /// A label begins or ends with a hyphen.
    #[error("a label of a registry name neither begins nor ends with a hyphen")]
    Hyphen,
    /// A character that no host name has.
    #[error(
        "a registry name consists of ASCII letters, digits, \"-\", \"_\" and dots; write other \
        scripts in their \"xn--\" form, patterns with \"*\" as a name with a leading dot"
    )]
    Character,
    /// The last label is a number, but the name is not an IPv4 address.
    #[error(
        "a registry name that ends in a number must be an IPv4 address of four decimal numbers, \
        and an address is never a suffix"
    )]
    NumericLabel,
    /// Brackets without an IPv6 address, or an IPv6 address without brackets.
    #[error(
        "an IPv6 address is written in brackets and without a zone, such as \"[::1]\" \
        or \"[::1]:5000\""
    )]
    Ipv6,
    /// What follows the colon is not a port.
    #[error("the port of a registry name is a decimal number from 1 to 65535 at its end")]
    Port,
    /// A suffix carries a port.
    #[error("a suffix has no port: only the name of a single host may carry one")]
    SuffixWithPort,
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Domain(domain) => f.write_str(domain),
            Self::Ipv4(address) => address.fmt(f),
            Self::Ipv6(address) => write!(f, "[{address}]"),
        }
    }
}

impl HostName {
    /// Reads a domain, with or without its trailing dot, or an IP address, without a port.
    pub(crate) fn parse(text: &str) -> Result<Self, InvalidName> {
        if text.starts_with('[') || text.ends_with(']') {
            let inner = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
            let address = inner.and_then(|inner| inner.parse().ok());
            return address.map(Self::Ipv6).ok_or(InvalidName::Ipv6);
        }
        let text = text.strip_suffix('.').unwrap_or(text);
        if let Ok(address) = text.parse() {
            return Ok(Self::Ipv4(address));
        }
        let domain = parse_domain(text)?;
        let is_docker_hub = DOCKER_HUB_ALIASES.contains(&domain.as_str());
        Ok(Self::Domain(if is_docker_hub { DOCKER_HUB.to_owned() } else { domain }))
    }
}

/// Splits a port off, after the checks that concern the whole text.
pub(crate) fn split_port(text: &str) -> Result<(&str, Option<u16>), InvalidName> {
    if text.is_empty() {
        return Err(InvalidName::Empty);
    }
    if text.contains("://") {
        return Err(InvalidName::Scheme);
    }
    if text.contains('@') {
        return Err(InvalidName::UserInfo);
    }
    if text.contains('/') {
        return Err(InvalidName::Path);
    }
    let (name, port) = match text.find(']') {
        // The colons of an IPv6 address are all before the closing bracket.
        Some(bracket) => match text[bracket + 1..].split_once(':') {
            Some((_, port)) => (&text[..text.len() - port.len() - 1], port),
            None => return Ok((text, None)),
        },
        None if text.starts_with('[') || text.matches(':').count() > 1 => {
            return Err(InvalidName::Ipv6);
        }
        None => match text.split_once(':') {
            Some(name_and_port) => name_and_port,
            None => return Ok((text, None)),
        },
    };
    let is_decimal = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    match port.parse::<u16>() {
        Ok(port) if is_decimal && port != 0 => Ok((name, Some(port))),
        _ => Err(InvalidName::Port),
    }
}

/// Checks a domain without its trailing dot and folds it to lower case.
pub(crate) fn parse_domain(text: &str) -> Result<String, InvalidName> {
    if text.is_empty() {
        return Err(InvalidName::EmptyLabel);
    }
    if text.len() > MAX_HOST_BYTES {
        return Err(InvalidName::TooLong);
    }
    let mut last = "";
    for label in text.split('.') {
        check_label(label)?;
        last = label;
    }
    if is_number(last) {
        return Err(InvalidName::NumericLabel);
    }
    Ok(text.to_ascii_lowercase())
}

fn check_label(label: &str) -> Result<(), InvalidName> {
    if label.is_empty() {
        return Err(InvalidName::EmptyLabel);
    }
    if label.len() > MAX_LABEL_BYTES {
        return Err(InvalidName::LabelTooLong);
    }
    // An underscore is no host name of RFC 1123, but object stores that blobs are redirected to
    // have had them.
    let is_legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    if !label.bytes().all(is_legal) {
        return Err(InvalidName::Character);
    }
    if label.starts_with('-') || label.ends_with('-') {
        return Err(InvalidName::Hyphen);
    }
    Ok(())
}

/// Whether a URL parser would take a host that ends in this label for an IPv4 address, as in
/// `127.1` or `0x7f000001`.
fn is_number(label: &str) -> bool {
    let digits = label.strip_prefix("0x").or_else(|| label.strip_prefix("0X"));
    match digits {
        Some(digits) => digits.bytes().all(|byte| byte.is_ascii_hexdigit()),
        None => label.bytes().all(|byte| byte.is_ascii_digit()),
    }
}

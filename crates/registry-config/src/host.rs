//! The host part of an image reference or of a URL, in the one spelling that names are compared in.

use std::fmt;

use url::Url;

use crate::InvalidName;
use crate::host_name::{DOCKER_HUB, HostName, split_port};

/// The port that a host without one stands for.
pub(crate) const HTTPS_PORT: u16 = 443;

/// A registry's host with an optional port, as written before the first `/` of an image reference.
///
/// Invariants: a domain is lower-case ASCII without a trailing dot, at most
/// [`MAX_HOST_BYTES`](crate::MAX_HOST_BYTES) long, of labels that are not empty, and its last label
/// is not a number, so a URL parser never takes a domain for an IPv4 address. `docker.io`,
/// `index.docker.io` and `registry-1.docker.io` are one host, spelled `docker.io`.
///
/// Two hosts are equal if they reach the same port over HTTPS: no port is port 443.
#[derive(Clone, Debug)]
pub struct RegistryHost {
    pub(crate) name: HostName,
    pub(crate) port: Option<u16>,
}

impl RegistryHost {
    /// Reads `host`, `host:port`, `192.0.2.1`, `[2001:db8::1]:5000` and the like.
    ///
    /// # Errors
    ///
    /// [`InvalidName`] names the first rule that the text breaks.
    pub fn parse(text: &str) -> Result<Self, InvalidName> {
        let (name, port) = split_port(text)?;
        Ok(Self { name: HostName::parse(name)?, port })
    }

    /// The host of an HTTP or HTTPS URL, with the port that a connection to it would use; `None` if
    /// it has no registry's host.
    pub fn of_url(url: &Url) -> Option<Self> {
        let mut host = Self::parse(url.host_str()?).ok()?;
        host.port = Some(url.port_or_known_default()?);
        Some(host)
    }

    /// The port, where one was written.
    pub fn port(&self) -> Option<u16> {
        self.port
    }

    /// The host without its port, IPv6 addresses in brackets: what a URL's host would be.
    pub fn name(&self) -> String {
        self.name.to_string()
    }

    /// Whether this is Docker Hub, whose registry is reached under another name than the one that
    /// its images carry.
    pub fn is_docker_hub(&self) -> bool {
        self.https_port() == HTTPS_PORT
            && matches!(&self.name, HostName::Domain(domain) if domain == DOCKER_HUB)
    }

    /// The host in the one spelling that equal hosts share: without the port of HTTPS.
    pub fn canonical(&self) -> String {
        match self.port {
            None | Some(HTTPS_PORT) => self.name(),
            Some(port) => format!("{}:{port}", self.name),
        }
    }

    /// The port of a connection over HTTPS.
    pub(crate) fn https_port(&self) -> u16 {
        self.port.unwrap_or(HTTPS_PORT)
    }
}

impl PartialEq for RegistryHost {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name && self.https_port() == other.https_port()
    }
}

impl Eq for RegistryHost {}

impl fmt::Display for RegistryHost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.name.fmt(f)?;
        self.port.map_or(Ok(()), |port| write!(f, ":{port}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn host_has_one_spelling() {
        for (text, shown) in [
            ("registry.corp", "registry.corp"),
            ("Registry.CORP.", "registry.corp"),
            ("registry.corp:5000", "registry.corp:5000"),
            ("registry.corp.:05000", "registry.corp:5000"),
            ("localhost:5000", "localhost:5000"),
            ("my_bucket.s3.example", "my_bucket.s3.example"),
            ("1registry.2corp", "1registry.2corp"),
            ("192.0.2.1", "192.0.2.1"),
            ("192.0.2.1.:80", "192.0.2.1:80"),
            ("[2001:DB8::0:1]", "[2001:db8::1]"),
            ("[::1]:5000", "[::1]:5000"),
            ("docker.io", "docker.io"),
            ("Index.docker.io", "docker.io"),
            ("registry-1.docker.io.:443", "docker.io:443"),
            ("auth.docker.io", "auth.docker.io"),
        ] {
            let host = RegistryHost::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(host.to_string(), shown, "{text}");
        }
    }

    #[test]
    fn what_is_no_host_is_refused_by_the_rule_it_breaks() {
        let long_label = format!("{}.corp", "a".repeat(64));
        let long_name = vec!["a"; 128].join(".");
        for (text, rule) in [
            ("", InvalidName::Empty),
            (&long_name, InvalidName::TooLong),
            ("https://registry.corp", InvalidName::Scheme),
            ("robot:hunter2@registry.corp", InvalidName::UserInfo),
            ("registry.corp/team", InvalidName::Path),
            ("registry.corp/", InvalidName::Path),
            (".", InvalidName::EmptyLabel),
            (".corp", InvalidName::EmptyLabel),
            ("registry..corp", InvalidName::EmptyLabel),
            ("registry.corp..", InvalidName::EmptyLabel),
            (":5000", InvalidName::EmptyLabel),
            (&long_label, InvalidName::LabelTooLong),
            ("-registry.corp", InvalidName::Hyphen),
            ("registry-.corp", InvalidName::Hyphen),
            ("*.corp", InvalidName::Character),
            ("registry corp", InvalidName::Character),
            ("regi\0stry", InvalidName::Character),
            ("r\u{e9}gistre.corp", InvalidName::Character),
            ("127.1", InvalidName::NumericLabel),
            ("0.0.1.", InvalidName::NumericLabel),
            ("192.0.2.256", InvalidName::NumericLabel),
            ("192.0.2.01", InvalidName::NumericLabel),
            ("registry.0x7f", InvalidName::NumericLabel),
            ("registry.0X", InvalidName::NumericLabel),
            ("::1", InvalidName::Ipv6),
            ("2001:db8::1", InvalidName::Ipv6),
            ("[::1", InvalidName::Ipv6),
            ("::1]", InvalidName::Ipv6),
            ("[::1].", InvalidName::Ipv6),
            ("[fe80::1%eth0]", InvalidName::Ipv6),
            ("[192.0.2.1]", InvalidName::Ipv6),
            ("registry.corp:", InvalidName::Port),
            ("registry.corp:0", InvalidName::Port),
            ("registry.corp:65536", InvalidName::Port),
            ("registry.corp:+80", InvalidName::Port),
            ("registry.corp:5000.", InvalidName::Port),
            ("[::1]:http", InvalidName::Port),
        ] {
            assert_eq!(RegistryHost::parse(text).err(), Some(rule), "{text:?}");
        }
    }

    #[test]
    fn no_port_is_the_port_of_https() {
        let host = |text| RegistryHost::parse(text).unwrap();
        assert_eq!(host("registry.corp"), host("registry.corp:443"));
        assert_ne!(host("registry.corp"), host("registry.corp:80"));
        assert_ne!(host("registry.corp"), host("other.corp"));
        assert_eq!(host("registry.corp").port(), None);
        assert_eq!(host("Registry.corp.:443").canonical(), "registry.corp");
        assert_eq!(host("registry.corp:80").canonical(), "registry.corp:80");
        assert_eq!(host("[::1]:80").name(), "[::1]");
    }

    #[test]
    fn url_lends_its_port() {
        for (url, shown) in [
            ("https://Registry.corp/v2/", Some("registry.corp:443")),
            ("http://registry.corp/v2/", Some("registry.corp:80")),
            ("https://[::1]:5000/", Some("[::1]:5000")),
            ("https://registry-1.docker.io/", Some("docker.io:443")),
            ("unix:/run/socket", None),
            ("ftp+x://registry.corp/", None),
        ] {
            let host = RegistryHost::of_url(&Url::parse(url).unwrap());
            assert_eq!(host.map(|host| host.to_string()).as_deref(), shown, "{url}");
        }
    }

    #[test]
    fn docker_hub_is_known_by_its_names_on_the_port_of_https() {
        for (text, is_docker_hub) in [
            ("docker.io", true),
            ("INDEX.docker.io.", true),
            ("registry-1.docker.io:443", true),
            ("docker.io:5000", false),
            ("auth.docker.io", false),
            ("notdocker.io", false),
            ("192.0.2.1", false),
        ] {
            assert_eq!(RegistryHost::parse(text).unwrap().is_docker_hub(), is_docker_hub, "{text}");
        }
    }
}

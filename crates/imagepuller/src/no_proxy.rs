//! `NO_PROXY` with the meaning that Go programs give it, because documents are written for those.

use std::net::IpAddr;

use url::{Host, Url};

/// Which hosts are reached without the proxy.
#[derive(Clone, Debug, Default)]
pub struct NoProxy {
    everything: bool,
    networks: Vec<(IpAddr, u8)>,
    addresses: Vec<(IpAddr, Option<u16>)>,
    domains: Vec<Domain>,
}

#[derive(Clone, Debug)]
struct Domain {
    /// The name with a leading dot, in lower case.
    suffix: String,
    /// Whether the name itself matches too, not only what is below it.
    itself: bool,
    port: Option<u16>,
}

impl NoProxy {
    /// Reads a list separated by commas: `*`, `10.0.0.0/8`, `10.1.2.3:5000`, `[::1]:5000`, `corp` (and below), `.corp` (only
    /// below). Elements that are none of these match nothing, as in Go.
    pub fn parse(list: &str) -> Self {
        let mut rules = Self::default();
        for element in list.split(',') {
            let element = element.trim().to_ascii_lowercase();
            if element == "*" {
                rules.everything = true;
            } else if let Some(network) = parse_network(&element) {
                rules.networks.push(network);
            } else if let Some((host, port)) = split_port(&element) {
                rules.push_host(host, port);
            }
        }
        rules
    }

    fn push_host(&mut self, host: &str, port: Option<u16>) {
        let host = host
            .strip_prefix('*')
            .filter(|rest| rest.starts_with('.'))
            .unwrap_or(host);
        if let Ok(address) = host.parse::<IpAddr>() {
            self.addresses.push((address.to_canonical(), port));
        } else if let Some(below) = host.strip_prefix('.') {
            self.domains.push(Domain {
                suffix: format!(".{below}"),
                itself: false,
                port,
            });
        } else if !host.is_empty() {
            self.domains.push(Domain {
                suffix: format!(".{host}"),
                itself: true,
                port,
            });
        }
    }

    /// Whether a URL is reached without the proxy. Go never asks a proxy for `localhost` and loopback addresses.
    pub fn matches(&self, url: &Url) -> bool {
        let port = url.port_or_known_default();
        let same_port = |wanted: Option<u16>| wanted.is_none() || wanted == port;
        let address = match url.host() {
            None => return true,
            Some(Host::Domain(name)) => return self.matches_domain(name, same_port),
            Some(Host::Ipv4(address)) => IpAddr::V4(address),
            Some(Host::Ipv6(address)) => IpAddr::V6(address).to_canonical(),
        };
        self.everything
            || address.is_loopback()
            || self
                .networks
                .iter()
                .any(|(network, prefix)| contains(*network, *prefix, address))
            || self
                .addresses
                .iter()
                .any(|(known, port)| *known == address && same_port(*port))
    }

    fn matches_domain(&self, name: &str, same_port: impl Fn(Option<u16>) -> bool) -> bool {
        let name = name.to_ascii_lowercase();
        let matches = |domain: &Domain| {
            let below = name.ends_with(&domain.suffix);
            let itself = domain.itself && domain.suffix.get(1..) == Some(name.as_str());
            (below || itself) && same_port(domain.port)
        };
        self.everything || name == "localhost" || self.domains.iter().any(matches)
    }
}

fn parse_network(text: &str) -> Option<(IpAddr, u8)> {
    let (address, prefix) = text.split_once('/')?;
    let (address, prefix): (IpAddr, u8) = (address.parse().ok()?, prefix.parse().ok()?);
    let longest = if address.is_ipv4() { 32 } else { 128 };
    (prefix <= longest).then_some((address, prefix))
}

/// Splits `host:port` and `[address]:port`; a bare IPv6 address has colons but no port, and brackets need one.
fn split_port(text: &str) -> Option<(&str, Option<u16>)> {
    if let Some(rest) = text.strip_prefix('[') {
        let (host, after) = rest.split_once(']')?;
        return parse_port(after.strip_prefix(':')?).map(|port| (host, port));
    }
    match text.split_once(':') {
        Some((host, port)) if !port.contains(':') => parse_port(port).map(|port| (host, port)),
        _ => Some((text, None)),
    }
}

/// A port after a colon; nothing there means every port.
fn parse_port(text: &str) -> Option<Option<u16>> {
    if text.is_empty() {
        Some(None)
    } else {
        text.parse().ok().map(Some)
    }
}

fn contains(network: IpAddr, prefix: u8, address: IpAddr) -> bool {
    let (network, address, bits) = match (network, address) {
        (IpAddr::V4(network), IpAddr::V4(address)) => {
            (u32::from(network).into(), u32::from(address).into(), 32)
        }
        (IpAddr::V6(network), IpAddr::V6(address)) => {
            (u128::from(network), u128::from(address), 128)
        }
        _ => return false,
    };
    let shift = bits - u32::from(prefix);
    network.checked_shr(shift).unwrap_or(0) == address.checked_shr(shift).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_means_what_go_makes_of_it() {
        let direct = [
            ("corp", "https://corp/"),
            ("corp", "https://registry.corp/"),
            ("corp", "https://registry.corp:5000/"),
            ("CORP", "https://Registry.Corp/"),
            (".corp", "https://registry.corp/"),
            ("*.corp", "https://registry.corp/"),
            ("corp:5000", "https://registry.corp:5000/"),
            ("corp:443", "https://registry.corp/"),
            ("corp:80", "http://registry.corp/"),
            ("a.example, corp ,b.example", "https://corp/"),
            ("*", "https://anything.example/"),
            ("*", "https://192.0.2.1/"),
            ("10.0.0.0/8", "https://10.200.3.4/"),
            ("192.0.2.1", "https://192.0.2.1:5000/"),
            ("192.0.2.1:5000", "https://192.0.2.1:5000/"),
            ("0.0.0.0/0", "https://8.8.8.8/"),
            ("2001:db8::/32", "https://[2001:db8:1::1]/"),
            ("2001:db8::1", "https://[2001:db8::1]:5000/"),
            ("[2001:db8::1]:5000", "https://[2001:db8::1]:5000/"),
            ("corp:", "https://corp:5000/"),
            ("", "https://localhost:5000/"),
            ("", "https://127.0.0.2:5000/"),
            ("", "https://[::1]/"),
        ];
        let proxied = [
            ("", "https://registry.corp/"),
            (",, ,", "https://registry.corp/"),
            ("corp", "https://notcorp/"),
            ("corp", "https://corp.example/"),
            (".corp", "https://corp/"),
            ("*.corp", "https://corp/"),
            ("corp:5000", "https://registry.corp/"),
            ("corp:443", "http://registry.corp/"),
            ("[2001:db8::1]", "https://[2001:db8::1]/"),
            ("corp:x", "https://corp/"),
            (":5000", "https://corp:5000/"),
            ("10.0.0.0/8", "https://11.0.0.1/"),
            ("10.0.0.0/33", "https://10.0.0.1/"),
            ("10.0.0.0/8", "https://ten.example/"),
            ("192.0.2.1:5000", "https://192.0.2.1/"),
            ("192.0.2", "https://192.0.2.1/"),
            ("2001:db8::/32", "https://[2001:db9::1]/"),
            ("::/0", "https://192.0.2.1/"),
            ("[2001:db8::1", "https://[2001:db8::1]/"),
            ("localhost", "https://localhost.example/"),
        ];
        for (cases, expected) in [(&direct[..], true), (&proxied[..], false)] {
            for (list, url) in cases {
                let matched = NoProxy::parse(list).matches(&Url::parse(url).unwrap());
                assert_eq!(matched, expected, "NO_PROXY={list:?} for {url}");
            }
        }
    }
}

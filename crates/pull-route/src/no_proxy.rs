//! `NO_PROXY` with the meaning that Go programs give it (package `httpproxy`), because documents
//! are written for those.

use std::net::IpAddr;

use url::{Host, Url};

/// Which hosts are reached without the proxy.
#[derive(Clone, Debug, Default)]
pub struct NoProxy {
    everything: bool,
    networks: Vec<(IpAddr, u8)>,
    addresses: Vec<(IpAddr, Port)>,
    domains: Vec<Domain>,
}

/// As written, and every port where none is: Go compares texts, so "0443" is no port at all.
type Port = Option<String>;

#[derive(Clone, Debug)]
struct Domain {
    /// The name with a leading dot, in lower case.
    suffix: String,
    /// Whether the name itself matches too, not only what is below it.
    itself: bool,
    port: Port,
}

impl NoProxy {
    /// Reads a list separated by commas: `*`, `10.0.0.0/8`, `10.1.2.3:5000`, `[::1]:5000`, `corp`
    /// (and below), `.corp` (only below). Elements that are none of these match nothing, as in Go.
    pub fn parse(list: &str) -> Self {
        let mut rules = Self::default();
        for element in list.split(',') {
            let element = element.trim().to_lowercase();
            if element == "*" {
                rules.everything = true;
            } else if let Some(network) = parse_network(&element) {
                rules.networks.push(network);
            } else {
                let (host, port) = split_port(&element);
                rules.push_host(host, port);
            }
        }
        rules
    }

    fn push_host(&mut self, host: &str, port: Port) {
        if let Ok(address) = host.parse::<IpAddr>() {
            self.addresses.push((address.to_canonical(), port));
            return;
        }
        let host = match host.strip_prefix('*') {
            Some(below) if below.starts_with('.') => below,
            _ => host,
        };
        if host.is_empty() {
            return;
        }
        let below = host.strip_prefix('.');
        self.domains.push(Domain {
            suffix: format!(".{}", ascii(below.unwrap_or(host))),
            itself: below.is_none(),
            port,
        });
    }

    /// Whether a URL is reached without the proxy. Go never asks a proxy for `localhost` and
    /// loopback addresses.
    pub fn matches(&self, url: &Url) -> bool {
        let port = url.port_or_known_default().unwrap_or_default().to_string();
        let same_port = |wanted: &Port| wanted.as_ref().is_none_or(|wanted| *wanted == port);
        let (name, address) = match url.host() {
            None => return true,
            Some(Host::Domain("localhost")) => return true,
            Some(Host::Domain(name)) => (name.to_owned(), None),
            Some(Host::Ipv4(address)) => (address.to_string(), Some(IpAddr::V4(address))),
            Some(Host::Ipv6(address)) => {
                let canonical = IpAddr::V6(address).to_canonical();
                (address.to_string(), Some(canonical))
            }
        };
        let is_listed = |address: IpAddr| {
            let within = |(network, prefix): &(IpAddr, u8)| contains(*network, *prefix, address);
            let same = |(known, port): &(IpAddr, Port)| *known == address && same_port(port);
            address.is_loopback()
                || self.networks.iter().any(within)
                || self.addresses.iter().any(same)
        };
        // Also for addresses: to Go they are names too.
        let is_named = |domain: &Domain| {
            let itself = domain.itself && domain.suffix.get(1..) == Some(name.as_str());
            (itself || name.ends_with(&domain.suffix)) && same_port(&domain.port)
        };
        self.everything || address.is_some_and(is_listed) || self.domains.iter().any(is_named)
    }
}

/// The spelling that URLs have. What is no name stays as it is and matches nothing.
fn ascii(name: &str) -> String {
    if name.is_ascii() {
        return name.to_owned();
    }
    match Host::parse(name) {
        Ok(Host::Domain(domain)) => domain,
        _ => name.to_owned(),
    }
}

/// A network, those of IPv4 also in their IPv6 spelling.
fn parse_network(text: &str) -> Option<(IpAddr, u8)> {
    let (address, prefix) = text.split_once('/')?;
    // A parser of numbers would also take a sign.
    let is_number = prefix.bytes().all(|byte| byte.is_ascii_digit());
    let (address, prefix): (IpAddr, u8) = (address.parse().ok()?, prefix.parse().ok()?);
    let longest = if address.is_ipv4() { 32 } else { 128 };
    if !is_number || prefix > longest {
        return None;
    }
    match (address, address.to_canonical()) {
        (IpAddr::V6(_), canonical @ IpAddr::V4(_)) if prefix >= 96 => {
            Some((canonical, prefix - 96))
        }
        _ => Some((address, prefix)),
    }
}

/// Splits `host:port` and `[address]:port`. What has no port in that sense is a host as a whole: a
/// bare IPv6 address, but also one in brackets, which then matches nothing.
fn split_port(text: &str) -> (&str, Port) {
    let split = match text.strip_prefix('[') {
        Some(rest) => {
            rest.split_once(']').and_then(|(host, after)| Some((host, after.strip_prefix(':')?)))
        }
        None => text.split_once(':'),
    };
    match split {
        Some((host, port)) if !port.contains([':', '[', ']']) => {
            let port = (!port.is_empty()).then(|| port.to_owned());
            (host, port)
        }
        _ => (text, None),
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
            ("[corp]:5000", "https://corp:5000/"),
            ("b\u{fc}cher.example", "https://shop.b\u{fc}cher.example/"),
            (".B\u{dc}CHER.example", "https://shop.xn--bcher-kva.example/"),
            ("corp.", "https://registry.corp./"),
            ("*.", "https://registry.corp./"),
            (" corp\t,", "https://corp/"),
            ("10.0.0.0/08", "https://10.0.0.1/"),
            ("10.9.9.9/8", "https://10.0.0.1/"),
            ("192.0.2.1/32", "https://192.0.2.1:5000/"),
            ("::ffff:10.0.0.0/104", "https://10.1.2.3/"),
            ("::ffff:192.0.2.1", "https://192.0.2.1/"),
            ("192.0.2.1", "https://[::ffff:192.0.2.1]/"),
            ("10.0.0.0/8", "https://[::ffff:10.0.0.1]/"),
            ("::/0", "https://[2001:db8::1]/"),
            ("2001:DB8::1", "https://[2001:db8:0::1]/"),
            ("2001:db8::1/128", "https://[2001:db8::1]/"),
            ("[192.0.2.1]:443", "https://192.0.2.1/"),
            ("2.1", "https://192.0.2.1/"),
            (".2.1:5000", "https://192.0.2.1:5000/"),
            ("corp:5000,corp", "https://corp/"),
            ("x,*,y", "https://anything.example/"),
            ("", "https://[::ffff:127.0.0.1]/"),
            ("", "https://localhost:5000/"),
            ("", "https://LOCALHOST/"),
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
            ("2001:db8::1:5000", "https://[2001:db8::1]:5000/"),
            ("corp", "https://registry.corp./"),
            ("corp.", "https://registry.corp/"),
            ("corp:0443", "https://corp/"),
            ("corp:+443", "https://corp/"),
            ("corp:https", "https://corp/"),
            ("corp:443:443", "https://corp/"),
            ("http://corp", "https://corp/"),
            ("corp/24", "https://corp/"),
            ("*corp", "https://registry.corp/"),
            ("*.corp", "http://notcorp/"),
            ("**", "https://corp/"),
            ("*:443", "https://corp/"),
            ("registry.*", "https://registry.corp/"),
            ("10.0.0.0/+8", "https://10.0.0.1/"),
            ("10.0.0.0/-1", "https://10.0.0.1/"),
            ("010.0.0.1", "https://10.0.0.1/"),
            ("10.0.0.0/8:443", "https://10.0.0.1/"),
            ("[10.0.0.0/8]", "https://10.0.0.1/"),
            ("2001:db8::/129", "https://[2001:db8::1]/"),
            ("::ffff:10.0.0.0/104", "https://11.1.2.3/"),
            ("fe80::1%eth0", "https://[fe80::1]/"),
            ("[]:443", "https://corp/"),
            ("corp;example", "https://corp/"),
            ("corp example", "https://corp/"),
            ("127.0.0.1", "https://loopback.example/"),
            ("", "https://app.localhost/"),
            ("", "https://localhost./"),
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

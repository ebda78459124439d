//! Addresses that no server may send the puller to: its own guest, its link, and the cloud's
//! metadata services.
//!
//! Here only the text of an address is judged, also where a proxy resolves it. What a connection is
//! opened to in the end is judged by the same [`Vicinity`] where it is opened (`registry-client`).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use url::{Host, Url};

/// A part of the network where only the guest itself, or whoever runs it, has servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vicinity {
    /// This guest.
    Loopback,
    /// The link that the guest is at.
    LinkLocal,
    /// The cloud's metadata service, at an address that is otherwise an ordinary one.
    Metadata,
    /// No single server: unspecified, broadcast, multicast.
    Nowhere,
}

/// Metadata services outside the link-local networks: AWS, Google and Oracle over IPv6, Alibaba,
/// Oracle, Azure's wire server.
const METADATA: [IpAddr; 6] = [
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V6(Ipv6Addr::new(0xfd20, 0xce, 0, 0, 0, 0, 0, 0x254)),
    IpAddr::V6(Ipv6Addr::new(0xfd00, 0xc1, 0, 0, 0, 0, 0xa9fe, 0xa9fe)),
    IpAddr::V4(Ipv4Addr::new(100, 100, 100, 200)),
    IpAddr::V4(Ipv4Addr::new(192, 0, 0, 192)),
    IpAddr::V4(Ipv4Addr::new(168, 63, 129, 16)),
];

/// Google's metadata service by name.
const METADATA_NAMES: [&str; 3] = ["metadata", "metadata.google.internal", "metadata.goog"];

impl Vicinity {
    /// Where a URL leads, by its text alone, if that is no ordinary place.
    pub fn of_url(url: &Url) -> Option<Self> {
        match url.host()? {
            Host::Ipv4(address) => Self::of(IpAddr::V4(address)),
            Host::Ipv6(address) => Self::of(IpAddr::V6(address)),
            Host::Domain(name) => {
                let name = name.trim_end_matches('.').to_ascii_lowercase();
                if name == "localhost" || name.ends_with(".localhost") {
                    Some(Self::Loopback)
                } else if METADATA_NAMES.contains(&name.as_str()) {
                    Some(Self::Metadata)
                } else {
                    None
                }
            }
        }
    }

    /// Where an address leads, if that is no ordinary place.
    pub fn of(address: IpAddr) -> Option<Self> {
        let address = embedded(address);
        if METADATA.contains(&address) {
            return Some(Self::Metadata);
        }
        let is_link_local = match address {
            IpAddr::V4(address) => address.is_link_local(),
            IpAddr::V6(address) => address.is_unicast_link_local(),
        };
        let is_nowhere = match address {
            // All of 0.0.0.0/8 reaches this machine on some systems.
            IpAddr::V4(address) => address.octets()[0] == 0 || address.is_broadcast(),
            IpAddr::V6(address) => address.is_unspecified(),
        };
        if address.is_loopback() {
            Some(Self::Loopback)
        } else if is_link_local {
            Some(Self::LinkLocal)
        } else if is_nowhere || address.is_multicast() {
            Some(Self::Nowhere)
        } else {
            None
        }
    }
}

/// Whether `to` is in a vicinity that `from` is not in.
pub(crate) fn leads_astray(from: &Url, to: &Url) -> bool {
    let vicinity = Vicinity::of_url(to);
    vicinity.is_some() && vicinity != Vicinity::of_url(from)
}

/// The IPv4 address within an IPv6 one: mapped, or behind the translator of RFC 6052.
fn embedded(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address.to_canonical() else {
        return address.to_canonical();
    };
    match v6.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
            let [a, b] = high.to_be_bytes();
            let [c, d] = low.to_be_bytes();
            IpAddr::V4(Ipv4Addr::new(a, b, c, d))
        }
        _ => IpAddr::V6(v6),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_told_apart() {
        use Vicinity::{LinkLocal, Loopback, Metadata, Nowhere};
        for (url, expected) in [
            ("https://registry.corp/", None),
            ("https://10.0.0.1/", None),
            ("https://192.168.1.1/", None),
            ("https://[fd00::1]/", None),
            ("https://[2001:db8::1]/", None),
            ("https://localhost.example/", None),
            ("https://LOCALHOST/", Some(Loopback)),
            ("https://localhost./", Some(Loopback)),
            ("https://app.localhost/", Some(Loopback)),
            ("https://127.9.9.9/", Some(Loopback)),
            ("https://2130706433/", Some(Loopback)),
            ("https://0x7f.1/", Some(Loopback)),
            ("https://[::1]/", Some(Loopback)),
            ("https://[::ffff:127.0.0.1]/", Some(Loopback)),
            ("https://169.254.169.254/latest/meta-data", Some(LinkLocal)),
            ("https://[::ffff:169.254.169.254]/", Some(LinkLocal)),
            ("https://[64:ff9b::169.254.169.254]/", Some(LinkLocal)),
            ("https://[fe80::1]/", Some(LinkLocal)),
            ("https://[fd00:ec2::254]/", Some(Metadata)),
            ("https://[fd20:ce::254]/", Some(Metadata)),
            ("https://[fd00:c1::a9fe:a9fe]/", Some(Metadata)),
            ("https://metadata.goog/", Some(Metadata)),
            ("https://100.100.100.200/", Some(Metadata)),
            ("https://168.63.129.16/", Some(Metadata)),
            ("https://metadata.google.internal./", Some(Metadata)),
            ("https://0.0.0.0/", Some(Nowhere)),
            ("https://[::]/", Some(Nowhere)),
            ("https://255.255.255.255/", Some(Nowhere)),
            ("https://224.0.0.1/", Some(Nowhere)),
            ("https://[ff02::1]/", Some(Nowhere)),
        ] {
            assert_eq!(Vicinity::of_url(&Url::parse(url).unwrap()), expected, "{url}");
        }
    }

    #[test]
    fn who_is_there_may_lead_there() {
        let url = |text| Url::parse(text).unwrap();
        for (from, to, astray) in [
            ("https://localhost/", "https://127.0.0.1:5000/", false),
            ("https://registry.corp/", "https://127.0.0.1/", true),
            ("https://localhost/", "http://169.254.169.254/", true),
            ("https://169.254.1.1/", "https://169.254.1.2/", false),
            ("https://registry.corp/", "https://storage.corp/", false),
        ] {
            assert_eq!(leads_astray(&url(from), &url(to)), astray, "{from} {to}");
        }
    }
}

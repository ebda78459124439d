//! The address of a proxy, which may hold a password.

use std::fmt;

use zeroize::Zeroizing;

use crate::limits::MAX_CREDENTIAL_BYTES;
use crate::secret::REDACTED;
use crate::{RegistryHost, Rule, Secret};

/// Schemes in lower case, as clients spell them, and the ports that they stand for. A SOCKS proxy
/// resolves names, whichever of its two spellings was used: both mean that in Go.
const SCHEMES: [(&str, &str, u16); 4] =
    [("http", HTTP, 80), ("https", HTTPS, 443), ("socks5", SOCKS, 1080), ("socks5h", SOCKS, 1080)];
const HTTP: &str = "http";
const HTTPS: &str = "https";
const SOCKS: &str = "socks5h";

/// The address of a proxy: `http`, `https` or `socks5`, a host, an optional port, and a user name
/// and password where it wants them.
///
/// Shown, by `Display`, `Debug` and serialisation, without user name and password.
#[derive(Clone)]
pub struct ProxyUrl {
    url: Secret,
    shown: String,
    scheme: &'static str,
    host: RegistryHost,
    has_port: bool,
}

impl ProxyUrl {
    /// The whole address, user name and password included and percent-encoded.
    pub fn url(&self) -> &str {
        self.url.expose()
    }

    /// The proxy's own host and port (written or its scheme's), to look its own entry up with.
    pub fn host(&self) -> &RegistryHost {
        &self.host
    }

    /// Whether the proxy itself is spoken to over TLS.
    pub fn is_tls(&self) -> bool {
        self.scheme == HTTPS
    }

    /// Whether its port is 80 because none is written, where hardly any proxy is.
    pub(crate) fn has_no_port(&self) -> bool {
        self.scheme == HTTP && !self.has_port
    }

    /// Whether it is a SOCKS proxy.
    pub fn is_socks(&self) -> bool {
        self.scheme == SOCKS
    }

    /// Reads an address; without a scheme it is one over HTTP, as in Go.
    ///
    /// The text is taken apart here instead of by a URL parser, whose copies of the password nobody
    /// would zero.
    pub(crate) fn parse(text: &str) -> Result<Self, Rule> {
        if text.len() > MAX_CREDENTIAL_BYTES {
            return Err(Rule::CredentialTooLong);
        }
        let (scheme, rest) = text.split_once("://").unwrap_or((HTTP, text));
        let known = SCHEMES.iter().find(|(known, ..)| scheme.eq_ignore_ascii_case(known));
        let (_, scheme, port) = *known.ok_or(Rule::ProxyScheme)?;
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let (user_info, host) = match rest.rsplit_once('@') {
            Some((user_info, host)) => (Some(user_info), host),
            None => (None, rest),
        };
        let mut address = RegistryHost::parse(host).map_err(|_| Rule::ProxyUrl)?;
        let has_port = address.port.is_some();
        // Clients know the ports of the other schemes.
        let host = match address.port {
            None if scheme == SOCKS => format!("{host}:{port}"),
            _ => host.to_owned(),
        };
        address.port.get_or_insert(port);
        let (url, shown) = match user_info {
            None => {
                let shown = format!("{scheme}://{host}");
                (Secret::from(shown.clone()), shown)
            }
            Some(user_info) => {
                check_user_info(user_info)?;
                let parts = [scheme, "://", user_info, "@", &host];
                // Reserved at once: a string that grows leaves copies behind.
                let length = parts.iter().map(|part| part.len()).sum();
                let mut url = Zeroizing::new(String::with_capacity(length));
                url.extend(parts);
                (Secret::from(url), format!("{scheme}://{REDACTED}@{host}"))
            }
        };
        Ok(Self { url, shown, scheme, host: address, has_port })
    }
}

/// Checks `user` or `user:password` by RFC 3986, section 3.2.1, and that it can become a header of
/// its own.
fn check_user_info(user_info: &str) -> Result<(), Rule> {
    let (username, password) = user_info.split_once(':').unwrap_or((user_info, ""));
    if username.is_empty() {
        return Err(Rule::ProxyUserInfo);
    }
    for (text, is_username) in [(username, true), (password, false)] {
        let mut bytes = text.bytes();
        while let Some(byte) = bytes.next() {
            let is_legal = match byte {
                b'%' => match (hex_digit(bytes.next()), hex_digit(bytes.next())) {
                    (Some(high), Some(low)) => {
                        let decoded = high << 4 | low;
                        if decoded == b':' && is_username {
                            return Err(Rule::ColonInUsername);
                        }
                        !decoded.is_ascii_control()
                    }
                    _ => false,
                },
                b':' | b'-' | b'.' | b'_' | b'~' | b'!' | b'$' | b'&'..=b',' | b';' | b'=' => true,
                _ => byte.is_ascii_alphanumeric(),
            };
            if !is_legal {
                return Err(Rule::ProxyUserInfo);
            }
        }
    }
    Ok(())
}

fn hex_digit(byte: Option<u8>) -> Option<u8> {
    let digit = char::from(byte?).to_digit(16)?;
    u8::try_from(digit).ok()
}

impl fmt::Display for ProxyUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for ProxyUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn proxy_is_shown_without_its_password() {
        for (text, url, shown) in [
            ("http://proxy.corp:3128", "http://proxy.corp:3128", "http://proxy.corp:3128"),
            ("proxy.corp:3128", "http://proxy.corp:3128", "http://proxy.corp:3128"),
            ("HTTPS://proxy.corp/", "https://proxy.corp", "https://proxy.corp"),
            ("robot@192.0.2.1:80", "http://robot@192.0.2.1:80", "http://[redacted]@192.0.2.1:80"),
            (
                "http://robot:a:b%40%c3%a9@[::1]:80/",
                "http://robot:a:b%40%c3%a9@[::1]:80",
                "http://[redacted]@[::1]:80",
            ),
            (
                "socks5://robot:a@proxy.corp",
                "socks5h://robot:a@proxy.corp:1080",
                "socks5h://[redacted]@proxy.corp:1080",
            ),
            ("SOCKS5H://192.0.2.1:1081", "socks5h://192.0.2.1:1081", "socks5h://192.0.2.1:1081"),
        ] {
            let proxy = ProxyUrl::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(proxy.url(), url, "{text}");
            assert_eq!(proxy.to_string(), shown, "{text}");
            assert_eq!(format!("{proxy:?}"), shown, "{text}");
        }
    }

    #[test]
    fn the_scheme_decides_port_and_protocol() {
        for (text, host, is_tls, is_socks) in [
            ("proxy.corp", "proxy.corp:80", false, false),
            ("https://robot:a@Proxy.corp", "proxy.corp:443", true, false),
            ("https://proxy.corp:3128", "proxy.corp:3128", true, false),
            ("socks5://[::1]", "[::1]:1080", false, true),
        ] {
            let proxy = ProxyUrl::parse(text).unwrap();
            let seen = (proxy.is_tls(), proxy.is_socks());
            assert_eq!(proxy.host().to_string(), host, "{text}");
            assert_eq!(seen, (is_tls, is_socks), "{text}");
        }
    }

    #[test]
    fn what_is_no_proxy_is_refused_by_the_rule_it_breaks() {
        let long = format!("http://robot:{}@proxy.corp", "a".repeat(MAX_CREDENTIAL_BYTES));
        for (text, rule) in [
            ("socks4://proxy.corp:1080", Rule::ProxyScheme),
            ("ftp://proxy.corp", Rule::ProxyScheme),
            ("http://", Rule::ProxyUrl),
            ("http://proxy.corp:3128/path", Rule::ProxyUrl),
            ("http://proxy.corp:3128?query", Rule::ProxyUrl),
            ("http://proxy.corp:99999", Rule::ProxyUrl),
            ("http://robot:hunter2@", Rule::ProxyUrl),
            ("http://robot:hunter2@proxy corp", Rule::ProxyUrl),
            ("http:proxy.corp:3128", Rule::ProxyUrl),
            ("http://@proxy.corp", Rule::ProxyUserInfo),
            ("http://:hunter2@proxy.corp", Rule::ProxyUserInfo),
            ("http://robot:hun@ter2@proxy.corp", Rule::ProxyUserInfo),
            ("http://robot:hun/ter2@proxy.corp", Rule::ProxyUserInfo),
            ("http://robot:hun\\ter2@proxy.corp", Rule::ProxyUserInfo),
            ("http://robot:hunter%2@proxy.corp", Rule::ProxyUserInfo),
            ("http://robot:hunter%+1@proxy.corp", Rule::ProxyUserInfo),
            ("http://robot:hunter%0d%0a@proxy.corp", Rule::ProxyUserInfo),
            ("http://robot:h\u{fc}nter@proxy.corp", Rule::ProxyUserInfo),
            ("http://ro%3Abot:hunter2@proxy.corp", Rule::ColonInUsername),
            (&long, Rule::CredentialTooLong),
        ] {
            assert_eq!(ProxyUrl::parse(text).err(), Some(rule), "{text:?}");
        }
        assert!(
            ProxyUrl::parse("http://robot:hun%3Ater2@proxy.corp").is_ok(),
            "a colon in the password"
        );
        assert!(
            ProxyUrl::parse("http://same:same%3a@proxy.corp").is_ok(),
            "a colon in the password only"
        );
    }
}

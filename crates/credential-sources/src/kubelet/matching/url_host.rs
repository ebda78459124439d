//! The host of a URL, as Go's parser reads it.

use std::net::Ipv6Addr;

use super::InvalidPattern;

/// The characters that stand for themselves in a host, besides letters and digits.
const IN_HOST: &str = "-_.~!$&'()*+,;=:[]<>\"";

/// The host of `user@host:port`, with its port, and without percent signs.
pub(super) fn of_authority(authority: &str) -> Result<String, InvalidPattern> {
    let (user, host) = match authority.rsplit_once('@') {
        Some((user, host)) => (user, host),
        None => ("", authority),
    };
    let is_in_user =
        |letter: char| letter.is_ascii_alphanumeric() || "-._:~!$&'()*+,;=%@".contains(letter);
    if !user.chars().all(is_in_user) {
        return Err(InvalidPattern);
    }
    match host.rfind('[') {
        Some(0) => bracketed(host),
        Some(_) => Err(InvalidPattern),
        None => {
            let port = host.find(':').map_or("", |colon| &host[colon..]);
            is_port(port)?;
            unescaped(host, Part::Host)
        }
    }
}

/// An address in brackets: version 6 only, perhaps with a zone.
fn bracketed(host: &str) -> Result<String, InvalidPattern> {
    let (inner, port) = host[1..].rsplit_once(']').ok_or(InvalidPattern)?;
    is_port(port)?;
    let (address, zone) = match inner.find("%25") {
        Some(percent) => inner.split_at(percent),
        None => (inner, ""),
    };
    let address = unescaped(address, Part::Host)?;
    let zone = unescaped(zone, Part::Zone)?;
    // A percent sign with nothing behind it is no zone.
    if address.parse::<Ipv6Addr>().is_err() || zone == "%" {
        return Err(InvalidPattern);
    }
    Ok(format!("[{address}{zone}]{port}"))
}

/// Requires nothing, or a colon with digits behind it, or with nothing.
fn is_port(text: &str) -> Result<(), InvalidPattern> {
    let digits = match text.strip_prefix(':') {
        Some(digits) => digits,
        None if text.is_empty() => "",
        None => return Err(InvalidPattern),
    };
    match digits.bytes().all(|byte| byte.is_ascii_digit()) {
        true => Ok(()),
        false => Err(InvalidPattern),
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Host,
    Zone,
}

/// A text with its percent signs resolved. In a host they stand for what is not ASCII, and for
/// themselves; in a zone for what may stand there anyway, and for spaces.
fn unescaped(text: &str, part: Part) -> Result<String, InvalidPattern> {
    let may_stand = |byte: u8| {
        !byte.is_ascii() || byte.is_ascii_alphanumeric() || IN_HOST.contains(char::from(byte))
    };
    let mut bytes = text.bytes();
    let mut plain = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            if !may_stand(byte) {
                return Err(InvalidPattern);
            }
            plain.push(byte);
            continue;
        }
        let mut digit = || char::from(bytes.next()?).to_digit(16);
        let (high, low) = digit().zip(digit()).ok_or(InvalidPattern)?;
        let value = u8::try_from(high << 4 | low).map_err(|_| InvalidPattern)?;
        let is_good = match part {
            _ if value == b'%' => true,
            Part::Host => !value.is_ascii(),
            Part::Zone => value == b' ' || may_stand(value),
        };
        if !is_good {
            return Err(InvalidPattern);
        }
        plain.push(value);
    }
    // What is no text is in no image's host.
    Ok(String::from_utf8_lossy(&plain).into_owned())
}

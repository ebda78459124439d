//! PEM (RFC 7468): the one private key among the blocks of a text.

use base64::engine::general_purpose::STANDARD;
use zeroize::Zeroizing;

use super::KeyError;
use super::der::Label;

pub(super) const OPENPGP: &str = "an OpenPGP key, and images that are encrypted for OpenPGP are \
not supported; encrypt for an RSA or EC key (skopeo's \
                                  jwe:)";

/// A block that is a private key by its label.
pub(super) struct Block {
    pub(super) label: Label,
    pub(super) der: Zeroizing<Vec<u8>>,
}

/// Finds the private key; `None` if the text is no PEM at all.
///
/// Text around the blocks is skipped, and so are blocks that are no private keys: parameters of a
/// curve, certificates.
pub(super) fn private_key(text: &[u8]) -> Result<Option<Block>, KeyError> {
    let Ok(text) = str::from_utf8(text) else {
        return Ok(None);
    };
    let mut found: Option<Block> = None;
    let mut other: Option<KeyError> = None;
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some(label) = boundary(line, "BEGIN ") else {
            continue;
        };
        let body = read_body(label, &mut lines)?;
        match known(label) {
            Ok(label) if found.is_none() => {
                let der = decode(&body)?;
                found = Some(Block { label, der });
            }
            Ok(_) => return Err(KeyError::Several),
            Err(error) => other = other.or(Some(error)),
        }
    }
    match (found, other) {
        (None, Some(error)) => Err(error),
        (found, _) => Ok(found),
    }
}

/// The label of a line that begins or ends a block.
fn boundary<'a>(line: &'a str, kind: &str) -> Option<&'a str> {
    let line = line.trim().strip_prefix("-----")?;
    line.strip_suffix("-----")?.strip_prefix(kind)
}

/// What stands between a block's first and last line, line by line and not copied.
fn read_body<'a>(
    label: &str,
    lines: &mut impl Iterator<Item = &'a str>,
) -> Result<Vec<&'a str>, KeyError> {
    let mut body = Vec::new();
    for line in lines {
        match boundary(line, "END ") {
            Some(end) if end == label => return Ok(body),
            Some(_) => break,
            None => body.push(line.trim()),
        }
    }
    Err(KeyError::Damaged("PEM"))
}

fn known(label: &str) -> Result<Label, KeyError> {
    let what = match label {
        "PRIVATE KEY" => return Ok(Label::Pkcs8),
        "ENCRYPTED PRIVATE KEY" => return Ok(Label::EncryptedPkcs8),
        "RSA PRIVATE KEY" => return Ok(Label::Pkcs1),
        "EC PRIVATE KEY" => return Ok(Label::Sec1),
        "DSA PRIVATE KEY" => return Err(KeyError::Kind),
        "CERTIFICATE" | "TRUSTED CERTIFICATE" | "X509 CERTIFICATE" => {
            "a certificate, which holds no private key; give the private key that belongs to it"
        }
        "CERTIFICATE REQUEST" | "NEW CERTIFICATE REQUEST" => {
            "a request for a certificate, which holds no private key; give the private key that \
            belongs to it"
        }
        "PUBLIC KEY" | "RSA PUBLIC KEY" => {
            "a public key, which decrypts nothing; give the private key that belongs to it"
        }
        "EC PARAMETERS" => "the parameters of a curve without a key; give the private key",
        "OPENSSH PRIVATE KEY" => {
            "an OpenSSH key; convert a copy of it with `ssh-keygen -p -m PKCS8 -f COPY`"
        }
        "PGP PRIVATE KEY BLOCK" | "PGP PUBLIC KEY BLOCK" => OPENPGP,
        "PKCS7" | "CMS" => "a PKCS#7 message, not a private key; give the private key",
        _ => {
            "PEM with a label that no private key has; give a PRIVATE KEY, RSA PRIVATE KEY, EC \
            PRIVATE KEY or ENCRYPTED PRIVATE KEY"
        }
    };
    Err(KeyError::SomethingElse(what))
}

fn decode(body: &[&str]) -> Result<Zeroizing<Vec<u8>>, KeyError> {
    // RFC 1421 has headers; of keys, only the old encryption uses them.
    if body.iter().any(|line| line.contains("Proc-Type:")) {
        return Err(KeyError::LegacyEncryption);
    }
    let length = body.iter().map(|line| line.len()).sum();
    let mut joined = Zeroizing::new(String::with_capacity(length));
    body.iter().for_each(|line| joined.push_str(line));
    crate::json::decode(&STANDARD, &joined).ok_or(KeyError::Damaged("PEM"))
}

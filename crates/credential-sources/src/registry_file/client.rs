//! The client certificates that files name.

use registry_config::{ClientIdentity, Secret};
use zeroize::Zeroizing;

use super::certificates::{BEGIN, DASHES, END, certificates};
use crate::client_identity::fault;

/// What the labels of all private keys end with.
const KEY: &str = "PRIVATE KEY";

/// The labels of PKCS#8, PKCS#1 and SEC1.
const KINDS: [&str; 3] = ["PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY"];

/// More than the lines around a key's base64 have.
const AROUND_KEY_BYTES: usize = 80;

/// The certificates of one file and the first private key of the other, which may be the same file.
/// What else is in them is not taken.
///
/// # Errors
///
/// Why a document could not hold them, or TLS not use them, as a fragment without a value.
pub fn client(certificate: &[u8], key: &[u8]) -> Result<ClientIdentity, &'static str> {
    let (chain, _) = certificates(certificate)?;
    let client = ClientIdentity::new(chain, private_key(key)?);
    let client = client.ok_or("a document cannot hold this certificate and this private key")?;
    fault(&client).map_or(Ok(client), Err)
}

/// The first private key of a file, as Go's `tls.X509KeyPair` finds it.
fn private_key(bytes: &[u8]) -> Result<Secret, &'static str> {
    let text =
        std::str::from_utf8(bytes).map_err(|_| "the file of the private key is not UTF-8")?;
    let mut lines = text.lines().map(str::trim);
    let label = lines.find_map(|line| {
        let label = line.strip_prefix(BEGIN)?.strip_suffix(DASHES)?;
        label.ends_with(KEY).then_some(label)
    });
    let label = label.ok_or("the file has no private key")?;
    if !KINDS.contains(&label) {
        return Err("the private key has a password, or is of a kind that is not read");
    }
    // Large enough from the start: a string that grows leaves copies of the key behind.
    let mut block = Zeroizing::new(String::with_capacity(text.len() + AROUND_KEY_BYTES));
    block.extend([BEGIN, label, DASHES, "\n"]);
    for line in lines {
        if line.starts_with(END) {
            block.extend([END, label, DASHES, "\n"]);
            return Ok(Secret::from(block));
        }
        let is_base64 = |byte: u8| byte.is_ascii_alphanumeric() || b"+/=".contains(&byte);
        if !line.bytes().all(is_base64) {
            return Err("the private key has a password, or is no base64");
        }
        block.extend([line, "\n"]);
    }
    Err("the private key has no end")
}

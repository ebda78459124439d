//! What the kernel says of an opened volume, in the words of `dmsetup table`.
//!
//! See the kernel's `Documentation/admin-guide/device-mapper`, `dm-crypt.rst` and
//! `dm-integrity.rst`.

use crate::error::Error;

/// The cipher: AES-256 in XTS for secrecy, HMAC with SHA-256 over sector number and ciphertext.
const CIPHER: &str = "capi:authenc(hmac(sha256),xts(aes))-plain64";

/// The tags of 32 bytes that authenticate, and the sectors that each of them is for.
const OPTIONS: [&str; 2] = ["integrity:32:aead", "sector_size:4096"];

/// Requires that `crypt` encrypts and authenticates, over `integrity`, which keeps its tags on the
/// device with the numbers `disk`, without a journal.
pub(crate) fn check(crypt: &str, integrity: &str, disk: &str) -> Result<(), Error> {
    // Start, length, target; cipher, key, offset of its numbers, device, start, options.
    let fields: Vec<_> = crypt.split_whitespace().collect();
    let is_crypt = matches!(fields.as_slice(),
        ["0", _, "crypt", CIPHER, _, "0", _, "0", _, options @ ..]
            if OPTIONS.iter().all(|wanted| options.contains(wanted)));
    if !is_crypt {
        return Err(Error::Table(start(&fields)));
    }
    // Start, length, target; device, reserved sectors, size of a tag, mode: direct.
    let fields: Vec<_> = integrity.split_whitespace().collect();
    match fields.as_slice() {
        ["0", _, "integrity", device, _, "32", "D", ..] if *device == disk => Ok(()),
        _ => Err(Error::Table(start(&fields))),
    }
}

/// What a message has of a table: what stands before any key.
fn start(fields: &[&str]) -> String {
    fields.iter().take(4).copied().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    const CRYPT: &str = "0 16515072 crypt capi:authenc(hmac(sha256),xts(aes))-plain64 \
        :96:logon:cryptsetup:1fd1678f-d0 0 253:0 0 2 integrity:32:aead sector_size:4096\n";
    const INTEGRITY: &str = "0 16515072 integrity 254:0 2048 32 D 5 block_size:4096 \
        journal_sectors:130944 interleave_sectors:32768 buffer_sectors:128 fix_padding\n";

    #[test]
    fn anything_but_what_was_asked_for_is_refused() {
        check(CRYPT, INTEGRITY, "254:0").unwrap();
        for (from, to) in [
            (
                "capi:authenc(hmac(sha256),xts(aes))-plain64",
                "aes-xts-plain64",
            ),
            ("xts(aes)", "ecb(cipher_null)"),
            ("integrity:32:aead", "integrity:32:none"),
            (" integrity:32:aead", ""),
            ("sector_size:4096", "sector_size:512"),
            ("crypt", "linear"),
            ("0 16515072 crypt", "0 1 linear 253:0 0\n1 2 crypt"),
        ] {
            let error = check(&CRYPT.replace(from, to), INTEGRITY, "254:0").unwrap_err();
            assert!(!error.to_string().contains("logon"), "{error}");
        }
        for (from, to) in [
            ("254:0", "254:16"),
            (" 32 D", " 32 J"),
            (" 32 D", " 4 D"),
            ("integrity", "linear"),
        ] {
            check(CRYPT, &INTEGRITY.replace(from, to), "254:0").unwrap_err();
        }
        check("", "", "254:0").unwrap_err();
    }
}

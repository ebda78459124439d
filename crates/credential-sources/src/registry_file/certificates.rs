//! The certificates of CA files, read as leniently as Go reads them: what is no certificate is
//! skipped. Nothing else of a file is ever taken.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use registry_config::{MAX_CERTIFICATES, Roots};

/// The longest CA file that is read: four times a whole system's.
pub const MAX_CA_FILE_BYTES: usize = 1 << 20;

pub(super) const BEGIN: &str = "-----BEGIN ";
pub(super) const END: &str = "-----END ";
pub(super) const DASHES: &str = "-----";

/// Those of a file, each once, and how many of its blocks were none.
///
/// # Errors
///
/// Why there are none, or too many, as a fragment.
pub fn certificates(bytes: &[u8]) -> Result<(Roots, usize), &'static str> {
    let mut roots = Roots::default();
    let text = String::from_utf8_lossy(bytes);
    let mut found = 0;
    let mut skipped = 0;
    for base64 in blocks(&text) {
        let is_one = STANDARD.decode(base64).is_ok_and(|der| roots.add(der));
        *(if is_one { &mut found } else { &mut skipped }) += 1;
        if found + skipped > MAX_CERTIFICATES {
            return Err("more blocks than an entry may have certificates");
        }
    }
    if found == 0 {
        return Err("the file has no certificate");
    }
    Ok((roots, skipped))
}

/// The base64 of the PEM blocks of a text; none of those that are no certificates.
fn blocks(text: &str) -> impl Iterator<Item = String> {
    let mut lines = text.lines().map(str::trim);
    std::iter::from_fn(move || {
        let label = lines.find_map(|line| line.strip_prefix(BEGIN)?.strip_suffix(DASHES))?;
        let body = lines.by_ref().take_while(|line| !line.starts_with(END));
        let body = body.collect::<String>();
        Some(if label == "CERTIFICATE" { body } else { String::new() })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROOT: &str = include_str!("../../../registry-config/tests/data/root.pem");

    #[test]
    fn only_certificates_are_taken_and_each_once() {
        let key = "-----BEGIN PRIVATE KEY-----\naHVudGVyMg==\n-----END PRIVATE KEY-----\n";
        let junk = "-----BEGIN CERTIFICATE-----\naHVudGVyMg==\n-----END CERTIFICATE-----\n";
        let text = format!("comment\n{key}{ROOT}{junk}  {}\r\n", ROOT.replace('\n', "\r\n  "));
        let (roots, skipped) = certificates(text.as_bytes()).unwrap();
        assert_eq!((roots, skipped), (Roots::parse(ROOT).unwrap(), 2));
    }

    #[test]
    fn files_without_certificates_are_faults() {
        for text in ["", "none", "-----BEGIN CERTIFICATE-----\n", "\u{0}\u{1}"] {
            assert!(certificates(text.as_bytes()).is_err(), "{text:?}");
        }
        assert!(certificates(b"\xff\xfe").is_err());
    }
}

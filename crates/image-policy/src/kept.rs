//! Signatures as bytes and back, for who keeps them beside an image.
//!
//! One after the other: a line with the kind, the digest that it was found for and the lengths of
//! what follows, in bytes; then the bytes. Nothing that was kept is believed: whoever reads it
//! judges it as if a registry had just given it.

use oci_image::digest::Digest;

use crate::signature::Signature;

/// The most signatures that are kept for one image, and read.
pub const MAX_KEPT: usize = 64;

/// The longest line before the bytes: a kind, a SHA-512 digest and two lengths.
const MAX_LINE_BYTES: usize = 256;

const SIMPLE: &str = "simple";
const BUNDLE: &str = "bundle";

/// A signature, and the digest that it was found for.
pub type Placed = (Digest, Signature);

/// The first [`MAX_KEPT`] signatures as bytes.
pub fn write(signatures: &[Placed]) -> Vec<u8> {
    let written = signatures.iter().take(MAX_KEPT).map(|(digest, signature)| match signature {
        Signature::Simple { payload, signature } => {
            let (length, behind) = (payload.len(), signature.len());
            let line = format!("{SIMPLE} {digest} {length} {behind}\n");
            [line.as_bytes(), payload, signature.as_bytes()].concat()
        }
        Signature::Bundle(bundle) => {
            let line = format!("{BUNDLE} {digest} {}\n", bundle.len());
            [line.as_bytes(), bundle].concat()
        }
    });
    written.flatten().collect()
}

/// Reads what [`write()`] wrote; `None` if it is anything else. No more memory than the bytes have.
pub fn read(mut bytes: &[u8]) -> Option<Vec<Placed>> {
    let mut signatures = Vec::new();
    while !bytes.is_empty() {
        if signatures.len() == MAX_KEPT {
            return None;
        }
        let end = bytes.iter().take(MAX_LINE_BYTES).position(|byte| *byte == b'\n')?;
        let line = std::str::from_utf8(bytes.get(..end)?).ok()?;
        bytes = bytes.get(end + 1..)?;
        let words: Vec<_> = line.split(' ').collect();
        let (digest, signature) = match *words {
            [SIMPLE, digest, payload, signature] => {
                let payload = take(&mut bytes, payload)?.to_vec();
                let signature = String::from_utf8(take(&mut bytes, signature)?.to_vec()).ok()?;
                (digest, Signature::Simple { payload, signature })
            }
            [BUNDLE, digest, bundle] => {
                let bundle = take(&mut bytes, bundle)?.to_vec();
                (digest, Signature::Bundle(bundle))
            }
            _ => return None,
        };
        signatures.push((Digest::parse(digest).ok()?, signature));
    }
    Some(signatures)
}

/// The next bytes, as many as a word says.
fn take<'b>(bytes: &mut &'b [u8], length: &str) -> Option<&'b [u8]> {
    let (taken, rest) = bytes.split_at_checked(length.parse().ok()?)?;
    *bytes = rest;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(payload: &[u8]) -> [Placed; 2] {
        let digest = |digit: &str| Digest::parse(&format!("sha256:{}", digit.repeat(64))).unwrap();
        let simple = Signature::Simple { payload: payload.to_vec(), signature: "c2ln".to_owned() };
        let bundle = Signature::Bundle(payload.to_vec());
        [(digest("1"), simple), (digest("2"), bundle)]
    }

    #[test]
    fn what_was_kept_is_read_and_nothing_else() {
        for payload in [&b""[..], b"\n", b"{}", &[0xff; 3000]] {
            let bytes = write(&placed(payload));
            let read_again = read(&bytes).unwrap();
            assert_eq!(write(&read_again), bytes);
            assert_eq!(read_again.len(), 2);
            assert!(read(&bytes[1..]).is_none());
            assert!(read(&[&bytes[..], b"x"].concat()).is_none());
            if !payload.is_empty() {
                assert!(read(&bytes[..bytes.len() - 1]).is_none());
            }
        }
        assert!(read(b"").unwrap().is_empty());
        let digest = format!("sha256:{}", "1".repeat(64));
        for text in [
            format!("bundle {digest} 18446744073709551615\n"),
            format!("bundle {digest} -1\n"),
            format!("bundle {digest} 1\n"),
            format!("other {digest} 0\n"),
            "bundle sha256:1 0\n".to_owned(),
            "\n".to_owned(),
            " ".repeat(1 << 20),
        ] {
            assert!(read(text.as_bytes()).is_none(), "{text:.80}");
        }
    }

    #[test]
    fn the_number_is_bounded() {
        let one = write(&placed(b"{}")[..1]);
        assert_eq!(read(&one.repeat(MAX_KEPT)).unwrap().len(), MAX_KEPT);
        assert!(read(&one.repeat(MAX_KEPT + 1)).is_none());
        let many: Vec<_> = (0..MAX_KEPT).flat_map(|_| placed(b"{}")).collect();
        assert_eq!(read(&write(&many)).unwrap().len(), MAX_KEPT);
    }
}

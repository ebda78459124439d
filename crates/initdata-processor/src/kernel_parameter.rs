//! Words of the kernel command line, and the switch for initdata without a TEE.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use foreign_text::bounded::read_stream;
use zeroize::Zeroizing;

/// The kernel parameter that accepts unverified initdata where there is no TEE.
///
/// The command line is measured wherever there is something to measure it. Where the kernel knows
/// that it is an SNP or TDX guest the parameter has no effect, be the guest's driver loaded or not;
/// [`crate::evidence`] says what is not seen.
pub const ALLOW_UNVERIFIED: &str = "configdev.allow_unverified_initdata=1";

/// The longest command line read. The kernel's own limit is a few kilobytes; more is not looked at,
/// and what is cut off cannot switch anything on that was not there.
const MAX_CMDLINE_BYTES: usize = 64 << 10;

/// Whether the command line in `path` holds [`ALLOW_UNVERIFIED`]. One that cannot be read does not.
#[must_use]
pub fn unverified_allowed(path: &Path) -> bool {
    read(path).is_ok_and(|cmdline| allows(&cmdline))
}

/// The values of `key`, such as `configdev.expect=`: the rest of each word of the command line in
/// `path` that begins with it.
///
/// # Errors
///
/// Those of reading the file.
pub fn values(path: &Path, key: &str) -> io::Result<Vec<String>> {
    let cmdline = read(path)?;
    Ok(words(&cmdline)
        .filter_map(|word| word.strip_prefix(key.as_bytes()))
        .map(|value| String::from_utf8_lossy(value).into_owned())
        .collect())
}

fn read(path: &Path) -> io::Result<Zeroizing<Vec<u8>>> {
    let beginning = File::open(path)?.take(MAX_CMDLINE_BYTES as u64);
    Ok(read_stream(beginning, MAX_CMDLINE_BYTES)?)
}

/// Only the exact word counts, and only if no second one contradicts it.
fn allows(cmdline: &[u8]) -> bool {
    let key = ALLOW_UNVERIFIED.trim_end_matches('1').as_bytes();
    let mut words = words(cmdline).filter(|word| word.starts_with(key)).peekable();
    words.peek().is_some() && words.all(|word| word == ALLOW_UNVERIFIED.as_bytes())
}

/// The kernel's own words: what stands behind `--` is for the init.
fn words(cmdline: &[u8]) -> impl Iterator<Item = &[u8]> {
    let words = cmdline.split(u8::is_ascii_whitespace);
    words.take_while(|word| *word != b"--")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_those_of_whole_words() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "quiet a.b=1 xa.b=2 a.b= a.b=c,d -- a.b=3\n").unwrap();
        assert_eq!(values(file.path(), "a.b=").unwrap(), ["1", "", "c,d"]);
        assert!(values(Path::new("/nowhere"), "a.b=").is_err());
    }

    #[test]
    fn only_the_exact_word_allows() {
        for (cmdline, allowed) in [
            ("", false),
            ("configdev.allow_unverified_initdata=1", true),
            ("quiet configdev.allow_unverified_initdata=1\n", true),
            ("quiet configdev.allow_unverified_initdata", false),
            ("configdev.allow_unverified_initdata=1 -- x", true),
            ("quiet -- configdev.allow_unverified_initdata=1", false),
            ("configdev.allow_unverified_initdata=0", false),
            ("configdev.allow_unverified_initdata=10", false),
            ("configdev.allow_unverified_initdata=1,x", false),
            ("xconfigdev.allow_unverified_initdata=1", false),
            ("\"configdev.allow_unverified_initdata=1\"", false),
            ("Configdev.allow_unverified_initdata=1", false),
            ("configdev.allow_unverified_initdata=1 configdev.allow_unverified_initdata=0", false),
            ("configdev.allow_unverified_initdata=0 configdev.allow_unverified_initdata=1", false),
        ] {
            assert_eq!(allows(cmdline.as_bytes()), allowed, "{cmdline}");
        }
    }
}

//! What every program answers to `--version`, in one place.
//!
//! The programs in a guest are part of its measurement. Whoever checks them has to know which
//! sources they are made of (`docs/release.md`).

/// The version and, in parentheses, the commit and whether the checkout differed from it:
/// `0.1.0 (commit 1234..., clean)`. Where nobody said which commit it is, `0.1.0 (commit unknown)`.
pub const VERSION: &str = env!("PROGRAM_VERSION");

/// What stands before the version in a program that has [`marked`] in it, and after it.
const MARK: &str = "\u{1}program-version=";
const END: &str = "\u{1}";

/// The version between its marks.
const MARKED: &str = concat!("\u{1}program-version=", env!("PROGRAM_VERSION"), "\u{1}");

/// The longest version that [`of_program`] tells: a commit has 64 digits at most.
const MAX_VERSION_BYTES: usize = 160;

/// [`VERSION`], out of a text with marks around it: a program that calls this can be asked for its
/// version by [`of_program`] without being started.
#[must_use]
pub fn marked() -> &'static str {
    // Else the compiler would keep only what is used of it.
    let marked = std::hint::black_box(MARKED);
    marked.trim_start_matches(MARK).trim_end_matches(END)
}

/// The version that stands in the bytes of a program; `None` where there is none, as in what calls
/// no [`marked`]. The program may be anybody's, and so may the version: it is printable ASCII.
#[must_use]
pub fn of_program(program: &[u8]) -> Option<&str> {
    let mark = MARK.as_bytes();
    let mut rest = program;
    while let Some(at) = rest.windows(mark.len()).position(|here| here == mark) {
        rest = &rest[at + mark.len()..];
        let near = &rest[..rest.len().min(MAX_VERSION_BYTES + END.len())];
        let end = near.iter().position(|byte| *byte == END.as_bytes()[0]);
        let version = end.and_then(|end| std::str::from_utf8(&near[..end]).ok());
        let is_version = |text: &&str| {
            let is_printable = |byte: u8| byte.is_ascii_graphic() || byte == b' ';
            text.starts_with(|first: char| first.is_ascii_digit()) && text.bytes().all(is_printable)
        };
        if let Some(version) = version.filter(is_version) {
            return Some(version);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_found_among_other_bytes() {
        assert_eq!(marked(), VERSION);
        let around = |version: &[u8]| [b"\x7fELF", MARK.as_bytes(), version, b"\x01more"].concat();
        // The mark alone, as in the program that looks for it.
        let twice = [around(b"\0"), around(b"1.2.3 (commit unknown)")].concat();
        for (program, expected) in [
            (around(VERSION.as_bytes()), Some(VERSION)),
            (twice, Some("1.2.3 (commit unknown)")),
            (around(b"1.2.3\n"), None),
            (around("1.2.3\u{202e}".as_bytes()), None),
            (around(&[b'1'; MAX_VERSION_BYTES + 1]), None),
            (MARK.as_bytes().to_vec(), None),
            (Vec::new(), None),
        ] {
            assert_eq!(of_program(&program), expected);
        }
    }

    #[test]
    fn begins_with_the_version_of_the_workspace() {
        let (version, commit) = VERSION.split_once(" (commit ").unwrap();
        assert_eq!(version, env!("CARGO_PKG_VERSION"));
        let commit = commit.strip_suffix(')').unwrap();
        let state = commit.split_once(", ").map(|(_, state)| state);
        assert!(commit == "unknown" || matches!(state, Some("clean" | "dirty")), "{VERSION}");
    }
}

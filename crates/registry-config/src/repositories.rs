//! The first segments of repository names, as names of the document have them.

use crate::InvalidName;
use crate::limits::MAX_REPOSITORY_BYTES;

/// Checks the beginning of a repository's name: whole segments of what repositories are called
/// (OCI distribution specification, "Pull").
///
/// # Errors
///
/// [`InvalidName::Repositories`].
pub(crate) fn check_prefix(text: &str) -> Result<(), InvalidName> {
    let is_good = text.len() <= MAX_REPOSITORY_BYTES && text.split('/').all(is_segment);
    is_good.then_some(()).ok_or(InvalidName::Repositories)
}

/// Whether a repository is of this name or below it, by whole segments: `team` is not the beginning
/// of `team-b/app`.
pub fn is_below(repository: &str, prefix: &str) -> bool {
    let rest = repository.strip_prefix(prefix);
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

/// The beginnings of a repository's name in whole segments, the longest first.
pub(crate) fn prefixes(repository: &str) -> impl Iterator<Item = &str> {
    let mut rest = Some(repository);
    std::iter::from_fn(move || {
        let prefix = rest?;
        rest = prefix.rsplit_once('/').map(|(shorter, _)| shorter);
        Some(prefix)
    })
}

fn is_segment(text: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let is_inner = |byte: u8| is_letter(byte) || matches!(byte, b'.' | b'_' | b'-');
    match text.as_bytes() {
        [] => false,
        [first, .., last] => is_letter(*first) && is_letter(*last) && text.bytes().all(is_inner),
        [only] => is_letter(*only),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// String comparison, as the kubelet has it, gives `team-ab` the password of `team-a`.
    #[test]
    fn only_whole_segments_are_below() {
        for (repository, prefix, expected) in [
            ("team-a", "team-a", true),
            ("team-a/app", "team-a", true),
            ("team-a/app/x", "team-a/app", true),
            ("team-ab", "team-a", false),
            ("team-ab/app", "team-a", false),
            ("team", "team-a", false),
            ("x/team-a", "team-a", false),
        ] {
            assert_eq!(is_below(repository, prefix), expected, "{repository} {prefix}");
            let found = prefixes(repository).any(|known| known == prefix);
            assert_eq!(found, expected, "{repository} {prefix}");
        }
        assert_eq!(prefixes("a/b/c").collect::<Vec<_>>(), ["a/b/c", "a/b", "a"]);
    }

    #[test]
    fn a_prefix_is_as_long_as_a_repository_may_be() {
        let longest = "a".repeat(MAX_REPOSITORY_BYTES);
        assert_eq!(check_prefix(&longest), Ok(()));
        for bad in [&format!("{longest}a")[..], "-a", "a-", "a/.b", "A", "a b", ""] {
            assert_eq!(check_prefix(bad), Err(InvalidName::Repositories), "{bad}");
        }
        for good in ["a", "a/b", "a--b", "a__b.c", "0"] {
            assert_eq!(check_prefix(good), Ok(()), "{good}");
        }
    }
}

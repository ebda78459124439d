//! What somebody meant who wrote a word that is not known.

use std::borrow::Cow;

/// The longest word that is compared: longer than any key, so that foreign text costs little.
const MAX_WORD_BYTES: usize = 64;

/// The fewest letters of a part of a word that is taken for the whole: `user`, not `ca`.
const MIN_PART_LETTERS: usize = 4;

/// The known word that has the letters of `word`, whatever separates them and whatever their case:
/// `ca_certs` is `ca-certs`.
#[must_use]
pub fn same_letters<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    let word = letters(word);
    let mut known = known.iter().copied();
    known.find(|known| letters(known) == word)
}

/// The known word that `word` was probably meant to be: one of the same letters; else the one that
/// the fewest mistakes lead to, at most one for three letters of the longer word; else the only one
/// that has it as a part.
#[must_use]
pub fn nearest<'k>(word: &str, known: &[&'k str]) -> Option<&'k str> {
    if word.len() > MAX_WORD_BYTES {
        return None;
    }
    let wrong = letters(word);
    if wrong.is_empty() {
        return None;
    }
    let mistakes = |known: &&str| strsim::osa_distance(&wrong, &letters(known));
    let best = known.iter().copied().min_by_key(mistakes)?;
    let most = (wrong.len().max(best.len()) / 3).max(1);
    // Of a word that short, anything is near.
    let is_near = mistakes(&best) <= most && wrong.len() > 2;
    if is_near || letters(best) == wrong {
        return Some(best);
    }
    let mut wholes = known.iter().copied();
    let is_whole =
        |known: &&str| wrong.len() >= MIN_PART_LETTERS && letters(known).contains(&wrong);
    let whole = wholes.find(is_whole)?;
    wholes.find(is_whole).is_none().then_some(whole)
}

/// What serde says of an unknown key or value, with the known one that was probably meant instead
/// of the list of all; a table that is expected is called so, and not by a name in the program.
/// Other messages stay as they are.
#[must_use]
pub fn corrected(message: &str) -> Cow<'_, str> {
    let meant = || {
        let (told, list) = message.split_once("`, expected ")?;
        let (_, word) = told.split_once('`')?;
        // Known words stand in backticks, with commas or "or" between them.
        let known: Vec<&str> = list.split('`').skip(1).step_by(2).collect();
        let is_unknown =
            told.starts_with("unknown field `") || told.starts_with("unknown variant `");
        let known = nearest(word, &known).filter(|_| is_unknown)?;
        Some(format!("{told}`; did you mean `{known}`?"))
    };
    let table = || {
        let (told, _) = message.rsplit_once(", expected struct ")?;
        Some(format!("{told}, expected a table"))
    };
    meant().or_else(table).map_or(Cow::Borrowed(message), Cow::Owned)
}

/// What is left of a word when its spelling is forgotten.
fn letters(word: &str) -> String {
    let letters = word.chars().filter(char::is_ascii_alphabetic);
    letters.map(|letter| letter.to_ascii_lowercase()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistake_leads_to_the_word_that_was_meant() {
        let known = [
            "username",
            "password",
            "identitytoken",
            "registrytoken",
            "registries",
            "ca-certs",
            "insecure-skip-verify",
            "mirror",
            "mirrors",
            "auth",
        ];
        for (word, meant) in [
            ("ca_certs", Some("ca-certs")),
            ("CaCerts", Some("ca-certs")),
            ("pasword", Some("password")),
            ("passwrod", Some("password")),
            ("user", Some("username")),
            ("insecure", Some("insecure-skip-verify")),
            ("skip-verify", Some("insecure-skip-verify")),
            ("mirrrors", Some("mirrors")),
            ("registry", Some("registries")),
            ("miror", Some("mirror")),
            // Two have it.
            ("token", None),
            ("timeout", None),
            ("ca", None),
            ("x", None),
            ("", None),
            ("-_-", None),
            ("\u{1f600}", None),
        ] {
            assert_eq!(nearest(word, &known), meant, "{word}");
        }
        assert_eq!(nearest("password", &[]), None);
        assert_eq!(nearest(&"password".repeat(9), &known), None);
        assert_eq!(same_letters("CA_certs", &known), Some("ca-certs"));
        assert_eq!(same_letters("ca-cert", &known), None);
    }

    #[test]
    fn what_serde_says_is_shortened_where_one_word_is_meant() {
        let unknown = |word| format!("unknown field `{word}`, expected one of `document`, `qemu`");
        for (message, told) in [
            (unknown("documnet"), "unknown field `documnet`; did you mean `document`?".to_owned()),
            (unknown("x"), unknown("x")),
            (unknown(""), unknown("")),
            (unknown("a`b"), unknown("a`b")),
            (
                "unknown variant `Memory`, expected `memory` or `file`".into(),
                "unknown variant `Memory`; did you mean `memory`?".into(),
            ),
            (
                "invalid type: string \"`, expected \", expected a boolean".into(),
                "invalid type: string \"`, expected \", expected a boolean".into(),
            ),
            ("duplicate key".into(), "duplicate key".into()),
            (
                "invalid type: string \"x\", expected struct RawDisk".into(),
                "invalid type: string \"x\", expected a table".into(),
            ),
        ] {
            assert_eq!(corrected(&message), told);
        }
    }
}

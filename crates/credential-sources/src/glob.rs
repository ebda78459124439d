//! Shell globs as Go's `filepath.Match` reads them, for one part of a name: a label of a host's
//! name, or a file's name.

/// One step of a glob.
enum Step {
    Many,
    One,
    Character(char),
    Class { negated: bool, ranges: Vec<(char, char)> },
}

impl Step {
    fn takes(&self, character: char) -> bool {
        match self {
            Self::Many | Self::One => true,
            Self::Character(own) => *own == character,
            Self::Class { negated, ranges } => {
                let inside = ranges.iter().any(|(low, high)| (low..=high).contains(&&character));
                inside != *negated
            }
        }
    }
}

/// Go's `filepath.Match` for one part of a name; a malformed glob matches nothing.
pub(crate) fn glob_matches(glob: &str, label: &str) -> bool {
    let Some(steps) = steps(glob) else {
        return false;
    };
    let label: Vec<char> = label.chars().collect();
    let (mut step, mut place) = (0, 0);
    // Where to go on if what follows the last `*` does not fit: one character later than the last
    // time.
    let mut retry: Option<(usize, usize)> = None;
    while place < label.len() {
        match steps.get(step) {
            Some(Step::Many) => {
                retry = Some((step + 1, place));
                step += 1;
            }
            Some(one) if one.takes(label[place]) => {
                step += 1;
                place += 1;
            }
            _ => match &mut retry {
                Some((after, from)) => {
                    *from += 1;
                    (step, place) = (*after, *from);
                }
                None => return false,
            },
        }
    }
    steps[step..].iter().all(|step| matches!(step, Step::Many))
}

/// Whether a glob is well-formed.
pub(crate) fn is_glob(glob: &str) -> bool {
    steps(glob).is_some()
}

fn steps(glob: &str) -> Option<Vec<Step>> {
    let mut rest = glob.chars().peekable();
    let mut steps = Vec::new();
    while let Some(character) = rest.next() {
        steps.push(match character {
            '*' => Step::Many,
            '?' => Step::One,
            '\\' => Step::Character(rest.next()?),
            '[' => class(&mut rest)?,
            other => Step::Character(other),
        });
    }
    Some(steps)
}

fn class(rest: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Option<Step> {
    let negated = rest.next_if_eq(&'^').is_some();
    let mut ranges = Vec::new();
    loop {
        if !ranges.is_empty() && rest.next_if_eq(&']').is_some() {
            return Some(Step::Class { negated, ranges });
        }
        let low = class_member(rest)?;
        let high = match rest.next_if_eq(&'-') {
            Some(_) => class_member(rest)?,
            None => low,
        };
        ranges.push((low, high));
    }
}

fn class_member(rest: &mut std::iter::Peekable<std::str::Chars<'_>>) -> Option<char> {
    match rest.next()? {
        '-' | ']' => None,
        '\\' => rest.next(),
        other => Some(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_are_read_as_go_reads_them() {
        // Go reads a caret at the front as "none of these".
        let labels = [("[^a-c]*", "d1", true), ("[^a-c]*", "b1", false), ("\\*", "*", true)];
        for (glob, label, expected) in labels {
            assert_eq!(glob_matches(glob, label), expected, "{glob} and {label}");
        }
    }

    #[test]
    fn a_glob_costs_no_more_than_its_lengths() {
        // Would take for ever with one recursion per star.
        let glob = "a*".repeat(2000);
        assert!(!glob_matches(&glob, &"a".repeat(1999)));
        assert!(glob_matches(&glob, &"a".repeat(2000)));
    }
}

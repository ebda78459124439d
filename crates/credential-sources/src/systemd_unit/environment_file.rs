//! Files of variables, which look like a shell's and are none.

use zeroize::Zeroizing;

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    BeforeKey,
    Key,
    BeforeValue,
    Value,
    ValueEscape,
    Single,
    Double,
    DoubleEscape,
    Comment,
    CommentEscape,
}

/// What is being read.
struct Line {
    key: String,
    /// As large as any value from the start: a string that grows leaves copies of its secrets
    /// behind.
    value: Zeroizing<String>,
    /// The length of the value without the blanks at its end.
    end: usize,
}

/// Calls `take` with name and value of each assignment, in order. What is none is skipped.
pub(super) fn assignments(text: &str, take: &mut dyn FnMut(&str, &str)) {
    use State::*;
    let mut state = BeforeKey;
    let mut line = Line {
        key: String::new(),
        value: Zeroizing::new(String::with_capacity(text.len())),
        end: 0,
    };
    for next in text.chars() {
        let is_end = next == '\n' || next == '\r';
        let is_blank = is_end || next == ' ' || next == '\t';
        state = match state {
            BeforeKey if next == '#' || next == ';' => Comment,
            BeforeKey if is_blank => BeforeKey,
            BeforeKey => {
                line.key.clear();
                line.value.clear();
                line.end = 0;
                line.key.push(next);
                Key
            }
            Key if is_end => BeforeKey,
            Key if next == '=' => BeforeValue,
            Key => {
                line.key.push(next);
                Key
            }
            BeforeValue | Value if is_end => {
                line.finish(state, take);
                BeforeKey
            }
            BeforeValue if next == '\'' => Single,
            BeforeValue if next == '"' => Double,
            BeforeValue | Value if next == '\\' => {
                line.end = line.value.len();
                ValueEscape
            }
            BeforeValue if is_blank => BeforeValue,
            BeforeValue | Value => line.push_plain(next, is_blank),
            ValueEscape if is_end => Value,
            ValueEscape => line.push_plain(next, false),
            Single if next == '\'' => BeforeValue,
            Double if next == '"' => BeforeValue,
            Double if next == '\\' => DoubleEscape,
            Single | Double => {
                line.value.push(next);
                line.end = line.value.len();
                state
            }
            DoubleEscape => {
                if !"\"\\`$\n".contains(next) {
                    line.value.push('\\');
                }
                if next != '\n' {
                    line.value.push(next);
                }
                line.end = line.value.len();
                Double
            }
            Comment if next == '\\' => CommentEscape,
            Comment | CommentEscape if is_end => BeforeKey,
            Comment | CommentEscape => Comment,
        };
    }
    if !matches!(state, BeforeKey | Key | Comment | CommentEscape) {
        line.finish(state, take);
    }
}

impl Line {
    fn push_plain(&mut self, next: char, is_blank: bool) -> State {
        self.value.push(next);
        if !is_blank {
            self.end = self.value.len();
        }
        State::Value
    }

    /// Hands the assignment over. Blanks at the end of what is not quoted are no part of it.
    fn finish(&mut self, state: State, take: &mut dyn FnMut(&str, &str)) {
        let value = match state {
            State::Value => self.value.get(..self.end).unwrap_or_default(),
            _ => &self.value,
        };
        take(self.key.trim_end_matches([' ', '\t']), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_read_as_systemd_reads_them() {
        let text = "# A=0\n; A=0 \\\nB=1\n A = a b \t\nC='x y' z\nD=\"a\\\"\\q\\\nb\"\n\
            export E=1\nF=a\\\n b\\ \nG=\nno assignment\nH='a\nb'\rI=a#b\nJ=end  ";
        let mut found = Vec::new();
        assignments(text, &mut |name, value| found.push(format!("{name}|{value}")));
        let expected = [
            "B|1",
            "A|a b",
            "C|x yz",
            "D|a\"\\qb",
            "export E|1",
            "F|a b ",
            "G|",
            "H|a\nb",
            "I|a#b",
            "J|end",
        ];
        assert_eq!(found, expected);
    }
}

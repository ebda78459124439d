//! The reader: RFC 8259 by recursive descent, within limits.

use zeroize::Zeroizing;

use super::{Duplicates, JsonError, JsonRule, Kind, Limits, MAX_DEPTH, Object, Text, Value};
use crate::shown;

/// How much of a name an error shows.
const MAX_NAME_CHARS: usize = 100;

/// Some readers cannot hold a number from here on.
const TOO_LARGE: f64 = 1e308;

type Outcome<T> = Result<T, (JsonRule, usize)>;

/// Reads a text that holds one value.
///
/// # Errors
///
/// [`JsonError`], with the place.
pub fn read(bytes: &[u8], limits: Limits, duplicates: Duplicates) -> Result<Value<'_>, JsonError> {
    let (limit, found) = (limits.bytes, bytes.len());
    if found > limit {
        return Err(JsonRule::TooLong { limit, found }.at(&[], 0));
    }
    let text = str::from_utf8(bytes)
        .map_err(|error| JsonRule::Syntax("it is not UTF-8").at(bytes, error.valid_up_to()))?;
    let mut reader = Reader { text, at: 0, values: 0, depth: 0, limits, duplicates };
    let value = reader.value().and_then(|value| match reader.peek() {
        None => Ok(value),
        Some(_) => reader.refuse("there is something behind the value"),
    });
    value.map_err(|(rule, offset)| rule.at(bytes, offset))
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
    values: usize,
    depth: usize,
    limits: Limits,
    duplicates: Duplicates,
}

impl<'a> Reader<'a> {
    fn refuse<T>(&self, rule: &'static str) -> Outcome<T> {
        Err((JsonRule::Syntax(rule), self.at))
    }

    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// The next byte that is no white space; it is not taken.
    fn peek(&mut self) -> Option<u8> {
        while let Some(b' ' | b'\t' | b'\n' | b'\r') = self.byte() {
            self.at += 1;
        }
        self.byte()
    }

    /// Takes a byte if it comes next.
    fn take(&mut self, wanted: u8) -> bool {
        let is_next = self.peek() == Some(wanted);
        self.at += usize::from(is_next);
        is_next
    }

    fn value(&mut self) -> Outcome<Value<'a>> {
        let next = self.peek();
        let offset = self.at;
        self.values += 1;
        if self.values > self.limits.values {
            return Err((JsonRule::TooManyValues(self.limits.values), offset));
        }
        let kind = match next {
            Some(b'{') => Kind::Object(self.nested(Self::object)?),
            Some(b'[') => Kind::Array(self.nested(Self::array)?),
            Some(b'"') => Kind::Text(self.quoted()?),
            Some(b'-' | b'0'..=b'9') => Kind::Number(Text::Borrowed(self.number()?)),
            Some(_) if self.word("true") => Kind::Bool(true),
            Some(_) if self.word("false") => Kind::Bool(false),
            Some(_) if self.word("null") => Kind::Null,
            Some(_) => return self.refuse("a value is expected here"),
            None => return self.refuse("it ends where a value is expected"),
        };
        Ok(Value { offset, kind })
    }

    fn word(&mut self, word: &str) -> bool {
        let is_next = self.text.as_bytes()[self.at..].starts_with(word.as_bytes());
        self.at += if is_next { word.len() } else { 0 };
        is_next
    }

    fn nested<T>(&mut self, read: impl Fn(&mut Self) -> Outcome<T>) -> Outcome<T> {
        let limit = self.limits.depth.min(MAX_DEPTH);
        if self.depth == limit {
            return Err((JsonRule::TooDeep(limit), self.at));
        }
        self.at += 1;
        self.depth += 1;
        let nested = read(self);
        self.depth -= 1;
        nested
    }

    /// What is behind the opening bracket.
    fn array(&mut self) -> Outcome<Vec<Value<'a>>> {
        let mut values = Vec::new();
        if self.take(b']') {
            return Ok(values);
        }
        loop {
            values.push(self.value()?);
            if self.take(b']') {
                return Ok(values);
            }
            if !self.take(b',') {
                return self.refuse("a comma or a closing bracket is expected here");
            }
        }
    }

    /// What is behind the opening brace.
    fn object(&mut self) -> Outcome<Object<'a>> {
        let mut members = Vec::new();
        if self.take(b'}') {
            return Ok(Object(members));
        }
        loop {
            if self.peek() != Some(b'"') {
                return self.refuse("the name of a member is expected here");
            }
            let name = self.quoted()?;
            if !self.take(b':') {
                return self.refuse("a colon is expected here");
            }
            members.push((name, self.value()?));
            if self.take(b'}') {
                break;
            }
            if !self.take(b',') {
                return self.refuse("a comma or a closing brace is expected here");
            }
        }
        if self.duplicates == Duplicates::Refused {
            refuse_duplicates(&members)?;
        }
        Ok(Object(members))
    }

    fn quoted(&mut self) -> Outcome<Text<'a>> {
        let start = self.at + 1;
        self.at = start;
        loop {
            match self.byte() {
                Some(b'"') => break,
                Some(b'\\') => self.at += 2,
                Some(0..b' ') => return self.refuse("a control character is in a text"),
                Some(_) => self.at += 1,
                None => return self.refuse("it ends in the middle of a text"),
            }
        }
        // Both ends are at a quote, so never inside of a character.
        let written = &self.text[start..self.at];
        self.at += 1;
        unescape(written).ok_or((JsonRule::Syntax("an escape in a text is invalid"), start))
    }

    fn digits(&mut self) -> Outcome<()> {
        let start = self.at;
        while let Some(b'0'..=b'9') = self.byte() {
            self.at += 1;
        }
        if self.at == start {
            return self.refuse("a digit is expected here");
        }
        Ok(())
    }

    fn number(&mut self) -> Outcome<&'a str> {
        let start = self.at;
        self.at += usize::from(self.byte() == Some(b'-'));
        match self.byte() {
            // No digit may follow; whatever else does is looked at by the caller.
            Some(b'0') => self.at += 1,
            _ => self.digits()?,
        }
        if self.byte() == Some(b'.') {
            self.at += 1;
            self.digits()?;
        }
        if let Some(b'e' | b'E') = self.byte() {
            self.at += 1;
            self.at += usize::from(matches!(self.byte(), Some(b'+' | b'-')));
            self.digits()?;
        }
        let number = &self.text[start..self.at];
        match number.parse::<f64>() {
            Ok(value) if value.abs() < TOO_LARGE => Ok(number),
            _ => Err((JsonRule::Syntax("a number is too large"), start)),
        }
    }
}

fn refuse_duplicates(members: &[(Text<'_>, Value<'_>)]) -> Outcome<()> {
    let mut sorted: Vec<_> = members.iter().collect();
    sorted.sort_by(|(one, _), (other, _)| one.cmp(other));
    match sorted.array_windows().find(|[(one, _), (other, _)]| **one == **other) {
        Some([_, (name, value)]) => {
            let name = shown(&**name).up_to(MAX_NAME_CHARS).quoted();
            Err((JsonRule::Twice(name.to_string()), value.offset))
        }
        None => Ok(()),
    }
}

/// Resolves the escapes between two quotes; `None` if one of them is none.
fn unescape(written: &str) -> Option<Text<'_>> {
    if !written.contains('\\') {
        return Some(Text::Borrowed(written));
    }
    // No escape is shorter than what it stands for, so that this never grows.
    let mut text = Zeroizing::new(String::with_capacity(written.len()));
    let mut rest = written;
    while let Some((before, escape)) = rest.split_once('\\') {
        text.push_str(before);
        let (character, length) = character(escape.as_bytes())?;
        text.push(character);
        rest = &escape[length..];
    }
    text.push_str(rest);
    Some(Text::Unescaped(text))
}

/// The character that the bytes behind a backslash begin with, and how many of them it takes.
fn character(escape: &[u8]) -> Option<(char, usize)> {
    let character = match escape.first()? {
        b'"' => '"',
        b'\\' => '\\',
        b'/' => '/',
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => return utf16(escape),
        _ => return None,
    };
    Some((character, 1))
}

/// `u` and four digits, or two of these with a backslash between them: a surrogate pair.
fn utf16(escape: &[u8]) -> Option<(char, usize)> {
    let first = code_unit(escape)?;
    if let Some(character) = char::from_u32(first) {
        return Some((character, 5));
    }
    let second = code_unit(escape.get(5..)?.strip_prefix(b"\\")?)?;
    let pair = [u16::try_from(first).ok()?, u16::try_from(second).ok()?];
    let character = char::decode_utf16(pair).next()?.ok()?;
    Some((character, 11))
}

fn code_unit(escape: &[u8]) -> Option<u32> {
    let digits = escape.strip_prefix(b"u")?.get(..4)?;
    digits.iter().try_fold(0, |unit, digit| Some(unit << 4 | char::from(*digit).to_digit(16)?))
}

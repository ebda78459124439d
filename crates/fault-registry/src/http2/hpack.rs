//! Header blocks (RFC 7541): decoded whatever the client uses, encoded in the plainest way.

use std::collections::VecDeque;
use std::io;

use super::static_table::STATIC;

/// How large the dynamic table may be: what holds where nobody asked for another size.
const MAX_TABLE: usize = 4096;

/// A header.
pub(super) type Header = (String, String);

/// The characters with a code of each length, in the order of their codes (RFC 7541, appendix B).
/// The code is canonical: the first code of a length follows from what is before it. Other bytes
/// have longer codes, and no place in a request.
const CODES: [(u32, &str); 11] = [
    (5, "012aceiost"),
    (6, " %-./3456789=A_bdfghlmnpru"),
    (7, ":BCDEFGHIJKLMNOPQRSTUVWYjkqvwxyz"),
    (8, "&*,;XZ"),
    (9, ""),
    (10, "!\"()?"),
    (11, "'+|"),
    (12, "#>"),
    (13, "\0$@[]~"),
    (14, "^}"),
    (15, "<`{"),
];

/// The state of one connection's decoder.
#[derive(Debug, Default)]
pub(super) struct Decoder {
    /// The newest first.
    dynamic: VecDeque<Header>,
}

impl Decoder {
    /// Reads a whole header block.
    pub(super) fn decode(&mut self, block: &[u8]) -> io::Result<Vec<Header>> {
        let mut input = Input(block);
        let mut headers = Vec::new();
        while let Some(&first) = input.0.first() {
            if first & 0x80 != 0 {
                let index = input.number(7)?;
                headers.push(self.at(index)?);
            } else if first & 0xe0 == 0x20 {
                // Another size of the table. Only ever smaller than ours, and what is beyond it is
                // not used again.
                input.number(5)?;
            } else {
                let is_kept = first & 0x40 != 0;
                let index = input.number(if is_kept { 6 } else { 4 })?;
                let name = match index {
                    0 => input.text()?,
                    index => self.at(index)?.0,
                };
                let header = (name, input.text()?);
                if is_kept {
                    self.keep(header.clone());
                }
                headers.push(header);
            }
        }
        Ok(headers)
    }

    fn at(&self, index: usize) -> io::Result<Header> {
        let place = index.checked_sub(1).ok_or_else(broken)?;
        if let Some((name, value)) = STATIC.get(place) {
            return Ok(((*name).to_owned(), (*value).to_owned()));
        }
        let header = self.dynamic.get(place - STATIC.len());
        header.cloned().ok_or_else(broken)
    }

    fn keep(&mut self, header: Header) {
        self.dynamic.push_front(header);
        let size = |(name, value): &Header| name.len() + value.len() + 32;
        while self.dynamic.iter().map(size).sum::<usize>() > MAX_TABLE {
            self.dynamic.pop_back();
        }
    }
}

struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    fn byte(&mut self) -> io::Result<u8> {
        let (first, rest) = self.0.split_first().ok_or_else(broken)?;
        self.0 = rest;
        Ok(*first)
    }

    /// A number whose first byte has so many bits for it.
    fn number(&mut self, bits: u32) -> io::Result<usize> {
        let limit = (1 << bits) - 1;
        let mut number = usize::from(self.byte()?) & limit;
        if number < limit {
            return Ok(number);
        }
        for shift in [0, 7, 14, 21] {
            let byte = self.byte()?;
            number += usize::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(broken())
    }

    fn text(&mut self) -> io::Result<String> {
        let is_huffman = self.0.first().is_some_and(|first| first & 0x80 != 0);
        let length = self.number(7)?;
        let (text, rest) = self.0.split_at_checked(length).ok_or_else(broken)?;
        self.0 = rest;
        if is_huffman {
            return huffman(text);
        }
        Ok(String::from_utf8_lossy(text).into_owned())
    }
}

fn huffman(bytes: &[u8]) -> io::Result<String> {
    let mut text = String::new();
    let (mut code, mut length) = (0, 0);
    for bit in bytes
        .iter()
        .flat_map(|byte| (0..8).rev().map(move |bit| byte >> bit & 1))
    {
        code = code << 1 | u32::from(bit);
        length += 1;
        if let Some(character) = character(code, length) {
            text.push(character);
            (code, length) = (0, 0);
        }
        if length > 15 {
            return Err(broken());
        }
    }
    // What is left is padding: less than a byte of ones.
    if length > 7 {
        return Err(broken());
    }
    Ok(text)
}

/// The character with this code, if there is one of this length.
fn character(code: u32, length: u32) -> Option<char> {
    let mut first = 0;
    for (bits, characters) in CODES {
        if bits == length {
            let place = usize::try_from(code.checked_sub(first)?).ok()?;
            return characters.chars().nth(place);
        }
        first = (first + u32::try_from(characters.len()).ok()?) << 1;
    }
    None
}

fn broken() -> io::Error {
    io::Error::other("a header block that cannot be read")
}

/// Writes headers as literals that nobody keeps.
pub(super) fn encode(headers: &[Header]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in headers {
        block.push(0);
        for text in [&name.to_ascii_lowercase(), value] {
            write_length(&mut block, text.len());
            block.extend_from_slice(text.as_bytes());
        }
    }
    block
}

fn write_length(block: &mut Vec<u8>, length: usize) {
    if length < 0x7f {
        block.push(length as u8);
        return;
    }
    block.push(0x7f);
    let mut rest = length - 0x7f;
    while rest >= 0x80 {
        block.push((rest & 0x7f) as u8 | 0x80);
        rest >>= 7;
    }
    block.push(rest as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hexadecimal: &str) -> Vec<u8> {
        let digits: Vec<_> = hexadecimal.chars().filter(|c| *c != ' ').collect();
        let byte = |pair: &[char]| u8::from_str_radix(&pair.iter().collect::<String>(), 16);
        digits.chunks(2).map(|pair| byte(pair).unwrap()).collect()
    }

    /// The examples of RFC 7541, appendix C.4: three requests of one connection.
    #[test]
    fn the_examples_of_the_specification_are_read() {
        let mut decoder = Decoder::default();
        for (block, last) in [
            (
                "828684418cf1e3c2e5f23a6ba0ab90f4ff",
                (":authority", "www.example.com"),
            ),
            ("828684be5886a8eb10649cbf", ("cache-control", "no-cache")),
            (
                "828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf",
                ("custom-key", "custom-value"),
            ),
        ] {
            let headers = decoder.decode(&bytes(block)).unwrap();
            let (name, value) = headers.last().unwrap();
            assert_eq!((name.as_str(), value.as_str()), last);
            assert_eq!(headers[0].1, "GET");
        }
    }

    #[test]
    fn what_is_written_is_read() {
        let headers = vec![
            (":status".to_owned(), "200".to_owned()),
            ("x-long".to_owned(), "x".repeat(70_000)),
        ];
        let block = encode(&headers);
        assert_eq!(Decoder::default().decode(&block).unwrap(), headers);
    }
}

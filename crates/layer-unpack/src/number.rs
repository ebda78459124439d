//! Numbers in the fixed fields of tar headers.

/// Reads a number of a header in either form: octal digits among spaces and zero bytes, where none
/// at all mean zero; or, with the first bit set, the other bits as one number to the base of 256,
/// in two's complement.
pub(crate) fn field(field: &[u8]) -> Option<i64> {
    let first = *field.first()?;
    if first & 0x80 == 0 {
        let end = field.iter().position(|&byte| byte == 0);
        let digits = field[..end.unwrap_or(field.len())].trim_ascii();
        let digits = std::str::from_utf8(digits).ok()?;
        if digits.is_empty() {
            return Some(0);
        }
        // The standard library takes a sign too.
        let is_octal = digits.bytes().all(|digit| matches!(digit, b'0'..=b'7'));
        return is_octal.then(|| i64::from_str_radix(digits, 8).ok()).flatten();
    }
    let sign = if first & 0x40 == 0 { 0 } else { 0xff };
    let mut value = i64::from((first ^ sign) & 0x7f);
    for byte in &field[1..] {
        value = value.checked_mul(256)? | i64::from(byte ^ sign);
    }
    Some(if sign == 0 { value } else { !value })
}

/// Like [`field`], for what counts something.
pub(crate) fn count(bytes: &[u8]) -> Option<u64> {
    field(bytes).and_then(|number| u64::try_from(number).ok())
}

/// Decimal digits and nothing else.
pub(crate) fn decimal(text: &[u8]) -> Option<u64> {
    let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(text).ok().filter(|_| is_number)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_two_forms() {
        for (text, expected) in [
            (&b"0000755\0"[..], Some(0o755)),
            (b"  755 \0\0", Some(0o755)),
            (b"\0\0\0\0\0\0\0\0", Some(0)),
            (b"        ", Some(0)),
            (b"77777777", Some(0o77_777_777)),
            (b"12\0garbage", Some(0o12)),
            (b"000008\0\0", None),
            (b"-1\0\0\0\0\0\0", None),
            (b"1 2\0\0\0\0\0", None),
            (b"\x80\0\0\0\x80\0\0\0", Some(0x8000_0000)),
            (&[0xff; 12], Some(-1)),
            (b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\0", Some(-256)),
            (b"\x80\0\0\0\x7f\xff\xff\xff\xff\xff\xff\xff", Some(i64::MAX)),
            (b"\x80\0\0\0\x80\0\0\0\0\0\0\0", None),
            (b"\xff\xff\xff\xff\x80\0\0\0\0\0\0\0", Some(i64::MIN)),
            (b"\xff\xff\xff\xff\x7f\0\0\0\0\0\0\0", None),
        ] {
            assert_eq!(field(text), expected, "{text:?}");
        }
        assert_eq!(count(&[0xff; 12]), None);
    }
}

//! Times as Go's `time.ParseDuration` reads them: `"1m"`, `"6h0m0s"`, `"1.5h"`, `"-2s"`.

use std::time::Duration;

/// Not such a time. The text is not repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a time such as \"10m\" or \"6h0m0s\"")]
pub struct InvalidDuration;

/// The longest text that is looked at; Go itself never writes more than some thirty bytes. Free to
/// change.
const MAX_BYTES: usize = 256;

const UNITS: [(&str, u64); 8] = [
    ("ns", 1),
    ("us", 1_000),
    ("\u{b5}s", 1_000),
    ("\u{3bc}s", 1_000),
    ("ms", 1_000_000),
    ("s", 1_000_000_000),
    ("m", 60_000_000_000),
    ("h", 3_600_000_000_000),
];

/// A time with its sign: `None` where it is negative.
///
/// # Errors
///
/// [`InvalidDuration`], also where the time is longer than Go's 64 bits of nanoseconds.
pub fn parse(text: &str) -> Result<Option<Duration>, InvalidDuration> {
    let negative = text.starts_with('-');
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest.is_empty() || text.len() > MAX_BYTES {
        return Err(InvalidDuration);
    }
    let mut nanos: u64 = 0;
    while !rest.is_empty() && rest != "0" {
        let part;
        (part, rest) = take_part(rest)?;
        nanos = nanos.checked_add(part).ok_or(InvalidDuration)?;
    }
    // Only a whole text of "0" may do without a unit.
    if rest == "0" && text.trim_start_matches(['-', '+']).len() != 1 {
        return Err(InvalidDuration);
    }
    if nanos > i64::MAX as u64 {
        return Err(InvalidDuration);
    }
    Ok((!negative || nanos == 0).then_some(Duration::from_nanos(nanos)))
}

/// One number with its unit, in nanoseconds, and what follows.
fn take_part(text: &str) -> Result<(u64, &str), InvalidDuration> {
    let (whole, rest) = digits(text);
    let (fraction, rest) = match rest.strip_prefix('.') {
        Some(rest) => digits(rest),
        None => ("", rest),
    };
    if whole.is_empty() && fraction.is_empty() {
        return Err(InvalidDuration);
    }
    let end = rest
        .find(|character: char| character == '.' || character.is_ascii_digit())
        .unwrap_or(rest.len());
    let (name, rest) = rest.split_at(end);
    let (_, unit) = UNITS.iter().find(|(unit, _)| *unit == name).ok_or(InvalidDuration)?;
    // Without a digit before the point it is none.
    let whole: u64 = format!("0{whole}").parse().map_err(|_| InvalidDuration)?;
    let total =
        whole.checked_mul(*unit).and_then(|whole| whole.checked_add(fraction_of(fraction, *unit)));
    Ok((total.ok_or(InvalidDuration)?, rest))
}

fn digits(text: &str) -> (&str, &str) {
    let end = text.find(|character: char| !character.is_ascii_digit()).unwrap_or(text.len());
    text.split_at(end)
}

/// The digits behind the point, of `unit`; what is less than a nanosecond is cut off.
fn fraction_of(digits: &str, unit: u64) -> u64 {
    let (mut value, mut scale) = (0_u128, 1_u128);
    // Eighteen digits say more than any unit has nanoseconds.
    for digit in digits.bytes().take(18) {
        value = value * 10 + u128::from(digit - b'0');
        scale *= 10;
    }
    u64::try_from(value * u128::from(unit) / scale).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_go_reads() {
        for (text, nanos) in [
            ("0", 0),
            ("+0", 0),
            ("0s", 0),
            ("-0s", 0),
            ("1m", 60_000_000_000),
            ("6h0m0s", 21_600_000_000_000),
            ("1.5h", 5_400_000_000_000),
            (".5s", 500_000_000),
            ("1.s", 1_000_000_000),
            ("0.100000000000000000000h", 360_000_000_000),
            ("100ns1us2\u{b5}s3\u{3bc}s1ms", 1_006_100),
            ("0.3333333333333333333h", 1_199_999_999_999),
            ("0.9ns", 0),
            ("2562047h47m16.854775807s", i64::MAX as u64),
            ("0h1s", 1_000_000_000),
        ] {
            assert_eq!(parse(text), Ok(Some(Duration::from_nanos(nanos))), "{text}");
        }
        for text in ["-1s", "-0.5h"] {
            assert_eq!(parse(text), Ok(None), "{text}");
        }
    }

    #[test]
    fn what_go_refuses() {
        let long = "1s".repeat(200);
        for text in [
            "",
            "-",
            "+",
            "1",
            "3000",
            ".s",
            ".",
            "1x",
            "1 s",
            " 1s",
            "1s ",
            "1S",
            "--1s",
            "1s0",
            "00",
            "0.0",
            "9223372036854775808ns",
            "2562048h",
            "99999999999999999999s",
            "1d",
            "\u{b5}s",
            "PT1H",
            &long,
        ] {
            assert_eq!(parse(text), Err(InvalidDuration), "{text}");
        }
    }
}

//! PAX records: the fields of an entry that its fixed header has no room for (POSIX.1-2024, pax,
//! "Extended Header").

use rustix::fs::Timestamps;

use super::archive_error::ArchiveError;
use super::directory;
use super::number::decimal;
use super::sparse::SparseRecords;

/// The prefix of records that hold extended attributes.
const XATTR_PREFIX: &[u8] = b"SCHILY.xattr.";

/// The prefix of records that describe the holes of a file.
const SPARSE_PREFIX: &[u8] = b"GNU.sparse.";

/// How many extended attributes an entry may have; real ones have up to three, and each is looked
/// for among the others.
pub const MAX_XATTRS: usize = 256;

/// The longest name of an extended attribute, and the largest value: Linux's own limits.
pub const MAX_XATTR_NAME_BYTES: usize = 255;
/// See [`MAX_XATTR_NAME_BYTES`].
pub const MAX_XATTR_BYTES: usize = 64 << 10;

/// An extended attribute: name and value.
pub type Xattr = (Vec<u8>, Vec<u8>);

/// What the records of one entry say; of repeated ones the last.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Records {
    /// Name of the entry.
    pub path: Option<Vec<u8>>,
    /// Target of a link.
    pub link_path: Option<Vec<u8>>,
    /// Size of the content.
    pub size: Option<u64>,
    /// Owner.
    pub uid: Option<i64>,
    /// Group.
    pub gid: Option<i64>,
    /// Time of the last modification.
    pub mtime: Option<Time>,
    /// Extended attributes, names without the record's prefix.
    pub xattrs: Vec<Xattr>,
    /// Holes of the content.
    pub(crate) sparse: SparseRecords,
}

/// A point in time; `nanoseconds` always count forward.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Time {
    /// Seconds since 1970.
    pub seconds: i64,
    /// Nanoseconds, less than a second.
    pub nanoseconds: u32,
}

impl Time {
    /// For the calls that set both times of a file.
    pub(crate) fn timestamps(self) -> Timestamps {
        directory::times(self.seconds, self.nanoseconds.into())
    }
}

/// Reads records, each `LENGTH KEY=VALUE\n` with the length of the whole. A value may hold any
/// byte, so only the length tells where it ends.
///
/// # Errors
///
/// A record whose length or value cannot be read, and more or larger attributes than the limits.
pub fn parse(mut text: &[u8]) -> Result<Records, ArchiveError> {
    let mut records = Records::default();
    while !text.is_empty() {
        let (record, rest) =
            split_record(text).ok_or(ArchiveError::Pax("a record has a wrong length"))?;
        text = rest;
        let equals = record
            .iter()
            .position(|&byte| byte == b'=')
            .ok_or(ArchiveError::Pax("a record has no value"))?;
        records.take(&record[..equals], &record[equals + 1..])?;
    }
    Ok(records)
}

fn split_record(text: &[u8]) -> Option<(&[u8], &[u8])> {
    // A length of more digits than this is no length of a record that is in memory.
    let space = text.iter().take(10).position(|&byte| byte == b' ')?;
    let length = usize::try_from(decimal(&text[..space])?).ok()?;
    let record = text.get(space + 1..length)?;
    Some((record.strip_suffix(b"\n")?, &text[length..]))
}

impl Records {
    fn take(&mut self, key: &[u8], value: &[u8]) -> Result<(), ArchiveError> {
        // Without a value a record takes back what an earlier one said, and the header holds again.
        let text = || (!value.is_empty()).then_some(value);
        match key {
            b"path" => self.path = text().map(<[u8]>::to_vec),
            b"linkpath" => self.link_path = text().map(<[u8]>::to_vec),
            b"size" => self.size = text().map(number).transpose()?,
            b"uid" => self.uid = text().map(owner).transpose()?,
            b"gid" => self.gid = text().map(owner).transpose()?,
            b"mtime" => {
                let time = |text| time(text).ok_or(ArchiveError::Pax("a time is no number"));
                self.mtime = text().map(time).transpose()?;
            }
            _ => {
                if let Some(name) = key.strip_prefix(XATTR_PREFIX) {
                    self.take_xattr(name, value)?;
                } else if let Some(key) = key.strip_prefix(SPARSE_PREFIX) {
                    self.sparse.take(key, value)?;
                }
            }
        }
        Ok(())
    }

    fn take_xattr(&mut self, name: &[u8], value: &[u8]) -> Result<(), ArchiveError> {
        self.xattrs.retain(|(known, _)| known != name);
        let check = |what, found: usize, limit: usize| {
            ArchiveError::check(what, found as u64, limit as u64)
        };
        let count = self.xattrs.len() + 1;
        check("the number of extended attributes", count, MAX_XATTRS)?;
        let what = "the length of an extended attribute's name";
        check(what, name.len(), MAX_XATTR_NAME_BYTES)?;
        check("the size of an extended attribute", value.len(), MAX_XATTR_BYTES)?;
        self.xattrs.push((name.to_vec(), value.to_vec()));
        Ok(())
    }
}

fn number(text: &[u8]) -> Result<u64, ArchiveError> {
    decimal(text).ok_or(ArchiveError::Pax("a size is no number"))
}

fn owner(text: &[u8]) -> Result<i64, ArchiveError> {
    let (sign, digits) = match text.strip_prefix(b"-") {
        Some(digits) => (-1, digits),
        None => (1, text),
    };
    let number = decimal(digits).and_then(|number| i64::try_from(number).ok());
    let number = number.ok_or(ArchiveError::Pax("an owner or group is no number"))?;
    Ok(sign * number)
}

/// Reads `-12.3456789`; digits beyond nanoseconds are cut off.
fn time(text: &[u8]) -> Option<Time> {
    let (is_negative, text) = text.strip_prefix(b"-").map_or((false, text), |rest| (true, rest));
    let point = text.iter().position(|&byte| byte == b'.').unwrap_or(text.len());
    let seconds = i64::try_from(decimal(&text[..point])?).ok()?;
    let fraction = text.get(point + 1..).unwrap_or_default();
    if !fraction.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let digits = fraction.iter().copied().chain(std::iter::repeat(b'0')).take(9);
    let nanoseconds = digits.fold(0, |sum, digit| sum * 10 + u32::from(digit - b'0'));
    Some(match (is_negative, nanoseconds) {
        (false, _) => Time { seconds, nanoseconds },
        (true, 0) => Time { seconds: -seconds, nanoseconds },
        (true, _) => Time { seconds: -seconds - 1, nanoseconds: 1_000_000_000 - nanoseconds },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(key: &str, value: &[u8]) -> Vec<u8> {
        let rest = key.len() + value.len() + 3;
        let mut length = rest + 1;
        while length != rest + length.to_string().len() {
            length = rest + length.to_string().len();
        }
        [length.to_string().as_bytes(), b" ", key.as_bytes(), b"=", value, b"\n"].concat()
    }

    #[test]
    fn values_may_hold_any_byte() {
        let text = [
            record("SCHILY.xattr.security.capability", b"\x01\n=\0\n"),
            record("path", b"a\nb"),
            record("comment", b""),
        ];
        let records = parse(&text.concat()).unwrap();
        assert_eq!(records.xattrs, [(b"security.capability".to_vec(), b"\x01\n=\0\n".to_vec())]);
        assert_eq!(records.path.unwrap(), b"a\nb");
    }

    #[test]
    fn times_have_nanoseconds_and_may_be_before_1970() {
        for (text, seconds, nanoseconds) in [
            ("1700000000.123456789", 1_700_000_000, 123_456_789),
            ("1.5", 1, 500_000_000),
            ("1.0000000019", 1, 1),
            ("0", 0, 0),
            ("-1", -1, 0),
            ("-0.25", -1, 750_000_000),
        ] {
            assert_eq!(time(text.as_bytes()), Some(Time { seconds, nanoseconds }), "{text}");
        }
        for text in ["", ".5", "1.x", "1e3", "--1", "99999999999999999999"] {
            assert_eq!(time(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn broken_records_are_refused() {
        for text in [
            "9 path=a",
            "x path=a\n",
            "6 a=b\n7",
            "0 a=b\n",
            "3\n",
            "8 path=ab\n",
            "99999999999 a=b\n",
            "6 abc\n",
        ] {
            assert!(parse(text.as_bytes()).is_err(), "{text}");
        }
        assert!(parse(&record("size", b"-1")).is_err());
        assert!(parse(&record("uid", b"root")).is_err());
        assert!(parse(&record("GNU.sparse.major", b"one")).is_err());
    }

    /// 45,589 attributes in a header of 1 MiB once took 1.5 s, and compressed ones of these 20 to a
    /// KiB.
    #[test]
    fn attributes_are_counted() {
        let records = |count: usize| -> Vec<u8> {
            let name = |number| format!("SCHILY.xattr.user.{number}");
            (0..count).flat_map(|at| record(&name(at), b"")).collect()
        };
        assert_eq!(parse(&records(MAX_XATTRS)).unwrap().xattrs.len(), MAX_XATTRS);
        assert!(matches!(parse(&records(MAX_XATTRS + 1)), Err(ArchiveError::Limit { .. })));
        let repeated = record("SCHILY.xattr.user.a", b"").repeat(1000);
        assert_eq!(parse(&repeated).unwrap().xattrs.len(), 1);
    }

    #[test]
    fn attributes_are_measured() {
        let name = |bytes: usize| format!("SCHILY.xattr.{}", "n".repeat(bytes));
        for (name, value_bytes, is_taken) in [
            (name(MAX_XATTR_NAME_BYTES), MAX_XATTR_BYTES, true),
            (name(MAX_XATTR_NAME_BYTES + 1), 0, false),
            (name(1), MAX_XATTR_BYTES + 1, false),
        ] {
            let parsed = parse(&record(&name, &vec![b'x'; value_bytes]));
            assert_eq!(parsed.is_ok(), is_taken, "{} {value_bytes}", name.len());
            assert!(is_taken || matches!(parsed, Err(ArchiveError::Limit { .. })));
        }
    }

    #[test]
    fn a_record_without_a_value_takes_an_earlier_one_back() {
        for key in ["path", "linkpath", "size", "uid", "gid", "mtime"] {
            let text = [record(key, b"1"), record(key, b"")].concat();
            assert_eq!(parse(&text).unwrap(), Records::default(), "{key}");
        }
    }
}

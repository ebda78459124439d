//! Resources in a file of the guest, as the guest components' `offline_fs_kbc` has them: one JSON
//! object of `"repository/type/tag"` and standard base64.
//!
//! Such a file is as secret as the place where it is: only for a file system that nobody else can
//! read.

use std::borrow::Cow;
use std::fmt;
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use puller_config::ResourceUri;
use serde::de::{Deserializer as _, Error as _, MapAccess, Visitor};
use zeroize::Zeroizing;

use crate::error::Fault;

/// The largest file, in bytes: a few resources of the largest size.
pub const MAX_FILE_BYTES: usize = 4 << 20;

/// Looks a resource up. The file is read each time, so that it may be replaced.
pub async fn fetch(path: &Path, uri: &ResourceUri) -> Result<Zeroizing<Vec<u8>>, Fault> {
    if uri.plugin() != "resource" || uri.query().is_some() {
        return Err(Fault::Plugin);
    }
    let text = read(path.to_owned(), MAX_FILE_BYTES).await?;
    let found = find(&text, uri.path())?;
    if found.repeated > 0 {
        tracing::warn!(
            file = %path.display(),
            repeated = found.repeated,
            "the resource stands in the file more than once; the last one counts"
        );
    }
    found.resource.ok_or(Fault::NotThere)
}

/// Reads a file whole on a thread where it may wait.
pub async fn read(
    path: std::path::PathBuf,
    limit_bytes: usize,
) -> Result<Zeroizing<Vec<u8>>, Fault> {
    let work = tokio::task::spawn_blocking(move || read_now(&path, limit_bytes));
    work.await.unwrap_or(Err(Fault::File(ErrorKind::Other)))
}

fn read_now(path: &Path, limit_bytes: usize) -> Result<Zeroizing<Vec<u8>>, Fault> {
    let failed = |error: std::io::Error| Fault::File(error.kind());
    // Opening a pipe would wait for whoever writes to it.
    if !std::fs::metadata(path).map_err(failed)?.is_file() {
        return Err(Fault::Content {
            rule: "it is no regular file",
        });
    }
    let mut file = File::open(path).map_err(failed)?;
    let length = file.metadata().map_err(failed)?.len();
    let too_large = Fault::TooLarge { limit_bytes };
    let capacity = match usize::try_from(length) {
        Ok(length) if length <= limit_bytes => length + 1,
        _ => return Err(too_large),
    };
    // Never grows, so no copy of it stays behind: a file that grows meanwhile is refused.
    let mut bytes = Zeroizing::new(vec![0; capacity]);
    let mut filled = 0;
    while filled < bytes.len() {
        match file.read(&mut bytes[filled..]) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(failed(error)),
        }
    }
    if filled == bytes.len() {
        return Err(Fault::Content {
            rule: "it grows while it is read",
        });
    }
    bytes.truncate(filled);
    Ok(bytes)
}

/// What a file has for one name.
pub struct Found {
    /// The resource, if there is one.
    pub resource: Option<Zeroizing<Vec<u8>>>,
    /// How often the name stands in the file again.
    pub repeated: usize,
}

impl fmt::Debug for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Found").finish_non_exhaustive()
    }
}

/// Looks a name up in the text of a file. Of several entries the last one counts, as in the guest
/// components.
///
/// # Errors
///
/// [`Fault::Content`] where the text is not such a file, all other entries included: a broken file
/// is not half believed.
pub fn find(text: &[u8], name: &str) -> Result<Found, Fault> {
    let mut entries = Entries {
        name,
        found: Found {
            resource: None,
            repeated: 0,
        },
        is_base64: true,
    };
    let mut reader = serde_json::Deserializer::from_slice(text);
    let read = reader
        .deserialize_map(&mut entries)
        .and_then(|()| reader.end());
    let rule = match read {
        Ok(()) => return Ok(entries.found),
        Err(_) if !entries.is_base64 => "a value is not standard base64 with padding",
        // The parser's own words may quote a value.
        Err(_) => "it is not one JSON object of strings",
    };
    Err(Fault::Content { rule })
}

struct Entries<'a> {
    name: &'a str,
    found: Found,
    is_base64: bool,
}

impl<'de> Visitor<'de> for &mut Entries<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of strings")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<Text<'de>>()? {
            let value = map.next_value::<Text<'de>>()?;
            let mut bytes = Zeroizing::new(vec![0; base64::decoded_len_estimate(value.0.len())]);
            let Ok(length) = STANDARD.decode_slice(value.0.as_bytes(), &mut bytes) else {
                self.is_base64 = false;
                return Err(A::Error::custom("no base64"));
            };
            if key.0 == self.name {
                bytes.truncate(length);
                self.found.repeated += usize::from(self.found.resource.is_some());
                self.found.resource = Some(bytes);
            }
        }
        Ok(())
    }
}

/// A string that is borrowed where it can be, and zeroed where it was copied because of escapes.
struct Text<'de>(Cow<'de, str>);

impl Drop for Text<'_> {
    fn drop(&mut self) {
        if let Cow::Owned(text) = &mut self.0 {
            zeroize::Zeroize::zeroize(text);
        }
    }
}

impl<'de> serde::Deserialize<'de> for Text<'de> {
    fn deserialize<D: serde::Deserializer<'de>>(reader: D) -> Result<Self, D::Error> {
        struct Strings;
        impl<'de> Visitor<'de> for Strings {
            type Value = Text<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a string")
            }

            fn visit_borrowed_str<E>(self, text: &'de str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Borrowed(text)))
            }

            fn visit_str<E>(self, text: &str) -> Result<Self::Value, E> {
                Ok(Text(Cow::Owned(text.to_owned())))
            }
        }
        reader.deserialize_str(Strings)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rule(fault: Fault) -> &'static str {
        match fault {
            Fault::Content { rule } => rule,
            other => panic!("{other}"),
        }
    }

    #[test]
    fn resources_are_found_by_their_name() {
        let text =
            br#" {"a/b/c": "c2VjcmV0", "d/e/f": "", "\u0061/b/d": "c2Vj\u0063mV0", "x": "AA=="} "#;
        for (name, expected) in [
            ("a/b/c", Some("secret")),
            ("a/b/d", Some("secret")),
            ("d/e/f", Some("")),
            ("a/b", None),
            ("A/b/c", None),
        ] {
            let found = find(text, name).unwrap();
            let found_bytes = found.resource.as_deref().map(Vec::as_slice);
            assert_eq!(found_bytes, expected.map(str::as_bytes), "{name}");
            assert_eq!(found.repeated, 0);
        }
        assert!(find(b"{}", "a/b/c").unwrap().resource.is_none());
    }

    #[test]
    fn last_of_several_entries_counts() {
        let text = br#"{"a": "YQ==", "b": "Yg==", "a": "Yw==", "a": "ZA=="}"#;
        let found = find(text, "a").unwrap();
        assert_eq!(found.resource.unwrap().as_slice(), b"d");
        assert_eq!(found.repeated, 2);
    }

    #[test]
    fn broken_files_are_refused_whole_and_not_quoted() {
        const JSON: &str = "it is not one JSON object of strings";
        const BASE64: &str = "a value is not standard base64 with padding";
        for (text, expected) in [
            ("", JSON),
            ("[]", JSON),
            ("\"aHVudGVyMg==\"", JSON),
            ("{\"a\": \"YQ==\"", JSON),
            ("{\"a\": \"YQ==\"} {}", JSON),
            ("{\"a\": \"YQ==\", \"b\": 1}", JSON),
            ("{\"a\": \"YQ==\", \"b\": [\"hunter2\"]}", JSON),
            ("{\"a\": \"YQ==\", \"b\": null}", JSON),
            ("{\"a\": \"YQ==\", \"b\": \"hunter2!\"}", BASE64),
            ("{\"a\": \"YQ\"}", BASE64),
            ("{\"a\": \"_-8=\"}", BASE64),
            ("{\"a\": \"YQ==\\n\"}", BASE64),
        ] {
            let fault = find(text.as_bytes(), "a").err().unwrap();
            assert!(!fault.to_string().contains("hunter2"), "{fault}");
            let found = rule(fault);
            assert_eq!(found, expected, "{text}");
        }
        assert!(find(b"{\"a\": \"\xff\"}", "a").is_err());
    }

    #[test]
    fn only_regular_files_within_the_limit_are_read() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        std::fs::write(&file, [7; 100]).unwrap();
        assert_eq!(*read_now(&file, 100).unwrap(), [7; 100]);
        assert!(matches!(
            read_now(&file, 99),
            Err(Fault::TooLarge { limit_bytes: 99 })
        ));
        assert!(matches!(
            read_now(dir.path(), 99),
            Err(Fault::Content { .. })
        ));
        assert!(matches!(
            read_now(Path::new("/dev/zero"), 99),
            Err(Fault::Content { .. })
        ));
        let absent = read_now(&dir.path().join("absent"), 99).unwrap_err();
        assert!(
            matches!(absent, Fault::File(ErrorKind::NotFound)),
            "{absent}"
        );
        // A file that tells no length.
        assert!(read_now(Path::new("/proc/self/status"), 1 << 20).is_err());
    }
}

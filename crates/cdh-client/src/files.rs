//! Resources in a file of the guest, as the guest components' `offline_fs_kbc` has them: one JSON
//! object of `"repository/type/tag"` and standard base64.
//!
//! Such a file is as secret as the place where it lies: use it only on a file system that no one
//! else can read.

use std::io::{self, ErrorKind};
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use foreign_text::bounded::{self, ReadError};
use foreign_text::json::{Duplicates, Limits, read_object};
use registry_config::ResourceUri;
use zeroize::Zeroizing;

use crate::error::Fault;

/// The largest file, in bytes: a few resources of the largest size.
pub const MAX_FILE_BYTES: usize = 4 << 20;

/// Looks a resource up. The file is read each time, so that it may be replaced.
pub async fn fetch(path: &Path, uri: &ResourceUri) -> Result<Zeroizing<Vec<u8>>, Fault> {
    if uri.plugin() != "resource" || uri.query().is_some() {
        return Err(Fault::Plugin);
    }
    let file = path.to_owned();
    let work = tokio::task::spawn_blocking(move || read_now(&file, MAX_FILE_BYTES));
    let text = work.await.unwrap_or(Err(Fault::File(ErrorKind::Other)))?;
    let (found, times) = find(&text, uri.path())?;
    if times > 1 {
        tracing::warn!(
            file = %path.display(),
            repeated = times - 1,
            "the resource stands in the file more than once; the last one counts"
        );
    }
    if times == 0 { Err(Fault::NotThere) } else { Ok(found) }
}

fn read_now(path: &Path, limit_bytes: usize) -> Result<Zeroizing<Vec<u8>>, Fault> {
    bounded::read_path(path, limit_bytes).map_err(|error| match error {
        ReadError::NotRegular => Fault::Content { rule: "it is no regular file" },
        ReadError::TooLong { .. } => Fault::TooLarge { limit_bytes },
        error => Fault::File(io::Error::from(error).kind()),
    })
}

/// Looks a name up in the text of a file, and says how often it stands there. Of several entries the
/// last one counts, as in the guest components.
///
/// # Errors
///
/// [`Fault::Content`] where the text is not such a file, all other entries included: a broken file
/// is not half believed.
pub fn find(text: &[u8], name: &str) -> Result<(Zeroizing<Vec<u8>>, usize), Fault> {
    let content = |rule| Fault::Content { rule };
    let object = read_object(text, Limits::of_bytes(text.len()), Duplicates::Kept);
    let object = object.map_err(|_| content("it is not one JSON object of strings"))?;
    let (mut found, mut times) = (Zeroizing::default(), 0);
    for (key, value) in object.members() {
        let text = value.text();
        let text = text.ok_or(content("it is not one JSON object of strings"))?;
        let mut bytes = Zeroizing::new(vec![0; base64::decoded_len_estimate(text.len())]);
        let length = STANDARD.decode_slice(text, &mut bytes);
        let length = length.map_err(|_| content("a value is not standard base64 with padding"))?;
        if key == name {
            bytes.truncate(length);
            (found, times) = (bytes, times + 1);
        }
    }
    Ok((found, times))
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
            let (found, times) = find(text, name).unwrap();
            assert_eq!(found.as_slice(), expected.unwrap_or("").as_bytes(), "{name}");
            assert_eq!(times, usize::from(expected.is_some()), "{name}");
        }
        assert_eq!(find(b"{}", "a/b/c").unwrap().1, 0);
    }

    #[test]
    fn last_of_several_entries_counts() {
        let text = br#"{"a": "YQ==", "b": "Yg==", "a": "Yw==", "a": "ZA=="}"#;
        let (found, times) = find(text, "a").unwrap();
        assert_eq!((found.as_slice(), times), (&b"d"[..], 3));
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
        assert!(matches!(read_now(&file, 99), Err(Fault::TooLarge { limit_bytes: 99 })));
        assert!(matches!(read_now(dir.path(), 99), Err(Fault::Content { .. })));
        assert!(matches!(read_now(Path::new("/dev/zero"), 99), Err(Fault::Content { .. })));
        let absent = read_now(&dir.path().join("absent"), 99).unwrap_err();
        assert!(matches!(absent, Fault::File(ErrorKind::NotFound)), "{absent}");
        // A file that tells no length, up to the limit.
        assert!(read_now(Path::new("/proc/self/status"), 1 << 20).is_ok());
        assert!(read_now(Path::new("/proc/self/status"), 10).is_err());
    }
}

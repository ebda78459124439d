//! A list that a newer version wrote, for who removes: what it proves in the way that every version
//! has understood, and how much of it is not understood.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::form::{Form, parse_known};
use super::{Entry, Listed};
use crate::HostPath;
use crate::kind::Kind;
use crate::owner::Owner;

/// The length of SHA-256 in hexadecimal.
const DIGEST_LENGTH: usize = 64;

/// The keys of a list that are understood.
const KEYS: [&str; 4] = ["format", "owner", "directories", "files"];

/// What is not understood of a list that a newer version wrote.
#[derive(Debug)]
pub(crate) struct Newer {
    /// The number of its form.
    pub(crate) format: u32,
    /// How many of its files and directories have no path that can be understood.
    pub(crate) unread: usize,
    /// How many of its files are of a kind that this version does not know, and that no name tells.
    pub(crate) unknown: usize,
    /// How many keys it has besides.
    pub(crate) keys: usize,
}

/// Reads a list of any version. Of a newer one the files that have a path are listed, with those of
/// their digests that are digests; the directories, as far as they are paths; and the owner, whose
/// key has its name and form in all formats: nothing of somebody else's is removed.
pub(super) fn parse(text: &[u8]) -> Result<(Listed, Option<Newer>), String> {
    let form = Form::of(text)?;
    if !form.is_newer() {
        return Ok((parse_known(text)?, None));
    }
    let owner = form.owner.as_ref().map(|owner| {
        let parsed = owner.as_str().and_then(|owner| Owner::parse(owner).ok());
        parsed.ok_or_else(|| {
            format!(
                "a newer version wrote it, in format {}, and says whose it is in a way that this \
                one does not understand; remove it with that version",
                form.format
            )
        })
    });
    let owner = owner.transpose()?;
    // It was one for the form already.
    let mut whole: Map<String, Value> = serde_json::from_slice(text).unwrap_or_default();
    let (mut files, mut unread, mut unknown) = (Vec::<Entry>::new(), 0, 0);
    for entry in items(whole.remove("files"), &mut unread) {
        match self::entry(&entry, &mut unknown) {
            Some(entry) => match files.iter_mut().find(|known| known.path == entry.path) {
                Some(known) => known.sha256.extend(entry.sha256),
                None => files.push(entry),
            },
            None => unread += 1,
        }
    }
    let directories = items(whole.remove("directories"), &mut unread);
    let read: Vec<HostPath> = directories.iter().filter_map(path).collect();
    unread += directories.len() - read.len();
    let keys = whole.keys().filter(|key| !KEYS.contains(&key.as_str()));
    let newer = Newer { format: form.format, unread, unknown, keys: keys.count() };
    let listed =
        Listed { format: form.format, owner, directories: read, files, more: BTreeMap::new() };
    Ok((listed, Some(newer)))
}

/// The items of an array; what is none, or is not there, counts as one that cannot be read.
fn items(value: Option<Value>, unread: &mut usize) -> Vec<Value> {
    match value {
        Some(Value::Array(items)) => items,
        _ => {
            *unread += 1;
            Vec::new()
        }
    }
}

fn path(value: &Value) -> Option<HostPath> {
    HostPath::parse(value.as_str()?).ok()
}

/// A file of the list; without a digest where it has none in the way of this version. One whose kind
/// neither the list nor the name tells is counted: it may be another kind of drop-in.
fn entry(value: &Value, unknown: &mut usize) -> Option<Entry> {
    let is_digest = |text: &&str| {
        text.len() == DIGEST_LENGTH && text.bytes().all(|byte| byte.is_ascii_hexdigit())
    };
    let digests = value.get("sha256").and_then(Value::as_array);
    let digests = digests.into_iter().flatten().filter_map(Value::as_str);
    let path = path(value.get("path")?)?;
    let said = value.get("kind").and_then(|kind| serde_json::from_value(kind.clone()).ok());
    let kind = said.unwrap_or_else(|| Kind::of_path(&path));
    if said.is_none() && kind == Kind::Settings {
        *unknown += 1;
    }
    Some(Entry {
        path,
        sha256: digests.filter(is_digest).map(str::to_owned).collect(),
        kind,
        set: value.get("set").and_then(Value::as_str).map(str::to_owned),
        more: BTreeMap::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whatever a later version writes: there is an answer, and nothing is proven by anything but
    /// a digest.
    #[test]
    fn a_list_of_any_form_has_an_answer() {
        let digest = "0a".repeat(32);
        for (files, directories, read, unread) in [
            ("[]".to_owned(), "[]", vec![], 0),
            ("7".to_owned(), "{}", vec![], 2),
            ("[null, 1, [], {}]".to_owned(), "[7, \"x\", \"/\"]", vec![], 7),
            (
                format!(
                    "[{{\"path\": \"/a\", \"sha256\": [\"{digest}\", \"short\", 7]}}, \
                    {{\"path\": \"/b\", \"sha256\": \"{digest}\"}}, \
                    {{\"path\": \"/c\", \"sha512\": [\"{digest}\"], \"kind\": \"x\"}}, \
                    {{\"path\": \"/../d\", \"sha256\": [\"{digest}\"]}}]"
                ),
                "[\"/a\"]",
                vec![("/a", 1), ("/b", 0), ("/c", 0)],
                1,
            ),
        ] {
            let text = format!(
                "{{\"format\": 3, \"directories\": {directories}, \"files\": {files}, \"x\": 1}}"
            );
            let (listed, newer) = parse(text.as_bytes()).unwrap();
            let newer = newer.unwrap();
            assert_eq!((newer.unread, newer.keys), (unread, 1), "{text}");
            let found = listed.files.iter();
            let found: Vec<_> =
                found.map(|entry| (entry.path.as_str(), entry.sha256.len())).collect();
            assert_eq!(found, read, "{text}");
        }
        for owner in ["7", "{\"namespace\": \"a\"}", "\"a b\""] {
            let text = format!("{{\"format\": 3, \"owner\": {owner}, \"files\": []}}");
            let error = parse(text.as_bytes()).unwrap_err();
            assert!(error.contains("says whose it is"), "{error}");
        }
    }
}

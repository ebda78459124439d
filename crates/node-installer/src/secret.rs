//! A secret as the kubelet mounts it.
//!
//! The kubelet puts a secret's keys into a new directory, and exchanges the symbolic link `..data`,
//! which the keys' own links lead through: opening a key once gives one version of it, never a
//! mixture. The mount is the kubelet's, so that links are followed.

use std::fs::read_dir;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

use foreign_text::bounded::{ReadError, if_there, read_path};
use zeroize::Zeroizing;

/// How many other keys are named in a message.
const MAX_NAMED_KEYS: usize = 8;

/// How often a key is looked up that has a name but leads nowhere, and how long between: the
/// kubelet exchanges `..data` in an instant.
const LOOKUPS: u32 = 10;
const LOOKUP_PAUSE: Duration = Duration::from_millis(10);

/// What is mounted.
pub(crate) enum Secret {
    /// No secret, or it has no such key; with the names of the keys that it does have.
    Absent { others: Vec<String> },
    /// What the key holds, not yet parsed.
    Present(Zeroizing<Vec<u8>>),
}

impl Secret {
    /// Reads the key `key` of the secret at `directory`, of at most `limit` bytes.
    pub(crate) fn read(directory: &Path, key: &str, limit: usize) -> io::Result<Self> {
        let read = read_file(&directory.join(key), limit).map_err(|error| match error.kind() {
            ErrorKind::NotADirectory => {
                let rule = "a file is there; name the directory that it is in";
                io::Error::new(ErrorKind::NotADirectory, rule)
            }
            _ => error,
        });
        Ok(match read? {
            Some(text) => Self::Present(text),
            None => Self::Absent { others: other_keys(directory) },
        })
    }
}

/// Reads a file of at most `limit` bytes; `None` if it is not there.
pub(crate) fn read_file(path: &Path, limit: usize) -> io::Result<Option<Zeroizing<Vec<u8>>>> {
    look_up(path, || read_path(path, limit))
}

/// Reads the key at `path`, with a fresh lookup as long as there is a key that leads nowhere;
/// `None` if there is none.
fn look_up<T>(
    path: &Path,
    mut read: impl FnMut() -> Result<T, ReadError>,
) -> io::Result<Option<T>> {
    for attempt in 1..=LOOKUPS {
        if let Some(found) = if_there(read())? {
            return Ok(Some(found));
        }
        // The old version may have been deleted while this lookup was on its way through it. Only
        // the key's own link says whether there is a key: the kubelet keeps it as long as there is.
        if attempt == LOOKUPS || path.symlink_metadata().is_err() {
            break;
        }
        sleep(LOOKUP_PAUSE);
    }
    Ok(None)
}

/// The keys in the directory `secret`; none where it cannot be read, because they only serve a
/// message.
fn other_keys(secret: &Path) -> Vec<String> {
    let Ok(entries) = read_dir(secret) else {
        return Vec::new();
    };
    let mut keys: Vec<String> = entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| !name.starts_with(".."))
        .take(MAX_NAMED_KEYS)
        .collect();
    keys.sort();
    keys
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn an_exchange_is_no_absence() {
        let secret = tempfile::tempdir().unwrap();
        let key = secret.path().join("key");
        symlink("..data/key", &key).unwrap();
        // What a lookup gets that was on its way through the old version: the next one goes through
        // the new one.
        let mut exchanges = 2;
        let opened = look_up(&key, || {
            if exchanges > 0 {
                exchanges -= 1;
                return Err(ReadError::NotThere(ErrorKind::NotFound.into()));
            }
            Ok(())
        });
        assert!(opened.unwrap().is_some());
    }

    #[test]
    fn a_link_that_leads_nowhere_is_absent_in_the_end() {
        let secret = tempfile::tempdir().unwrap();
        symlink("..data/key", secret.path().join("key")).unwrap();
        let read = Secret::read(secret.path(), "key", 9).unwrap();
        assert!(matches!(read, Secret::Absent { .. }));
    }
}

//! A secret as the kubelet mounts it.
//!
//! The kubelet puts a secret's keys into a new directory, and exchanges the symbolic link `..data`, which the keys' own links lead
//! through: opening a key once gives one version of it, never a mixture. The mount is the kubelet's, so that links are followed.

use std::fs::{File, read_dir};
use std::io::{self, Read};
use std::path::Path;

use puller_config::MAX_DOCUMENT_BYTES;
use rustix::fs::{Mode, OFlags, open};
use zeroize::Zeroizing;

use crate::Set;

/// How many other keys are named in a message.
const MAX_NAMED_KEYS: usize = 8;

/// What is mounted.
pub(crate) enum Secret {
    /// No secret, or it has no such key; with the names of the keys that it does have.
    Absent { others: Vec<String> },
    /// The document, not yet parsed.
    Present(Zeroizing<Vec<u8>>),
}

impl Secret {
    /// Reads the key of `set`.
    pub(crate) fn read(set: &Set) -> io::Result<Self> {
        // A FIFO must not hang the reader; on regular files O_NONBLOCK has no effect.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        match open(set.secret.join(&set.key), flags, Mode::empty()).map_err(io::Error::from) {
            Ok(file) => read_document(file.into()).map(Self::Present),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Self::Absent {
                others: other_keys(&set.secret),
            }),
            Err(error) => Err(error),
        }
    }
}

fn read_document(file: File) -> io::Result<Zeroizing<Vec<u8>>> {
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    // One byte more than allowed, reserved at once: a vector that grows leaves copies in freed memory.
    let limit = MAX_DOCUMENT_BYTES + 1;
    let size = usize::try_from(metadata.len()).map_or(limit, |size| limit.min(size + 1));
    let mut text = Zeroizing::new(Vec::with_capacity(size));
    file.take(limit as u64).read_to_end(&mut text)?;
    if text.len() == limit {
        let rule = format!("it has more than {MAX_DOCUMENT_BYTES} bytes");
        return Err(io::Error::other(rule));
    }
    Ok(text)
}

/// The keys in the directory `secret`; none where it cannot be read, because they only serve a message.
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

//! Which plugin an answer is of, and for what it was asked: another program, argument or variable
//! is another plugin, and other repositories are another question.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

use credential_sources::kubelet::config::Provider;
use foreign_text::hex;
use sha2::{Digest, Sha256};

/// A hash of all that makes `provider`, whose program has this `metadata`, and of the repositories
/// that it is asked about, if not all. Where the program is does not count: the node agent sees the
/// node's directories below another one than the wrapper.
pub fn fingerprint(provider: &Provider, metadata: &Metadata, repositories: Option<&str>) -> String {
    let mut hash = Sha256::new();
    // Each part has its length before it, so that no two lists of parts are one.
    let mut put = |part: &[u8]| {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    };
    put(provider.name.as_bytes());
    put(provider.version.api_version().as_bytes());
    put(&provider.default_cache.as_nanos().to_le_bytes());
    put(&provider.args.len().to_le_bytes());
    for argument in &provider.args {
        put(argument.as_bytes());
    }
    put(&provider.env.len().to_le_bytes());
    for (name, value) in &provider.env {
        put(name.as_bytes());
        put(value.expose().as_bytes());
    }
    for number in [
        metadata.dev(),
        metadata.ino(),
        metadata.size(),
        metadata.ctime().cast_unsigned(),
        metadata.ctime_nsec().cast_unsigned(),
    ] {
        put(&number.to_le_bytes());
    }
    put(repositories.unwrap_or_default().as_bytes());
    hex::encode(&hash.finalize())
}

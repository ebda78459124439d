//! Which plugin an answer is of, and for what it was asked: another program, argument or variable
//! is another plugin, and other repositories are another question.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;

use credential_sources::kubelet::config::Provider;
use foreign_text::hex;
use sha2::{Digest, Sha256};

/// A hash of all that makes a plugin, and of the repositories that it is asked about.
#[derive(Clone)]
pub struct Fingerprint {
    hash: Sha256,
}

impl Fingerprint {
    /// Of `provider`, whose program has this `metadata`. Where the program is does not count: the
    /// node agent sees the node's directories below another one than the wrapper.
    pub fn of(provider: &Provider, metadata: &Metadata) -> Self {
        let mut hash = Self { hash: Sha256::new() };
        hash.put(provider.name.as_bytes());
        hash.put(provider.version.api_version().as_bytes());
        hash.put(&provider.default_cache.as_nanos().to_le_bytes());
        hash.put(&provider.args.len().to_le_bytes());
        for argument in &provider.args {
            hash.put(argument.as_bytes());
        }
        for (name, value) in &provider.env {
            hash.put(name.as_bytes());
            hash.put(value.expose().as_bytes());
        }
        for number in [
            metadata.dev(),
            metadata.ino(),
            metadata.size(),
            metadata.ctime().cast_unsigned(),
            metadata.ctime_nsec().cast_unsigned(),
        ] {
            hash.put(&number.to_le_bytes());
        }
        hash
    }

    /// Of the plugin where it is asked about these repositories of a registry, if not about all: to
    /// one question it may fail, or answer otherwise than to the next.
    pub fn about(mut self, repositories: Option<&str>) -> Self {
        if let Some(repositories) = repositories {
            self.put(b"repositories");
            self.put(repositories.as_bytes());
        }
        self
    }

    /// The name of what is kept of this plugin under `key`.
    pub fn name(&self, key: &str) -> String {
        let mut hash = self.clone();
        hash.put(key.as_bytes());
        hex::encode(&hash.hash.finalize())
    }

    /// Adds a part with its length before it, so that no two lists of parts are one.
    fn put(&mut self, part: &[u8]) {
        self.hash.update((part.len() as u64).to_le_bytes());
        self.hash.update(part);
    }
}

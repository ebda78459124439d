//! Which image to pull: a repository of a registry, and the digest that pins the content.

use std::fmt;

use oci_spec::distribution::Reference;
use puller_config::RegistryHost;

use crate::digest::Digest;
use crate::error::Error;

/// The longest reference that is looked at: a host, a repository of 255 bytes, a tag of 128 and a digest fit well.
pub const MAX_REFERENCE_BYTES: usize = 1024;

/// An image pinned by digest. A tag beside the digest has no meaning and is dropped.
#[derive(Clone, Debug)]
pub struct ImageReference {
    registry: RegistryHost,
    repository: String,
    digest: Digest,
}

impl ImageReference {
    /// Reads `registry.corp:5000/team/app:tag@sha256:…`; a name without a registry is Docker Hub's.
    ///
    /// # Errors
    ///
    /// [`Error::Reference`] for what is no reference, [`Error::NoDigest`] for one that pins nothing.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let invalid = |rule: String| Error::Reference { rule };
        if text.len() > MAX_REFERENCE_BYTES {
            return Err(invalid(format!(
                "it has {} bytes, more than {MAX_REFERENCE_BYTES}",
                text.len()
            )));
        }
        let reference: Reference = text.parse().map_err(|error| invalid(format!("{error}")))?;
        let registry = RegistryHost::parse(reference.registry())
            .map_err(|error| invalid(error.to_string()))?;
        let repository = reference.repository().to_owned();
        // The parser takes "A/b" for a repository of Docker Hub, though no repository has upper-case letters.
        if repository.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return Err(invalid("the name of a repository is lower-case".to_owned()));
        }
        let Some(digest) = reference.digest() else {
            let tag = reference.tag().unwrap_or("latest");
            return Err(Error::NoDigest {
                name: format!("{registry}/{repository}"),
                tag: tag.to_owned(),
            });
        };
        let digest = Digest::parse(digest).map_err(|error| invalid(error.to_string()))?;
        Ok(Self {
            registry,
            repository,
            digest,
        })
    }

    /// The registry that the name carries; for Docker Hub that is not the host that is asked.
    pub fn registry(&self) -> &RegistryHost {
        &self.registry
    }

    /// The path of the repository; safe in a URL as it is, for its grammar has only `a-z0-9._-/`.
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// The digest of the manifest, or of the index above it.
    pub fn digest(&self) -> &Digest {
        &self.digest
    }
}

impl fmt::Display for ImageReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}@{}", self.registry, self.repository, self.digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HEX: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

    #[test]
    fn references_with_a_digest_are_read() {
        for (text, expected) in [
            (
                "registry.corp:5000/team/app@",
                "registry.corp:5000/team/app@",
            ),
            (
                "registry.corp:5000/team/app:1.2@",
                "registry.corp:5000/team/app@",
            ),
            ("busybox@", "docker.io/library/busybox@"),
            ("busybox:1.36@", "docker.io/library/busybox@"),
            ("team/app@", "docker.io/team/app@"),
            ("docker.io/busybox@", "docker.io/library/busybox@"),
            (
                "index.docker.io/library/busybox@",
                "docker.io/library/busybox@",
            ),
            (
                "registry-1.docker.io/library/busybox@",
                "docker.io/library/busybox@",
            ),
            ("localhost/app@", "localhost/app@"),
            ("localhost:5000/app@", "localhost:5000/app@"),
            ("127.0.0.1:5000/app@", "127.0.0.1:5000/app@"),
            ("Registry.Corp/team/app@", "registry.corp/team/app@"),
            ("ghcr.io/a/b/c/d__e.f-g@", "ghcr.io/a/b/c/d__e.f-g@"),
        ] {
            let read = ImageReference::parse(&format!("{text}sha256:{HEX}")).unwrap();
            assert_eq!(
                read.to_string(),
                format!("{expected}sha256:{HEX}"),
                "{text}"
            );
        }
        assert!(ImageReference::parse(&format!("app@sha512:{HEX}{HEX}")).is_ok());
    }

    #[test]
    fn a_reference_without_digest_says_how_to_pin_it() {
        let error = ImageReference::parse("registry.corp:5000/team/app:1.2").unwrap_err();
        assert!(matches!(error, Error::NoDigest { .. }));
        let text = error.to_string();
        assert!(
            text.contains("docker://registry.corp:5000/team/app:1.2"),
            "{text}"
        );
        assert!(
            text.contains("registry.corp:5000/team/app@sha256:"),
            "{text}"
        );
    }

    #[test]
    fn everything_else_is_refused() {
        for text in [
            "".to_owned(),
            "@".to_owned(),
            format!("@sha256:{HEX}"),
            format!("app@sha256:{}", &HEX[1..]),
            format!("app@sha256:{}", HEX.to_uppercase()),
            format!("app@sha384:{HEX}{}", &HEX[..32]),
            format!("app@md5:{}", &HEX[..32]),
            format!("https://registry.corp/app@sha256:{HEX}"),
            format!("user:password@registry.corp/app@sha256:{HEX}"),
            format!("registry.corp/../app@sha256:{HEX}"),
            format!("registry.corp/app@sha256:{HEX}@sha256:{HEX}"),
            format!("registry.corp:99999/app@sha256:{HEX}"),
            format!("registry.corp/App@sha256:{HEX}"),
            format!("Team/app@sha256:{HEX}"),
            format!(
                "registry.corp/{}@sha256:{HEX}",
                "a".repeat(MAX_REFERENCE_BYTES)
            ),
        ] {
            let error = ImageReference::parse(&text).unwrap_err();
            assert!(matches!(error, Error::Reference { .. }), "{text}: {error}");
        }
    }

    proptest! {
        /// No text panics, and what is read survives its own display.
        #[test]
        fn any_text_is_read_or_refused(text in "[a-z0-9./:@_A-Z-]{0,40}(@sha256:[0-9a-f]{64})?") {
            if let Ok(read) = ImageReference::parse(&text) {
                let again = ImageReference::parse(&read.to_string()).unwrap();
                prop_assert_eq!(again.to_string(), read.to_string());
            }
        }
    }
}

//! Which image to pull: a repository of a registry, and the digest that pins the content.

use std::fmt;

use registry_config::{InvalidName, RegistryHost};

use crate::digest::{Digest, InvalidDigest};
pub use crate::name::MAX_REFERENCE_BYTES;
use crate::name::Name;

/// The tag of a name that has neither tag nor digest.
pub(crate) const DEFAULT_TAG: &str = "latest";

/// Why a text is no reference to an image. No message quotes the text, which may hold a password by
/// mistake.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum InvalidReference {
    /// There is no text.
    #[error("the image reference is empty")]
    Empty,
    /// The text is longer than any name.
    #[error("the image reference has {length} bytes, more than {MAX_REFERENCE_BYTES}")]
    TooLong {
        /// How long it is, in bytes.
        length: usize,
    },
    /// The text holds a space or a line break.
    #[error("the image reference holds a space or a line break")]
    Space,
    /// The text begins with `https://`, `docker://` or the like.
    #[error(
        "the image reference begins with a scheme: write it without \"https://\" or \"docker://\""
    )]
    Scheme,
    /// The text holds a user name or a password.
    #[error(
        "the image reference holds a user name or a password: these belong into the \
        configuration's entry for the registry"
    )]
    UserInfo,
    /// What stands for the registry is no host.
    #[error("the registry of the image reference is not valid: {0}")]
    Registry(#[from] InvalidName),
    /// The registry is a host that ends with a dot, which no other program reads.
    #[error("the registry of the image reference ends with a dot: write it without")]
    TrailingDot,
    /// The first part has upper-case letters, which a host may have and a repository may not, but
    /// nothing that makes it a host.
    #[error(
        "the image reference begins with a name in upper case that has neither dot nor port: a \
        registry has one of them, a repository is lower-case"
    )]
    UppercaseRegistry,
    /// The repository has upper-case letters.
    #[error("the repository of the image reference has upper-case letters: it is lower-case")]
    Uppercase,
    /// A registry without a repository, or nothing before the tag or digest.
    #[error("the image reference names no repository")]
    NoRepository,
    /// The repository has a character or a sequence that no repository has.
    #[error(
        "the repository of the image reference is not valid: between slashes it has letters and \
        digits, joined by \".\", \"_\", \"__\" or hyphens"
    )]
    Repository,
    /// The repository is longer than registries allow.
    #[error("the repository of the image reference has {length} bytes, more than 255")]
    RepositoryTooLong {
        /// How long it is, in bytes, with Docker Hub's `library/` where that is left out.
        length: usize,
    },
    /// What follows the colon is no tag.
    #[error(
        "the tag of the image reference is not valid: it has at most 128 letters, \
        digits, \"_\", \".\" and \"-\", and begins with none of the last two"
    )]
    Tag,
    /// What follows the `@` is no digest.
    #[error("the digest of the image reference is not valid: {0}")]
    Digest(#[from] InvalidDigest),
    /// It pins no content.
    #[error(
        "the image reference has no digest, so nothing would say which content is right: write \
        {name}@sha256:…, with what `skopeo inspect --format '{{{{.Digest}}}}' \
        docker://{name}:{tag}` prints; if the pod does have one, containerd 1.7 put this tag in its \
        place: use containerd 2.0, or `ctr -n k8s.io images rm {name}:{tag}` on the node, or \
        pin the tag in the measured document: [pins] \"{name}:{tag}\" = \"sha256:…\""
    )]
    NoDigest {
        /// Registry and repository.
        name: String,
        /// The tag that would have been meant.
        tag: String,
    },
    /// It pins content where a tag is asked for.
    #[error("the image reference has a digest, so there is no tag to look up")]
    HasDigest,
}

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
    /// [`InvalidReference::NoDigest`] for a name that pins nothing, the others for what is no
    /// reference.
    pub fn parse(text: &str) -> Result<Self, InvalidReference> {
        Self::of(Name::parse(text)?)
    }

    /// The image of a name that has a digest.
    pub(crate) fn of(name: Name) -> Result<Self, InvalidReference> {
        let Some(digest) = name.digest else {
            return Err(InvalidReference::NoDigest {
                name: format!("{}/{}", name.registry, name.repository),
                tag: name.tag.unwrap_or_else(|| DEFAULT_TAG.to_owned()),
            });
        };
        Ok(Self { registry: name.registry, repository: name.repository, digest })
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

/// An image that is named by a tag, which anyone who writes to the registry may move.
///
/// Only for people who ask for one image by hand: nothing that runs containers takes this type, and
/// the only way from it to an [`ImageReference`] is [`TaggedReference::pin`] with a digest that
/// somebody saw.
#[derive(Clone, Debug)]
pub struct TaggedReference {
    registry: RegistryHost,
    repository: String,
    tag: String,
}

impl TaggedReference {
    /// Reads `busybox` or `registry.corp/team/app:1.2`; without a tag it is `latest`.
    ///
    /// # Errors
    ///
    /// [`InvalidReference::HasDigest`] for a reference with a digest, which no tag may take the
    /// place of; the others for what is no reference.
    pub fn parse(text: &str) -> Result<Self, InvalidReference> {
        Self::of(Name::parse(text)?)
    }

    /// The image of a name that has no digest.
    pub(crate) fn of(name: Name) -> Result<Self, InvalidReference> {
        if name.digest.is_some() {
            return Err(InvalidReference::HasDigest);
        }
        Ok(Self {
            registry: name.registry,
            repository: name.repository,
            tag: name.tag.unwrap_or_else(|| DEFAULT_TAG.to_owned()),
        })
    }

    /// The registry that the name carries.
    pub fn registry(&self) -> &RegistryHost {
        &self.registry
    }

    /// The path of the repository, safe in a URL.
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// The tag; safe in a URL too.
    pub fn tag(&self) -> &str {
        &self.tag
    }

    /// The same image by the digest of what the tag stood for.
    pub fn pin(self, digest: Digest) -> ImageReference {
        ImageReference { registry: self.registry, repository: self.repository, digest }
    }
}

impl fmt::Display for TaggedReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}:{}", self.registry, self.repository, self.tag)
    }
}

//! An image's name with all that was written: what a policy is asked about, and what a signature
//! names.
//!
//! [`ImageReference`] is what a pull follows, and drops the tag. A policy has scopes for tags, so
//! it needs this type.

use std::fmt;

use registry_config::RegistryHost;

use crate::digest::Digest;
use crate::name::{self, Name};
use crate::reference::{DEFAULT_TAG, ImageReference, InvalidReference, TaggedReference};

/// Registry and repository, and the tag and the digest that were written behind them.
///
/// Invariant: each part keeps to its grammar, and a repository of Docker Hub has a namespace.
#[derive(Clone, Debug)]
pub struct NamedReference {
    registry: RegistryHost,
    repository: String,
    tag: Option<String>,
    digest: Option<Digest>,
}

impl NamedReference {
    /// Reads `registry.corp:5000/team/app:tag@sha256:…`; tag and digest may be missing.
    ///
    /// # Errors
    ///
    /// [`InvalidReference`] for what is no reference.
    pub fn parse(text: &str) -> Result<Self, InvalidReference> {
        let name = Name::parse(text)?;
        Ok(Self {
            registry: name.registry,
            repository: name.repository,
            tag: name.tag,
            digest: name.digest,
        })
    }

    /// The registry that the name carries.
    pub fn registry(&self) -> &RegistryHost {
        &self.registry
    }

    /// The path of the repository.
    pub fn repository(&self) -> &str {
        &self.repository
    }

    /// The tag, if one was written.
    pub fn tag(&self) -> Option<&str> {
        self.tag.as_deref()
    }

    /// The digest, if one was written.
    pub fn digest(&self) -> Option<&Digest> {
        self.digest.as_ref()
    }

    /// Registry and repository in the one spelling that all names of one repository share.
    pub fn name(&self) -> String {
        format!("{}/{}", self.registry.canonical(), self.repository)
    }

    /// The image, by its digest alone.
    ///
    /// # Errors
    ///
    /// [`InvalidReference::NoDigest`].
    pub fn into_pinned(self) -> Result<ImageReference, InvalidReference> {
        ImageReference::of(self.into())
    }

    /// The image that is to be looked up by its tag, or by `latest`.
    ///
    /// # Errors
    ///
    /// [`InvalidReference::HasDigest`].
    pub fn into_tagged(self) -> Result<TaggedReference, InvalidReference> {
        TaggedReference::of(self.into())
    }

    /// The same image with the tag `latest`, if it has neither tag nor digest.
    #[must_use]
    pub fn with_default_tag(self) -> Self {
        let is_bare = self.tag.is_none() && self.digest.is_none();
        let tag = is_bare.then(|| DEFAULT_TAG.to_owned());
        Self { tag: self.tag.or(tag), ..self }
    }

    /// The same image, pinned by what its tag was resolved to.
    #[must_use]
    pub fn with_digest(self, digest: Digest) -> Self {
        Self { digest: Some(digest), ..self }
    }
}

impl From<NamedReference> for Name {
    fn from(reference: NamedReference) -> Self {
        let NamedReference { registry, repository, tag, digest } = reference;
        Self { registry, repository, tag, digest }
    }
}

impl From<&ImageReference> for NamedReference {
    fn from(reference: &ImageReference) -> Self {
        Self {
            registry: reference.registry().clone(),
            repository: reference.repository().to_owned(),
            tag: None,
            digest: Some(reference.digest().clone()),
        }
    }
}

impl fmt::Display for NamedReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        match &self.digest {
            Some(digest) => write!(f, "@{digest}"),
            None => Ok(()),
        }
    }
}

/// Whether a text is the path of a repository, or of a namespace above repositories: without host,
/// tag and digest.
pub fn is_repository_path(text: &str) -> bool {
    name::is_path(text)
}

/// Whether a text is a tag.
pub fn is_tag(text: &str) -> bool {
    name::check_tag(text).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tag_and_digest_are_kept_and_the_registry_has_one_spelling() {
        let digest = format!("sha256:{}", "0".repeat(64));
        for (text, shown, tag) in [
            ("tiny", "docker.io/library/tiny", None),
            ("index.docker.io/tiny:1", "docker.io/library/tiny:1", Some("1")),
            ("Registry.CORP:443/team/app:1.2", "registry.corp/team/app:1.2", Some("1.2")),
            ("registry.corp:5000/app", "registry.corp:5000/app", None),
        ] {
            let reference = NamedReference::parse(text).unwrap();
            assert_eq!(reference.to_string(), shown);
            assert_eq!(reference.tag(), tag);
            let both = NamedReference::parse(&format!("{text}@{digest}")).unwrap();
            assert_eq!(both.to_string(), format!("{shown}@{digest}"));
            assert_eq!((both.tag(), both.name()), (tag, reference.name()));
            assert_eq!(both.with_default_tag().tag(), tag);
            let full = reference.with_default_tag();
            assert_eq!(full.tag(), Some(tag.unwrap_or("latest")));
        }
    }
}

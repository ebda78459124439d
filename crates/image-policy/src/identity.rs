//! What a signature must name, and whether it does.
//!
//! The rules are those of containers/image: names are parsed, not compared as texts, and what a
//! name does not say is not made up.

use std::fmt;

use oci_image::named::NamedReference;
use oci_image::reference::InvalidReference;
use registry_config::RegistryHost;

/// A kind of `signedIdentity`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Identity {
    /// `matchExact`: the image as it is asked for, with its tag, or its digest.
    Exact,
    /// `matchRepoDigestOrExact`: the same, but for an image by digest any tag or digest of its
    /// repository.
    #[default]
    RepoDigestOrExact,
    /// `matchRepository`: the same repository.
    Repository,
    /// `exactReference`: this name.
    ExactReference(ImageName),
    /// `exactRepository`: this repository, in its one spelling.
    ExactRepository(String),
    /// `digestOnly`, which is of this project: no name at all.
    DigestOnly,
}

/// The image that is asked for, or a name as signatures and policies have it.
///
/// A signed one may carry a digest by which no image here can be asked for, such as SHA-384:
/// containers/image takes one there too, where the repository is compared.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImageName {
    /// Registry and repository in their one spelling.
    pub(crate) name: String,
    pub(crate) tag: Option<String>,
    pub(crate) digest: Option<String>,
}

impl Identity {
    /// Whether a bundle, which names no image, can hold.
    pub(crate) fn takes_bundles(&self) -> bool {
        matches!(self, Self::DigestOnly)
    }

    /// Whether a signature for this name is one for the image that is asked for.
    pub(crate) fn holds(&self, asked: &ImageName, signed: &str) -> bool {
        match (self, read_signed(signed)) {
            (Self::DigestOnly, _) => true,
            (_, None) => false,
            (Self::Exact, Some(signed)) => is_exact(asked, &signed),
            (Self::RepoDigestOrExact, Some(signed)) => is_repo_digest_or_exact(asked, &signed),
            (Self::Repository, Some(signed)) => signed.name == asked.name,
            (Self::ExactReference(name), Some(signed)) => !signed.is_bare() && signed == *name,
            (Self::ExactRepository(name), Some(signed)) => signed.name == *name,
        }
    }
}

impl ImageName {
    pub(crate) fn of(reference: &NamedReference) -> Self {
        Self {
            name: reference.name(),
            tag: reference.tag().map(str::to_owned),
            digest: reference.digest().map(ToString::to_string),
        }
    }

    /// Reads a name.
    ///
    /// # Errors
    ///
    /// [`InvalidReference`].
    pub(crate) fn parse(text: &str) -> Result<Self, InvalidReference> {
        let (name, digest) = match text.rsplit_once('@') {
            Some((name, digest)) if is_digest(digest) => (name, Some(digest.to_owned())),
            _ => (text, None),
        };
        let name = Self::of(&NamedReference::parse(name)?);
        Ok(match digest {
            // Two digests are none.
            Some(_) if name.digest.is_some() => return Err(InvalidReference::Repository),
            Some(_) => Self { digest, ..name },
            None => name,
        })
    }

    /// Whether it has neither tag nor digest.
    pub(crate) fn is_bare(&self) -> bool {
        self.tag.is_none() && self.digest.is_none()
    }
}

/// Whether a text is a digest by one of the algorithms that containers/image knows.
pub(crate) fn is_digest(text: &str) -> bool {
    let Some((algorithm, hex)) = text.split_once(':') else {
        return false;
    };
    let digits = match algorithm {
        "sha256" => 64,
        "sha384" => 96,
        "sha512" => 128,
        _ => return false,
    };
    let is_hex = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    hex.len() == digits && hex.bytes().all(is_hex)
}

/// Reads the name in a signature; `None` if it is none, or its host has another spelling than the
/// one that programs write.
///
/// What somebody signed is taken as it is: folding spellings here would make one signature hold for
/// names that containers/image keeps apart.
fn read_signed(text: &str) -> Option<ImageName> {
    let name = ImageName::parse(text).ok()?;
    let host = text.split_once('/').map(|(host, _)| host);
    let is_host = |host: &&str| host.contains(['.', ':']) || *host == "localhost";
    let is_plain = match host.filter(is_host) {
        Some(host) => {
            let registry = RegistryHost::parse(host).ok()?;
            match registry.is_docker_hub() {
                true => matches!(host, "docker.io" | "index.docker.io"),
                false => host == registry.to_string(),
            }
        }
        None => true,
    };
    is_plain.then_some(name)
}

/// The whole names are equal; two names without tag and digest are not. An image with a tag is asked
/// for by its tag: the digest beside it is what the tag stood for.
fn is_exact(asked: &ImageName, signed: &ImageName) -> bool {
    let digest = asked.digest.clone().filter(|_| asked.tag.is_none());
    !signed.is_bare() && *signed == ImageName { digest, ..asked.clone() }
}

fn is_repo_digest_or_exact(asked: &ImageName, signed: &ImageName) -> bool {
    match asked.tag {
        Some(_) => is_exact(asked, signed),
        None => !signed.is_bare() && asked.digest.is_some() && asked.name == signed.name,
    }
}

/// In the one spelling of its host.
impl fmt::Display for ImageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, tag, digest } = self;
        f.write_str(name)?;
        if let Some(tag) = tag {
            write!(f, ":{tag}")?;
        }
        digest.as_ref().map_or(Ok(()), |digest| write!(f, "@{digest}"))
    }
}

/// As a policy names it.
impl fmt::Display for Identity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact => f.write_str("matchExact"),
            Self::RepoDigestOrExact => f.write_str("matchRepoDigestOrExact"),
            Self::Repository => f.write_str("matchRepository"),
            Self::ExactReference(reference) => write!(f, "exactReference {reference}"),
            Self::ExactRepository(name) => write!(f, "exactRepository {name}"),
            Self::DigestOnly => f.write_str("digestOnly"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(text: &str) -> ImageName {
        ImageName::of(&NamedReference::parse(text).unwrap())
    }

    #[test]
    fn a_name_is_compared_by_its_parts() {
        let digest = format!("sha256:{}", "1".repeat(64));
        let by_tag = asked(&format!("reg.test/team/app:1@{digest}"));
        let by_digest = asked(&format!("reg.test/team/app@{digest}"));
        let full = format!("reg.test/team/app@{digest}");
        let by_sha384 = format!("reg.test/team/app@sha384:{}", "1".repeat(96));
        // Signed name; exact by tag and digest; default by tag and digest; repository.
        for (signed, want) in [
            ("reg.test/team/app:1", [true, false, true, true, true]),
            ("reg.test/team/app:2", [false, false, false, true, true]),
            (full.as_str(), [false, true, false, true, true]),
            ("reg.test/team/app", [false, false, false, false, true]),
            ("reg.test:443/team/app:1", [true, false, true, true, true]),
            ("REG.test/team/app:1", [false; 5]),
            ("reg.test/team/App:1", [false; 5]),
            ("reg.test/team/other:1", [false; 5]),
            ("team/app:1", [false; 5]),
            ("docker://reg.test/team/app:1", [false; 5]),
            ("reg.test/team/app:1 ", [false; 5]),
            ("", [false; 5]),
            (by_sha384.as_str(), [false, false, false, true, true]),
            (&format!("{full}@{}", &digest), [false; 5]),
            (&by_sha384.replace("sha384", "sha224"), [false; 5]),
        ] {
            let found = [
                Identity::Exact.holds(&by_tag, signed),
                Identity::Exact.holds(&by_digest, signed),
                Identity::RepoDigestOrExact.holds(&by_tag, signed),
                Identity::RepoDigestOrExact.holds(&by_digest, signed),
                Identity::Repository.holds(&by_tag, signed),
            ];
            assert_eq!(found, want, "{signed}");
            assert!(Identity::DigestOnly.holds(&by_tag, signed));
        }
    }
}

//! The name of an image, and whose word its digest is.

use oci_image::digest::Digest;
use oci_image::named::NamedReference;
use oci_image::pins::Meant;

use crate::policy::Policy;
use crate::ruling::Ruling;

/// The image that a policy is asked about.
#[derive(Clone, Debug)]
pub struct Name {
    reference: NamedReference,
    is_resolved: bool,
}

impl Name {
    /// As somebody wrote it, who may be the host.
    pub fn written(reference: NamedReference) -> Self {
        Self { reference, is_resolved: false }
    }

    /// What a name means by the owner's pins. The pin of its very tag resolves the tag: the owner
    /// said which content that is, and the pins refuse the tag with any other. A pin of the
    /// repository, or one whose tag the name does not have, resolves nothing, for the tag is the
    /// host's then.
    pub fn pinned(named: &NamedReference, meant: &Meant) -> Self {
        let tagged = named.clone().with_default_tag();
        Self {
            reference: tagged.with_digest(meant.image.digest().clone()),
            is_resolved: meant.is_of_tag,
        }
    }

    /// The same for the digest that its tag was resolved to. `is_resolved`: whether it is pulled by
    /// that tag, and not by this digest later.
    #[must_use]
    pub fn with_digest(self, digest: Digest, is_resolved: bool) -> Self {
        Self { reference: self.reference.with_digest(digest), is_resolved }
    }

    /// With its tag and its digest, as far as they are known.
    pub fn reference(&self) -> &NamedReference {
        &self.reference
    }
}

impl Policy {
    /// Which scope decides for a name: [`Policy::ruling_of_resolved`] where its digest is what its
    /// tag was resolved to, [`Policy::ruling`] where it may be the host's.
    ///
    /// The one place that chooses, for the guest that pulls and for the host that explains.
    pub fn ruling_of(&self, name: &Name) -> Ruling<'_> {
        match name.is_resolved {
            true => self.ruling_of_resolved(&name.reference),
            false => self.ruling(&name.reference),
        }
    }
}

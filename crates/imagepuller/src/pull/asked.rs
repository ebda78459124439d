//! Which image is asked for, as far as its name and the owner's pins say it.

use image_policy::Name;
use oci_image::digest::Digest;
use oci_image::named::NamedReference;
use oci_image::pins::Refused;
use oci_image::reference::{ImageReference, InvalidReference, TaggedReference};
use pull_route::Settings;

use super::policy::Gate;
use crate::error::Error;

/// What a name means.
#[derive(Clone, Debug)]
pub enum ImageName {
    /// An image whose content its digest names.
    Pinned(ImageReference),
    /// Whatever the registry has under a tag just now. Nothing vouches for it but an image policy.
    Tagged(TaggedReference, InvalidReference),
}

/// An image that is asked for.
#[derive(Clone, Debug)]
pub struct Asked {
    /// Its whole name, as an image policy is asked about it: a tag, and a digest where it has one
    /// or is pinned to one.
    pub name: Name,
    /// What that means.
    pub image: ImageName,
}

impl Asked {
    /// What a name means by the documents, whether it has a digest or not.
    ///
    /// # Errors
    ///
    /// What the pins of the owner forbid.
    pub fn of(named: &NamedReference, settings: &Settings) -> Result<Self, Error> {
        match registry_client::pins(settings)?.find(named.clone()) {
            Ok(meant) => Ok(Self {
                name: Name::pinned(named, &meant),
                image: ImageName::Pinned(meant.image),
            }),
            Err(Refused::Reference(why @ InvalidReference::NoDigest { .. })) => {
                let name = named.clone().with_default_tag();
                Ok(Self {
                    image: ImageName::Tagged(name.clone().into_tagged()?, why),
                    name: Name::written(name),
                })
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The same for who runs what he asks for: a tag without a digest takes an image policy, which
    /// says later whether it will do.
    ///
    /// # Errors
    ///
    /// Also a name without a digest where there is no policy.
    pub fn of_content(named: &NamedReference, settings: &Settings) -> Result<Self, Error> {
        let asked = Self::of(named, settings)?;
        match asked.image {
            ImageName::Tagged(_, why) if settings.image_policy().is_none() => Err(why.into()),
            _ => Ok(asked),
        }
    }

    /// The digest of the content, where it is known.
    pub fn digest(&self) -> Option<&Digest> {
        match &self.image {
            ImageName::Pinned(image) => Some(image.digest()),
            ImageName::Tagged(..) => None,
        }
    }

    /// Whether the image policy says which content the tag may have, if that is all there is.
    ///
    /// # Errors
    ///
    /// A tag that may not be resolved.
    pub fn check_tag(&self, gate: &Gate<'_>) -> Result<(), Error> {
        let ImageName::Tagged(_, reference) = &self.image else {
            return Ok(());
        };
        match gate.may_resolve_tag() {
            Ok(true) => Ok(()),
            Ok(false) => Err(reference.clone().into()),
            Err(policy) => {
                Err(Error::Tag { reference: reference.clone(), policy: Box::new(policy) })
            }
        }
    }
}

//! The image in question, read as the guest reads it.

use std::fmt;

use image_policy::Name;
use oci_image::named::NamedReference;
use oci_image::pins::{Pins, Refused};
use oci_image::reference::InvalidReference;
use registry_config::RegistryHost;
use serde::Serialize;

/// An image's reference, taken apart.
#[derive(Debug, Serialize)]
pub struct Image {
    #[serde(serialize_with = "shown")]
    pub host: RegistryHost,
    pub repository: String,
    /// `None` beside a digest, where it has no meaning.
    tag: Option<String>,
    digest: Option<String>,
    /// The pin of the measured document that the digest has, or that gives it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pin: Option<String>,
    #[serde(skip)]
    named: NamedReference,
    /// What an image policy is asked about: the name as it was written, with the digest that a pin
    /// gives it.
    #[serde(skip)]
    pub ruled: Name,
    /// Whether the owner lets the guest resolve the tag.
    #[serde(skip)]
    pub tag_allowed: bool,
}

fn shown<S: serde::Serializer>(host: &RegistryHost, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(host)
}

impl Image {
    /// Reads `registry.corp:5000/team/app:tag@sha256:...`; the error is the broken rule, and does
    /// not repeat the text.
    pub fn parse(text: &str) -> Result<Self, InvalidReference> {
        let named = NamedReference::parse(text)?;
        let tagged = named.clone().with_default_tag();
        Ok(Self {
            host: named.registry().clone(),
            repository: named.repository().to_owned(),
            tag: tagged.tag().filter(|_| named.digest().is_none()).map(ToOwned::to_owned),
            digest: named.digest().map(ToString::to_string),
            pin: None,
            ruled: Name::written(named.clone()),
            named,
            tag_allowed: false,
        })
    }

    /// Goes by the owner's pins, as the guest does; gives why they are against the image.
    pub fn pin(&mut self, pins: &Pins) -> Option<Refused> {
        match pins.find(self.named.clone()) {
            Ok(meant) => {
                self.ruled = Name::pinned(&self.named, &meant);
                self.digest = Some(meant.image.digest().to_string());
                self.pin = meant.pin;
                None
            }
            // Without a pin it is as without pins.
            Err(Refused::Reference(_)) => None,
            Err(refused) => Some(refused),
        }
    }
}

impl fmt::Display for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of the registry {}", self.repository, self.host)?;
        match (&self.digest, &self.tag) {
            (Some(digest), _) => {
                write!(f, ", pinned to {digest}")?;
                let pin = self.pin.as_ref();
                pin.map_or(Ok(()), |pin| write!(f, ", as [pins] has {pin}"))
            }
            (None, Some(tag)) if self.tag_allowed => {
                write!(f, ", tag {tag:?}, which [image-policy] lets the guest resolve")
            }
            (None, tag) => write!(
                f,
                ", tag {:?} without a digest: the guest pulls by digest only",
                tag.as_deref().unwrap_or_default()
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_names_are_docker_hubs() {
        for (text, host, repository) in [
            ("alpine", "docker.io", "library/alpine"),
            ("team/app:1", "docker.io", "team/app"),
            ("index.docker.io/alpine", "docker.io", "library/alpine"),
            ("localhost/app", "localhost", "app"),
            ("localhost:5000/app", "localhost:5000", "app"),
            ("192.0.2.1/app", "192.0.2.1", "app"),
            ("[::1]:5000/app", "[::1]:5000", "app"),
            ("Registry.Corp/app", "registry.corp", "app"),
        ] {
            let image = Image::parse(text).unwrap_or_else(|rule| panic!("{text}: {rule}"));
            assert_eq!(
                (image.host.to_string().as_str(), image.repository.as_str()),
                (host, repository),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_no_reference_is_refused_without_quoting_it() {
        let long = format!("registry.corp/{}", "hunter2/".repeat(200));
        for text in [
            "",
            "https://robot:hunter2@registry.corp/app",
            "robot:hunter2@registry.corp/app",
            "registry.corp/App",
            "App/hunter2",
            "registry..corp/app",
            "[::1/app",
            "registry.corp/app@sha256:hunter2",
            "registry.corp/app:hunter2\n",
            &long,
        ] {
            let rule = Image::parse(text).unwrap_err().to_string();
            assert!(!rule.contains("hunter2"), "{rule}");
        }
    }
}

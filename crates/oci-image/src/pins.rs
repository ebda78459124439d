//! The pins of the measured document: which content a name means, and whether an image may run.
//!
//! The one place that gives `[pins]` a meaning, for the guest that pulls and for the host that
//! checks a document or explains an image. `docs/document.md` has the rules.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use registry_config::Problems;

use crate::digest::Digest;
use crate::named::NamedReference;
use crate::reference::{DEFAULT_TAG, ImageReference, InvalidReference};

/// The pins, by the one spelling of each repository's name.
#[derive(Clone, Debug, Default)]
pub struct Pins {
    is_only: bool,
    repositories: BTreeMap<String, Repository>,
}

/// What is pinned of one repository.
#[derive(Clone, Debug, Default)]
struct Repository {
    /// The digests of the pin without a tag, in its order; none where there is no such pin.
    any: Vec<Digest>,
    /// The pins of tags.
    tags: BTreeMap<String, Digest>,
}

/// The image that a name means.
#[derive(Clone, Debug)]
pub struct Meant {
    /// The image.
    pub image: ImageReference,
    /// The pin that allows it, in its one spelling; none where there is none, and none is needed.
    pub pin: Option<String>,
    /// Whether that is the pin of the very tag in the name, so that the owner says which content
    /// this tag has. `latest` is in a name without tag and digest; a pin of the repository, or one
    /// whose tag the name does not have, is none.
    pub is_of_tag: bool,
}

/// Why an image does not run.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refused {
    /// No pin is about it, and it has no digest.
    #[error(transparent)]
    Reference(#[from] InvalidReference),
    /// It has another digest than its pin.
    #[error(
        "the measured document pins {pin} to {}, and the image reference names {digest}: name \
        what is pinned, or change [pins]",
        some(pinned)
    )]
    Other {
        /// The pin's name.
        pin: String,
        /// What is pinned; not empty.
        pinned: Vec<Digest>,
        /// What was named.
        digest: Digest,
    },
    /// Its pin has several digests, and it has none.
    #[error(
        "the measured document pins {pin} to {count} digests, and the image reference names none \
        of them: write one of them behind \"@\", or pin {name} to one of them in [pins]"
    )]
    Several {
        /// The pin's name.
        pin: String,
        /// How many.
        count: usize,
        /// The image with its tag.
        name: String,
    },
    /// Only what is pinned may run.
    #[error(
        "the measured document says only-pins = true, and [pins] does not have {name}{}",
        with(digest.as_ref())
    )]
    Unpinned {
        /// The image, with its tag if it has one.
        name: String,
        /// The digest that it has, if it has one.
        digest: Option<Digest>,
    },
}

impl Pins {
    /// Gives pins their meaning.
    ///
    /// # Errors
    ///
    /// Each that has none: no name of an image, a name with a digest in it, two spellings of one
    /// name, something else than a digest, several digests of one tag.
    pub fn read(written: &registry_config::Pins) -> Result<Self, Problems> {
        let mut pins = Self { is_only: written.is_only, repositories: BTreeMap::new() };
        let mut lines = BTreeMap::new();
        let faults = written.all.iter().filter_map(|pin| {
            let fault = match pins.add(pin) {
                Err(fault) => fault,
                Ok(name) => match lines.entry(name) {
                    Entry::Vacant(entry) => {
                        entry.insert(pin.line());
                        return None;
                    }
                    Entry::Occupied(first) => {
                        format!("is the image of line {} again; write one pin", first.get())
                    }
                },
            };
            Some((pin, fault))
        });
        registry_config::Pins::refuse(faults)?;
        Ok(pins)
    }

    /// Adds a pin and gives the one spelling of its name.
    fn add(&mut self, pin: &registry_config::Pin) -> Result<String, String> {
        let named = NamedReference::parse(&pin.name).map_err(|error| error.to_string())?;
        if named.digest().is_some() {
            return Err("a pin's name has no digest: that is its value".to_owned());
        }
        let digests = pin.digests.iter().map(|text| Digest::parse(text));
        let digests: Vec<_> = digests
            .collect::<Result<_, _>>()
            .map_err(|error| format!("{error}; a pin is \"REPOSITORY:TAG\" = \"sha256:...\""))?;
        let repository = self.repositories.entry(named.name()).or_default();
        match (named.tag(), <[Digest; 1]>::try_from(digests)) {
            (Some(tag), Ok([digest])) => {
                repository.tags.insert(tag.to_owned(), digest);
            }
            (Some(_), Err(_)) => {
                let fault = "a tag has one digest; a repository, without a tag, may have several";
                return Err(fault.to_owned());
            }
            (None, Ok([digest])) => repository.any = vec![digest],
            (None, Err(digests)) => repository.any = digests,
        }
        Ok(named.to_string())
    }

    /// Whether nothing runs without a pin.
    pub fn is_only(&self) -> bool {
        self.is_only
    }

    /// The image that a name means. A name without tag and digest has the tag `latest`.
    ///
    /// # Errors
    ///
    /// Why it does not run.
    pub fn find(&self, named: NamedReference) -> Result<Meant, Refused> {
        let is_of_tag = self.has_tag(&named);
        let (image, pin) = match named.digest().cloned() {
            Some(digest) => {
                let pin = self.allow(&named, &digest)?;
                (named.into_pinned()?, pin)
            }
            None => self.look_up(named)?,
        };
        Ok(Meant { image, pin, is_of_tag })
    }

    /// Whether there is a pin of the tag in a name. If so, it is the one that counts.
    fn has_tag(&self, named: &NamedReference) -> bool {
        let default = named.digest().is_none().then_some(DEFAULT_TAG);
        let repository = self.repositories.get(&named.name());
        let tag = named.tag().or(default);
        tag.is_some_and(|tag| repository.is_some_and(|it| it.tags.contains_key(tag)))
    }

    /// The pin that allows an image of this digest; none where there is none, and none is needed.
    fn allow(&self, named: &NamedReference, digest: &Digest) -> Result<Option<String>, Refused> {
        let name = named.name();
        let other = |pin: String, pinned: &[Digest]| {
            Err(Refused::Other { pin, pinned: pinned.to_vec(), digest: digest.clone() })
        };
        let Some(repository) = self.repositories.get(&name) else {
            return self.without_pin(named, digest);
        };
        let of_tag = named.tag().and_then(|tag| Some((tag, repository.tags.get(tag)?)));
        if let Some((tag, pinned)) = of_tag {
            let pin = format!("{name}:{tag}");
            return match pinned == digest {
                true => Ok(Some(pin)),
                false => other(pin, std::slice::from_ref(pinned)),
            };
        }
        if repository.any.contains(digest) {
            return Ok(Some(name));
        }
        if named.tag().is_none() {
            // The image of a pinned tag, named without it.
            let mut tags = repository.tags.iter();
            if let Some((tag, _)) = tags.find(|(_, pinned)| *pinned == digest) {
                return Ok(Some(format!("{name}:{tag}")));
            }
        }
        if !repository.any.is_empty() {
            return other(name, &repository.any);
        }
        self.without_pin(named, digest)
    }

    /// An image of this digest that no pin allows, and none of its repository or tag refuses.
    fn without_pin(
        &self,
        named: &NamedReference,
        digest: &Digest,
    ) -> Result<Option<String>, Refused> {
        match self.is_only {
            false => Ok(None),
            true => Err(Refused::Unpinned {
                name: tagged_name(&named.name(), named.tag()),
                digest: Some(digest.clone()),
            }),
        }
    }

    /// The image that is pinned under a tag, and the pin.
    fn look_up(&self, named: NamedReference) -> Result<(ImageReference, Option<String>), Refused> {
        let name = named.name();
        let tag = named.tag().unwrap_or(DEFAULT_TAG);
        let tagged = format!("{name}:{tag}");
        let repository = self.repositories.get(&name);
        let (pin, digest) = match repository.map(|it| (it.tags.get(tag), it.any.as_slice())) {
            Some((Some(digest), _)) => (tagged, digest),
            Some((None, [digest])) => (name, digest),
            Some((None, several @ [_, ..])) => {
                return Err(Refused::Several { pin: name, count: several.len(), name: tagged });
            }
            Some((None, [])) | None if self.is_only => {
                return Err(Refused::Unpinned { name: tagged, digest: None });
            }
            Some((None, [])) | None => {
                // There is no digest, which is what the error says.
                return Ok((named.into_pinned()?, None));
            }
        };
        let image = named.with_digest(digest.clone()).into_pinned()?;
        Ok((image, Some(pin)))
    }
}

fn tagged_name(name: &str, tag: Option<&str>) -> String {
    tag.map_or(name.to_owned(), |tag| format!("{name}:{tag}"))
}

/// The only digest, or the first one and how many there are.
fn some(digests: &[Digest]) -> String {
    match digests {
        [first, _, ..] => format!("{first} and {} more", digests.len() - 1),
        [digest] => digest.to_string(),
        [] => "nothing".to_owned(),
    }
}

/// What to do about an image that is not pinned.
fn with(digest: Option<&Digest>) -> String {
    match digest {
        Some(digest) => format!(" with {digest}: pin it to that, if it shall run"),
        None => ": pin it to what shall run".to_owned(),
    }
}

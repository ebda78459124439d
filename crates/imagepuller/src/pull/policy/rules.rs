//! The policy of one pull: its text, what holds beside it, and its keys.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use image_policy::conditions::TagRefused;
use image_policy::kept::Placed;
use image_policy::key::{MAX_KEY_BYTES, PublicKey};
use image_policy::policy::MAX_POLICY_BYTES;
use image_policy::ruling::Ruling;
use image_policy::verifications::Verifications;
use image_policy::{Conditions, Name, Policy, Refusal, section};
use oci_image::digest::Digest;
use pull_route::Settings;
use registry_config::{ImagePolicy, PolicySource, ResourceUri};

use super::PolicyPlace;
use crate::blocking::blocking;
use crate::error::Error;
use crate::pull::secrets::{Secrets, Text};

/// The bytes of each key by its path, or why there are none, for a refusal.
pub type Keys = BTreeMap<String, Result<Text, String>>;

/// A policy that was read.
#[derive(Debug)]
pub struct Rules {
    policy: Policy,
    conditions: Conditions,
    place: PolicyPlace,
    /// The verifications that are left of this pull, whichever source has the signatures.
    left: Arc<Verifications>,
}

impl Rules {
    /// The owner's policy; none if there is none.
    ///
    /// # Errors
    ///
    /// A policy that cannot be had or read. There is no pull without it.
    pub async fn of(
        place: &PolicyPlace,
        settings: &Settings,
        secrets: &Secrets,
    ) -> Result<Option<Self>, Error> {
        let (policy, conditions) = match (settings.image_policy(), &place.given) {
            (None, None) => return Ok(None),
            (Some(written), None) => {
                let conditions = conditions(written, settings)?;
                (measured(written, place, settings, secrets).await?, conditions)
            }
            // Who types a tag wants what is there now; the policy says whether it will do.
            (None, Some(given)) => {
                let every = Conditions::parse(&[String::new()], &[]).unwrap_or_default();
                (self::given(given).await?, every)
            }
            (Some(_), Some(_)) => {
                return Err(Error::PolicyUnusable {
                    place: "--policy".to_owned(),
                    why: "the measured document has an [image-policy] already; give one of them"
                        .to_owned(),
                });
            }
        };
        place.remark(&policy);
        Ok(Some(Self { policy, conditions, place: place.clone(), left: Arc::default() }))
    }

    /// Whether a tag may be resolved.
    ///
    /// # Errors
    ///
    /// Why not.
    pub fn may_resolve_tag(&self, name: &Name) -> Result<(), TagRefused> {
        self.policy.may_resolve_tag(name.reference(), &self.conditions)
    }

    /// The rule for an image.
    pub fn ruling(&self, name: &Name) -> Ruling<'_> {
        self.policy.ruling_of(name).within(self.left.clone())
    }

    /// The signatures that are enough for an image, or the refusal. Computes for a while.
    pub fn judge(
        &self,
        name: &Name,
        contents: &[Digest],
        found: &[Placed],
        keys: &Keys,
    ) -> Result<Vec<Placed>, Refusal> {
        let key = |path: &str| match keys.get(path) {
            Some(key) => key.as_ref().map(|key| key.to_vec()).map_err(Clone::clone),
            None => Err("has not been asked for".to_owned()),
        };
        self.ruling(name).judge(contents, found, &key, &self.conditions)
    }

    /// The keys of what decides for an image with these contents; those that are `known` are not
    /// asked for again.
    ///
    /// # Errors
    ///
    /// A content that does not run, for which no key is asked for; a reference that gives nothing.
    pub async fn keys(
        &self,
        name: &Name,
        contents: &[Digest],
        settings: &Settings,
        secrets: &Secrets,
        mut known: Keys,
    ) -> Result<Keys, Error> {
        let ruling = self.ruling(name);
        ruling.check_refused(contents, &self.conditions)?;
        for path in ruling.key_paths(contents) {
            if !known.contains_key(path) {
                known.insert(path.to_owned(), self.key(path, settings, secrets).await?);
            }
        }
        Ok(known)
    }

    async fn key(
        &self,
        path: &str,
        settings: &Settings,
        secrets: &Secrets,
    ) -> Result<Result<Text, String>, Error> {
        if path.contains("://") {
            let reference = match ResourceUri::parse(path) {
                Ok(reference) => reference,
                Err(error) => return Ok(Err(format!("is no reference to a key: {error}"))),
            };
            let unfit = |text: &[u8]| {
                let unusable = PublicKey::parse(text).err()?;
                Some(format!("the key of the image policy {unusable}"))
            };
            return Ok(Ok(secrets.remembered(&reference, settings, unfit).await?));
        }
        let (place, path) = (self.place.clone(), path.to_owned());
        let read = blocking(move || Ok(place.read(&path, MAX_KEY_BYTES)));
        Ok(read.await?.map(Text::new))
    }
}

/// A person's policy.
async fn given(file: &Path) -> Result<Policy, Error> {
    let file = file.to_owned();
    blocking(move || {
        let text = foreign_text::bounded::read_path(&file, MAX_POLICY_BYTES);
        let policy = text
            .map_err(|error| error.to_string())
            .and_then(|text| Policy::parse(&text).map_err(|error| error.to_string()));
        let place = format!("--policy {}", file.display());
        policy.map_err(|why| Error::PolicyUnusable { place, why })
    })
    .await
}

/// The policy of the measured document.
async fn measured(
    written: &ImagePolicy,
    place: &PolicyPlace,
    settings: &Settings,
    secrets: &Secrets,
) -> Result<Policy, Error> {
    let parse = |text: &[u8]| {
        let policy = section::policy(written, text);
        policy.map_err(|error| error.to_string())
    };
    let (key, policy) = match &written.source {
        PolicySource::Text(text) => ("text".to_owned(), parse(text.as_bytes())),
        PolicySource::File(name) => {
            let key = format!("file = {name:?}");
            let (place, name) = (place.clone(), name.clone());
            let text = blocking(move || Ok(place.read(&name, MAX_POLICY_BYTES))).await?;
            let text = text.map_err(|why| format!("the file {why}"));
            (key, text.and_then(|text| parse(&text)))
        }
        PolicySource::Uri(reference) => {
            let unfit = |text: &[u8]| parse(text).err();
            let text = secrets.remembered(reference, settings, unfit).await?;
            ("uri".to_owned(), parse(&text))
        }
    };
    policy.map_err(|why| Error::PolicyUnusable {
        place: format!("[image-policy] {key} of the measured document"),
        why,
    })
}

/// What holds beside the policy.
fn conditions(written: &ImagePolicy, settings: &Settings) -> Result<Conditions, Error> {
    section::conditions(written).map_err(|problems| {
        let path = settings.pins().1.to_owned();
        registry_client::Error::invalid(&path, &problems).into()
    })
}

//! The policy of one pull: its text, what holds beside it, and its keys.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use image_policy::conditions::TagRefused;
use image_policy::kept::Placed;
use image_policy::key::{MAX_KEY_BYTES, PublicKey};
use image_policy::policy::MAX_POLICY_BYTES;
use image_policy::ruling::Ruling;
use image_policy::verifications::Verifications;
use image_policy::{Conditions, Found, Name, Policy, Refusal, Signature, section};
use oci_image::digest::Digest;
use pull_route::Settings;
use registry_config::{ImagePolicy, PolicySource, ResourceUri};

use super::evidence::by_content;
use super::{PolicyPlace, files};
use crate::blocking::blocking;
use crate::error::Error;
use crate::pull::secrets::{Secrets, Text};

/// What is tried for a key: its bytes, or words for why there are none.
pub type Keys = BTreeMap<String, Result<Text, String>>;

/// A policy that was read.
#[derive(Debug)]
pub struct Rules {
    policy: Policy,
    conditions: Conditions,
    files: Files,
    /// The verifications that are left of this pull, whichever source has the signatures.
    left: Arc<Verifications>,
}

/// Where the keys are that a policy names by a path.
#[derive(Clone, Debug)]
enum Files {
    /// In the directory of the measured document.
    Measured(Option<PathBuf>),
    /// Where a person says, or beside this file.
    Beside(PathBuf),
}

/// What came of holding signatures against the policy.
#[derive(Debug)]
pub enum Verdict {
    /// The image may run, and these signatures are enough to say so again.
    Holds(Vec<Placed>),
    /// It may not.
    Refused(Refusal),
    /// There is none without these keys.
    Wants(BTreeSet<String>),
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
        let rules = match (settings.image_policy(), &place.given) {
            (None, None) => return Ok(None),
            (Some(written), None) => {
                let conditions = conditions(written, settings)?;
                let directory = place.directory.clone();
                let policy = measured(written, directory.clone(), settings, secrets).await?;
                let files = Files::Measured(directory);
                Self { policy, conditions, files, left: Arc::default() }
            }
            (None, Some(given)) => Self::given(given.clone()).await?,
            (Some(_), Some(_)) => {
                return Err(Error::PolicyUnusable {
                    place: "--policy".to_owned(),
                    why: "the measured document has an [image-policy] already; give one of them"
                        .to_owned(),
                });
            }
        };
        place.remark(&rules.policy);
        Ok(Some(rules))
    }

    /// A person's policy.
    async fn given(file: PathBuf) -> Result<Self, Error> {
        blocking(move || {
            let place = format!("--policy {}", file.display());
            let unusable = |why| Error::PolicyUnusable { place, why };
            let text = foreign_text::bounded::read_path(&file, MAX_POLICY_BYTES);
            let policy = text
                .map_err(|error| error.to_string())
                .and_then(|text| Policy::parse(&text).map_err(|error| error.to_string()))
                .map_err(unusable)?;
            // Who types a tag wants what is there now; the policy says whether it will do.
            let every = [String::new()];
            let conditions = Conditions::parse(&every, &[]).unwrap_or_default();
            Ok(Self { policy, conditions, files: Files::Beside(file), left: Arc::default() })
        })
        .await
    }

    /// Whether a tag may be resolved.
    ///
    /// # Errors
    ///
    /// Why not.
    pub fn may_resolve_tag(&self, name: &Name) -> Result<(), TagRefused> {
        self.policy.may_resolve_tag(name.reference(), &self.conditions)
    }

    fn ruling(&self, name: &Name) -> Ruling<'_> {
        self.policy.ruling_of(name).within(self.left.clone())
    }

    /// Logs the scope that decides for a name, where it accepts anything.
    pub fn log_accepting(&self, name: &Name) {
        let ruling = self.ruling(name);
        if let Some(scope) = ruling.accepts_anything() {
            let image = ruling.image();
            tracing::warn!("{scope} of the image policy decides for {image}, and accepts anything");
        }
    }

    /// The paths of keys that are needed for a name in any case.
    pub fn key_paths(&self, name: &Name) -> BTreeSet<String> {
        let ruling = self.ruling(name);
        ruling.key_paths().map(str::to_owned).collect()
    }

    /// Whether an image may run, by what was found for its contents. Computes for a while.
    pub fn judge(
        &self,
        name: &Name,
        contents: &[Digest],
        found: &[Placed],
        keys: &Keys,
    ) -> Verdict {
        let wanted = Wanted::default();
        let sorted = by_content(contents, found);
        let judged =
            self.ruling(name).judge(&found_in(&sorted), &wanted.source(keys), &self.conditions);
        match (judged, wanted.all()) {
            (Ok(enough), _) => Verdict::Holds(enough),
            (Err(refusal), wanted) if wanted.is_empty() => Verdict::Refused(refusal),
            (Err(_), wanted) => Verdict::Wants(wanted),
        }
    }

    /// The bytes of a key, or why there are none, for a refusal.
    ///
    /// # Errors
    ///
    /// A reference that gives nothing.
    pub async fn key(
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
        let (files, path) = (self.files.clone(), path.to_owned());
        let read = blocking(move || {
            Ok(match &files {
                Files::Measured(directory) => {
                    files::measured(directory.as_deref(), &path, MAX_KEY_BYTES)
                }
                Files::Beside(file) => files::beside(file, &path, MAX_KEY_BYTES),
            })
        });
        Ok(read.await?.map(Text::new))
    }
}

/// The keys that were looked for and not there.
#[derive(Default)]
struct Wanted(Mutex<BTreeSet<String>>);

impl Wanted {
    /// Gives the keys that are there, and notes the others.
    fn source<'w>(&'w self, keys: &'w Keys) -> impl Fn(&str) -> Result<Vec<u8>, String> + use<'w> {
        move |path| match keys.get(path) {
            Some(Ok(key)) => Ok(key.to_vec()),
            Some(Err(why)) => Err(why.clone()),
            None => {
                let mut wanted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                wanted.insert(path.to_owned());
                Err("has not been asked for".to_owned())
            }
        }
    }

    fn all(&self) -> BTreeSet<String> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn found_in(sorted: &[(Digest, Vec<Signature>)]) -> Vec<Found<'_>> {
    let found = sorted.iter();
    found.map(|(digest, signatures)| Found { digest, signatures }).collect()
}

/// The policy of the measured document.
async fn measured(
    written: &ImagePolicy,
    directory: Option<PathBuf>,
    settings: &Settings,
    secrets: &Secrets,
) -> Result<Policy, Error> {
    let parse = |text: &[u8]| {
        let policy = section::policy(written, text);
        policy.map_err(|error| error.to_string())
    };
    let unusable = |key: String| {
        move |why| Error::PolicyUnusable {
            place: format!("[image-policy] {key} of the measured document"),
            why,
        }
    };
    match &written.source {
        PolicySource::Text(text) => parse(text.as_bytes()).map_err(unusable("text".to_owned())),
        PolicySource::File(name) => {
            let unusable = unusable(format!("file = {name:?}"));
            let name = name.clone();
            let read = blocking(move || {
                Ok(files::measured(directory.as_deref(), &name, MAX_POLICY_BYTES))
            });
            let text = read.await?.map_err(|why| format!("the file {why}"));
            text.and_then(|text| parse(&text)).map_err(unusable)
        }
        PolicySource::Uri(reference) => {
            let unfit = |text: &[u8]| parse(text).err();
            let text = secrets.remembered(reference, settings, unfit).await?;
            parse(&text).map_err(unusable("uri".to_owned()))
        }
    }
}

/// What holds beside the policy.
fn conditions(written: &ImagePolicy, settings: &Settings) -> Result<Conditions, Error> {
    section::conditions(written).map_err(|problems| {
        let path = settings.pins().1.to_owned();
        registry_client::Error::ConfigurationInvalid { path, problems }.into()
    })
}

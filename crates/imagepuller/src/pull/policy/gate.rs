//! What one pull asks of the image policy.
//!
//! [`Gate::check`] before a registry is asked, [`Gate::admits_kept`] for an image that is in the
//! store, [`Gate::admit`] with what the sources have, before a layer is fetched and before a key is
//! unwrapped.

use std::sync::Arc;

use futures_util::future::join_all;
use image_policy::conditions::TagRefused;
use image_policy::kept::{self, Placed};
use image_policy::{Name, Refusal};
use oci_image::digest::Digest;
use pull_route::Settings;
use registry_client::registry::Registry;
use tokio::sync::Mutex;

use super::PolicyPlace;
use super::evidence::{OF_SOURCE, bounded, to_keep};
use super::rules::{Keys, Rules, Verdict};
use crate::blocking::blocking;
use crate::error::Error;
use crate::pull::secrets::Secrets;
use crate::pull::sources::Sources;

/// The policy, as far as one image is concerned.
#[derive(Debug)]
pub struct Gate<'p> {
    /// None where the owner has no policy.
    rules: Option<Arc<Rules>>,
    name: Name,
    settings: &'p Settings,
    secrets: &'p Secrets,
    /// Those that were asked for.
    keys: Mutex<Arc<Keys>>,
}

/// What the store says of an image.
#[derive(Debug)]
pub enum Kept {
    /// It may run.
    Holds,
    /// The sources have to be asked; these signatures were kept.
    Ask(Vec<Placed>),
}

/// Signatures that were asked for before it was known whether they are enough.
#[derive(Debug, Default)]
pub struct Early {
    source: Option<Arc<Registry>>,
    signatures: Vec<Placed>,
    left_out: usize,
}

/// What one source has.
struct Fetched {
    signatures: Vec<Placed>,
    /// How many more it has.
    left_out: usize,
    /// What failed first.
    failed: Option<registry_client::Error>,
}

impl<'p> Gate<'p> {
    /// Gets the policy.
    ///
    /// # Errors
    ///
    /// A policy that cannot be had or read.
    pub async fn open(
        place: &PolicyPlace,
        settings: &'p Settings,
        secrets: &'p Secrets,
        name: Name,
    ) -> Result<Self, Error> {
        let rules = Rules::of(place, settings, secrets).await?;
        Ok(Self { rules: rules.map(Arc::new), name, settings, secrets, keys: Mutex::default() })
    }

    /// Whether there is no policy.
    pub fn is_open(&self) -> bool {
        self.rules.is_none()
    }

    /// Whether the policy says which content a tag may have. Without a policy nothing does.
    ///
    /// # Errors
    ///
    /// Why it does not.
    pub fn may_resolve_tag(&self) -> Result<bool, TagRefused> {
        match &self.rules {
            None => Ok(false),
            Some(rules) => rules.may_resolve_tag(&self.name).map(|()| true),
        }
    }

    /// The same for the image that its tag was resolved to. `is_resolved`: whether it is pulled by
    /// that tag, and not by this digest later.
    pub fn of_digest(&mut self, digest: &Digest, is_resolved: bool) {
        self.name = self.name.clone().with_digest(digest.clone(), is_resolved);
    }

    /// Logs the scope that decides, where it accepts anything.
    pub fn log_accepting(&self) {
        if let Some(rules) = &self.rules {
            rules.log_accepting(&self.name);
        }
    }

    /// Whether signatures are needed and could help, before somebody is asked for them; `digest` is
    /// that of the name, if it has one.
    ///
    /// # Errors
    ///
    /// What no signature changes: the refusal, and keys that cannot be had.
    pub async fn check(&self, digest: Option<&Digest>) -> Result<bool, Error> {
        let contents: Vec<_> = digest.cloned().into_iter().collect();
        match self.judge(&contents, &[]).await? {
            Err(refusal) if !refusal.may_be_helped() => Err(refusal.into()),
            judged => Ok(judged.is_err()),
        }
    }

    /// Whether an image that is in the store may run by the signatures that were kept, in the form
    /// of [`kept`]. They are verified anew, by the policy and the keys of now.
    ///
    /// # Errors
    ///
    /// What no signature changes.
    pub async fn admits_kept(
        &self,
        contents: &[Digest],
        signatures: Option<Vec<u8>>,
    ) -> Result<Kept, Error> {
        let signatures = signatures.map(|bytes| {
            kept::read(&bytes).unwrap_or_else(|| {
                tracing::warn!("kept signatures are damaged, so they are fetched again");
                Vec::new()
            })
        });
        let signatures = signatures.unwrap_or_default();
        match self.judge(contents, &signatures).await? {
            Ok(_) => Ok(Kept::Holds),
            Err(refusal) if refusal.may_be_helped() => Ok(Kept::Ask(signatures)),
            Err(refusal) => Err(refusal.into()),
        }
    }

    /// Asks one source after the other for signatures, until one has all that the image needs.
    /// Gives what is to be kept beside it, if there is something; `before` was. `early` are
    /// signatures of the first of the contents that are there already.
    ///
    /// # Errors
    ///
    /// The refusal; or what each source had to say.
    pub async fn admit(
        &self,
        contents: &[Digest],
        before: &[Placed],
        early: Option<Early>,
        sources: &Sources,
    ) -> Result<Option<Vec<u8>>, Error> {
        let early = early.unwrap_or_default();
        match self.judge(contents, &early.signatures).await? {
            Ok(held) if held.is_empty() => return Ok(None),
            Ok(held) => return Ok(Some(to_keep(&held, before))),
            Err(refusal) if !refusal.may_be_helped() => return Err(refusal.into()),
            Err(_) => {}
        }
        let asked = sources.first(async |registry| {
            let Fetched { signatures, left_out, failed } = early.of(registry, contents).await;
            let (signatures, more) = bounded(&signatures, OF_SOURCE);
            match (self.judge(contents, &signatures).await?, failed) {
                (Ok(held), _) => Ok(held),
                (Err(refusal), Some(error)) if refusal.may_be_helped() => {
                    Err(Error::Signatures(error))
                }
                (Err(refusal), _) => {
                    Err(refusal.with_left_out(signatures.len(), left_out + more).into())
                }
            }
        });
        let held = asked.await.map_err(Error::of_policy)?;
        Ok(Some(to_keep(&held, before)))
    }

    /// Asks the source whose turn it is for the signatures of one content, once, while something
    /// else is on its way; nothing if it has none or fails, which is no verdict.
    pub async fn ask_early(&self, content: &Digest, sources: &Sources) -> Option<Early> {
        let source = sources.next()?;
        let found = source.signatures(content).await.ok()?;
        let place = |signature| (content.clone(), signature);
        Some(Early {
            source: Some(source.clone()),
            signatures: found.kept.into_iter().map(place).collect(),
            left_out: found.left_out,
        })
    }

    /// The signatures that are enough, or the refusal.
    async fn judge(
        &self,
        contents: &[Digest],
        found: &[Placed],
    ) -> Result<Result<Vec<Placed>, Refusal>, Error> {
        let Some(rules) = &self.rules else {
            return Ok(Ok(Vec::new()));
        };
        let (contents, found): (Arc<[_]>, Arc<[_]>) = (contents.into(), found.into());
        let mut keys = self.keys.lock().await;
        self.get(rules.key_paths(&self.name), &mut keys).await?;
        loop {
            let (rules, keys_of_now, name) = (rules.clone(), keys.clone(), self.name.clone());
            let (contents, found) = (contents.clone(), found.clone());
            let verdict = blocking(move || Ok(rules.judge(&name, &contents, &found, &keys_of_now)));
            match verdict.await? {
                Verdict::Holds(held) => return Ok(Ok(held)),
                Verdict::Refused(refusal) => return Ok(Err(refusal)),
                // Each time at least one that was not asked for yet.
                Verdict::Wants(paths) => self.get(paths, &mut keys).await?,
            }
        }
    }

    /// Gets the keys that are not there yet.
    async fn get(
        &self,
        paths: impl IntoIterator<Item = String>,
        keys: &mut Arc<Keys>,
    ) -> Result<(), Error> {
        let Some(rules) = &self.rules else {
            return Ok(());
        };
        for path in paths {
            if !keys.contains_key(&path) {
                let key = rules.key(&path, self.settings, self.secrets).await?;
                Arc::make_mut(keys).insert(path, key);
            }
        }
        Ok(())
    }
}

impl Early {
    /// What a source has for all contents; what it said early is not asked for again.
    async fn of(&self, registry: &Arc<Registry>, contents: &[Digest]) -> Fetched {
        let source = self.source.as_ref();
        if !source.is_some_and(|source| Arc::ptr_eq(source, registry)) {
            return fetch(registry, contents).await;
        }
        let rest = contents.get(1..).unwrap_or_default();
        let fetched = fetch(registry, rest).await;
        Fetched {
            signatures: [&self.signatures[..], &fetched.signatures].concat(),
            left_out: self.left_out + fetched.left_out,
            ..fetched
        }
    }
}

/// What one source has for all contents.
async fn fetch(registry: &Registry, contents: &[Digest]) -> Fetched {
    let asked = contents.iter().map(|digest| registry.signatures(digest));
    let mut fetched = Fetched { signatures: Vec::new(), left_out: 0, failed: None };
    for (digest, answer) in contents.iter().zip(join_all(asked).await) {
        match answer {
            Ok(found) => {
                let placed = found.kept.into_iter().map(|one| (digest.clone(), one));
                fetched.signatures.extend(placed);
                fetched.left_out += found.left_out;
            }
            Err(error) => fetched.failed = fetched.failed.or(Some(error)),
        }
    }
    fetched
}

//! What one pull asks of the image policy.
//!
//! [`Gate::check`] before a registry is asked, [`Gate::admit`] for what the image's digest has led
//! to, before a layer is fetched and before a key is unwrapped.

use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::join_all;
use image_policy::conditions::TagRefused;
use image_policy::kept::{self, Placed};
use image_policy::places::Listed;
use image_policy::{Name, Refusal, Signature};
use oci_image::digest::Digest;
use pull_route::Settings;
use registry_client::registry::Registry;

use super::PolicyPlace;
use super::evidence::{of_source, to_keep};
use super::rules::{Keys, Rules};
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
    /// Asked for once: a broker that goes away during the pull does not end it.
    keys: Mutex<Arc<Keys>>,
}

/// What a source has for a content, asked for before it was known whether it is needed.
#[derive(Debug)]
pub struct Early {
    source: Arc<Registry>,
    content: Digest,
    found: Listed<Signature>,
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
        let rules = rules.map(Arc::new);
        Ok(Self { rules, name, settings, secrets, keys: Mutex::default() })
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
        let Some(rules) = &self.rules else {
            return;
        };
        let ruling = rules.ruling(&self.name);
        if let Some(scope) = ruling.accepts_anything() {
            let image = ruling.image();
            tracing::warn!("{scope} of the image policy decides for {image}, and accepts anything");
        }
    }

    /// Whether signatures are needed and could help, before somebody is asked for them; `digest` is
    /// that of the name, if it has one.
    ///
    /// # Errors
    ///
    /// What no signature changes: the refusal, and keys that cannot be had.
    pub async fn check(&self, digest: Option<&Digest>) -> Result<bool, Error> {
        let Some(rules) = &self.rules else {
            return Ok(false);
        };
        let contents: Vec<_> = digest.cloned().into_iter().collect();
        let keys = self.keys(rules, &contents).await?;
        match self.judge(rules, &contents, Vec::new(), &keys).await? {
            Err(refusal) if !refusal.may_be_helped() => Err(refusal.into()),
            judged => Ok(judged.is_err()),
        }
    }

    /// Lets an image run by the signatures that were kept beside it, in the form of [`kept`], or by
    /// those that came `early`, of the first of the contents; else by those of one source after the
    /// other, each source's alone. All are verified anew, by the policy and the keys of now. Gives
    /// what is to be kept, if that is something new. `sources` is not waited for without need.
    ///
    /// # Errors
    ///
    /// The refusal; or what each source had to say.
    pub async fn admit<'s>(
        &self,
        contents: &[Digest],
        kept: Option<Vec<u8>>,
        early: Option<Early>,
        sources: impl Future<Output = Result<&'s Sources, Error>>,
    ) -> Result<Option<Vec<u8>>, Error> {
        let Some(rules) = &self.rules else {
            return Ok(None);
        };
        let keys = self.keys(rules, contents).await?;
        let kept = kept.map_or_else(Vec::new, read_kept);
        // One source's alone, too.
        let at_hand = match &early {
            Some(one) => placed(&one.content, one.found.kept.clone()).collect(),
            None => kept.clone(),
        };
        match self.judge(rules, contents, at_hand, &keys).await? {
            Ok(held) if held.iter().all(|one| kept.contains(one)) => return Ok(None),
            Ok(held) => return Ok(Some(to_keep(&held, &kept))),
            Err(refusal) if !refusal.may_be_helped() => return Err(refusal.into()),
            Err(_) => {}
        }
        let asked = sources.await?.first(async |source| {
            let fetched = fetch(source, contents, early.as_ref()).await;
            let (signatures, more) = of_source(&fetched.signatures);
            let (looked_at, left_out) = (signatures.len(), fetched.left_out + more);
            let judged = self.judge(rules, contents, signatures, &keys).await?;
            judged.map_err(|refusal| match fetched.failed {
                Some(error) if refusal.may_be_helped() => Error::Signatures(error),
                _ => refusal.with_left_out(looked_at, left_out).into(),
            })
        });
        let held = asked.await.map_err(Error::of_policy)?;
        Ok(Some(to_keep(&held, &kept)))
    }

    /// Asks the source whose turn it is for the signatures of one content, once, while something
    /// else is on its way; nothing if it has none or fails, which is no verdict.
    pub async fn ask_early(&self, content: &Digest, sources: &Sources) -> Option<Early> {
        let source = sources.next()?.clone();
        let found = source.signatures(content).await.ok()?;
        Some(Early { source, content: content.clone(), found })
    }

    async fn keys(&self, rules: &Rules, contents: &[Digest]) -> Result<Arc<Keys>, Error> {
        let kept = || self.keys.lock().unwrap_or_else(PoisonError::into_inner);
        let known = Keys::clone(&kept());
        let keys = rules.keys(&self.name, contents, self.settings, self.secrets, known);
        let keys = Arc::new(keys.await?);
        kept().clone_from(&keys);
        Ok(keys)
    }

    /// The signatures that are enough, or the refusal.
    async fn judge(
        &self,
        rules: &Arc<Rules>,
        contents: &[Digest],
        found: Vec<Placed>,
        keys: &Arc<Keys>,
    ) -> Result<Result<Vec<Placed>, Refusal>, Error> {
        let (rules, name, keys) = (rules.clone(), self.name.clone(), keys.clone());
        let contents = contents.to_vec();
        blocking(move || Ok(rules.judge(&name, &contents, &found, &keys))).await
    }
}

/// What the store has kept.
fn read_kept(bytes: Vec<u8>) -> Vec<Placed> {
    kept::read(&bytes).unwrap_or_else(|| {
        tracing::warn!("kept signatures are damaged, so they are fetched again");
        Vec::new()
    })
}

/// What one source has for all contents; what it said early is not asked for again.
async fn fetch(source: &Arc<Registry>, contents: &[Digest], early: Option<&Early>) -> Fetched {
    let asked = contents.iter().map(async |digest| match early {
        Some(early) if early.content == *digest && Arc::ptr_eq(&early.source, source) => {
            Ok(early.found.clone())
        }
        _ => source.signatures(digest).await,
    });
    let mut fetched = Fetched { signatures: Vec::new(), left_out: 0, failed: None };
    for (digest, answer) in contents.iter().zip(join_all(asked).await) {
        match answer {
            Ok(found) => {
                fetched.signatures.extend(placed(digest, found.kept));
                fetched.left_out += found.left_out;
            }
            Err(error) => fetched.failed = fetched.failed.or(Some(error)),
        }
    }
    fetched
}

fn placed(content: &Digest, found: Vec<Signature>) -> impl Iterator<Item = Placed> {
    found.into_iter().map(|signature| (content.clone(), signature))
}

//! What the measured document asks for beside the policy: which tags may be resolved, which
//! content does not run.

use std::collections::BTreeSet;

use oci_image::digest::Digest;
use oci_image::named::NamedReference;
use registry_config::PolicyPart;

use crate::policy::Policy;
use crate::ruling::{Clause, DEFAULT_TAG, Quantity};
use crate::scope;

/// `allow-tags` and `refuse` of `[image-policy]`. The default asks for nothing and allows no tag.
#[derive(Clone, Debug, Default)]
pub struct Conditions {
    /// Scopes by their one spelling.
    tags: BTreeSet<String>,
    refused: BTreeSet<Digest>,
}

/// What is wrong with one item of a list, and what to write; no value.
pub type Fault = (PolicyPart, String);

/// Why a tag is not resolved.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the tag of {image} is not resolved: {why}")]
pub struct TagRefused {
    /// In its one spelling.
    image: String,
    why: String,
}

impl Conditions {
    /// Gives the conditions their meaning.
    ///
    /// `allow_tags` are scopes as those of a policy, `refuse` are digests.
    ///
    /// # Errors
    ///
    /// Each item that has no meaning.
    pub fn parse(allow_tags: &[String], refuse: &[String]) -> Result<Self, Vec<Fault>> {
        let mut faults = Vec::new();
        let tags = read_list(allow_tags, PolicyPart::AllowTag, read_scope, &mut faults);
        let refused = read_list(refuse, PolicyPart::Refuse, read_digest, &mut faults);
        if !faults.is_empty() {
            return Err(faults);
        }
        Ok(Self { tags, refused })
    }

    /// Whether `allow-tags` has a scope for an image: its exact name, or one above it.
    ///
    /// Only half of the answer, [`Policy::may_resolve_tag`] has all of it.
    pub fn permits_tag(&self, reference: &NamedReference) -> bool {
        let tag = reference.tag().unwrap_or(DEFAULT_TAG);
        let exact = format!("{}:{tag}", reference.name());
        self.tags.contains(&exact)
            || scope::above(reference).iter().any(|spelling| self.tags.contains(spelling))
    }

    /// Whether content with this digest does not run, be it a manifest or an index.
    pub fn refuses(&self, digest: &Digest) -> bool {
        self.refused.contains(digest)
    }
}

impl Policy {
    /// Whether the tag of an image may be resolved. What it is resolved to still has to pass
    /// [`judge`](crate::ruling::Ruling::judge), by the ruling of the name with its tag and that
    /// digest. A name with a digest needs no leave.
    ///
    /// The one place that says so, for the guest that pulls and for the host that explains.
    ///
    /// # Errors
    ///
    /// The scope that decides demands no signature, or `allow-tags` has no scope for the image.
    pub fn may_resolve_tag(
        &self,
        reference: &NamedReference,
        conditions: &Conditions,
    ) -> Result<(), TagRefused> {
        if reference.digest().is_some() {
            return Ok(());
        }
        let ruling = self.ruling(reference);
        let refuse = |why| Err(TagRefused { image: ruling.image().to_owned(), why });
        let is_signed = |clause: &&Clause<'_>| clause.demands_signature();
        let signed = ruling.clauses().iter().find(is_signed);
        let unsigned = ruling.clauses().iter().find(|clause| !is_signed(clause));
        let failing = match ruling.quantity() {
            Quantity::Each => unsigned,
            Quantity::One => unsigned.filter(|_| signed.is_none()),
        };
        if let Some(scope) = failing {
            let requirements: Vec<_> =
                scope.requirements().iter().map(ToString::to_string).collect();
            return refuse(format!(
                "{scope} asks for {}, and only a signature says which content a tag may have; \
                write the scope of the digest, and name it, pin the tag in [pins], or ask for \
                sigstoreSigned there",
                requirements.join(", and for ")
            ));
        }
        if conditions.permits_tag(reference) {
            return Ok(());
        }
        let scope = signed.map_or_else(|| "the policy".to_owned(), ToString::to_string);
        refuse(format!(
            "{scope} asks for a signature, but allow-tags of [image-policy] has no scope for this \
            image; add one, name the image by its digest, or pin the tag in [pins]"
        ))
    }
}

fn read_list<T: Ord>(
    items: &[String],
    part: fn(usize) -> PolicyPart,
    read: fn(&str) -> Result<T, String>,
    faults: &mut Vec<Fault>,
) -> BTreeSet<T> {
    let mut values = BTreeSet::new();
    for (index, item) in items.iter().enumerate() {
        match read(item) {
            Ok(value) => _ = values.insert(value),
            Err(words) => faults.push((part(index), words)),
        }
    }
    values
}

fn read_scope(text: &str) -> Result<String, String> {
    if text.contains('@') {
        return Err("names a digest, and allow-tags is for tags; write a scope without it".into());
    }
    scope::read(text).map(|scope| scope.spelling)
}

fn read_digest(text: &str) -> Result<Digest, String> {
    Digest::parse(text).map_err(|error| error.to_string())
}

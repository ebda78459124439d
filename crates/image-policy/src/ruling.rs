//! Which scope of a policy decides for an image, and the verdict.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use oci_image::digest::Digest;
use oci_image::named::NamedReference;

use crate::conditions::Conditions;
use crate::identity::ImageName;
use crate::kept::Placed;
use crate::policy::{Policy, Requirement};
use crate::refusal::{Reason, Refusal, in_words};
use crate::scope;
use crate::signature::Prepared;
use crate::verifications::Verifications;

mod clause;

use clause::Case;
pub use clause::Clause;

/// The tag of a name that has neither tag nor digest.
pub(crate) const DEFAULT_TAG: &str = "latest";

/// Gives the bytes of a key by its path or URI, or words for why it has none.
pub type KeySource<'a> = dyn Fn(&str) -> Result<Vec<u8>, String> + 'a;

/// What a policy asks of one image, and by which of its scopes. All its judgements, and those of
/// other rulings that are given the same [`Verifications`], are together bounded by them.
#[derive(Debug)]
pub struct Ruling<'p> {
    policy: &'p Policy,
    asked: ImageName,
    image: String,
    digest: Option<Digest>,
    quantity: Quantity,
    clauses: Vec<Clause<'p>>,
    left: Arc<Verifications>,
}

/// How many of the clauses must hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quantity {
    /// Each: the one scope that is for the image, or those of its tag and its digest.
    Each,
    /// One: the host may have dropped or changed the tag, and the scopes of tags that demand a
    /// signature decide.
    One,
}

impl Policy {
    /// Which scope decides for an image.
    ///
    /// The order is that of containers/image: the exact name, the repository, each namespace above
    /// it, the host, wildcards, every image, the default. But a host may have dropped the tag, or
    /// written another: see [`Quantity::One`] and `docs/image-policy.md`.
    pub fn ruling(&self, reference: &NamedReference) -> Ruling<'_> {
        self.rule(reference, reference.digest().is_some())
    }

    /// The same for a name whose tag was resolved by whoever asks: its digest is what the tag
    /// stands for, so that the tag's scope speaks for it, whatever it asks for.
    ///
    /// Only for a tag that [`Policy::may_resolve_tag`] or a person at a terminal lets resolve, or
    /// that the owner pins to this digest.
    pub fn ruling_of_resolved(&self, reference: &NamedReference) -> Ruling<'_> {
        self.rule(reference, false)
    }

    fn rule(&self, reference: &NamedReference, is_hosts_digest: bool) -> Ruling<'_> {
        let mut asked = ImageName::of(reference);
        if asked.tag.is_none() && asked.digest.is_none() {
            asked.tag = Some(DEFAULT_TAG.to_owned());
        }
        let (quantity, clauses) = self.clauses(reference, &asked, is_hosts_digest);
        Ruling {
            policy: self,
            asked,
            image: reference.to_string(),
            digest: reference.digest().cloned(),
            quantity,
            clauses,
            left: Arc::default(),
        }
    }

    fn clauses(
        &self,
        reference: &NamedReference,
        asked: &ImageName,
        is_hosts_digest: bool,
    ) -> (Quantity, Vec<Clause<'_>>) {
        let entry = |spelling: &str| {
            let entry = self.scopes.get(spelling)?;
            Some(Clause::of(entry, asked.clone()))
        };
        let name = &asked.name;
        let by_tag = asked.tag.as_ref();
        let by_tag = by_tag.and_then(|tag| entry(&format!("{name}:{tag}")));
        // The host may write any tag before a digest: one that asks for nothing speaks for none.
        let by_tag = by_tag.filter(|clause| !is_hosts_digest || clause.demands());
        let by_digest = asked.digest.as_ref();
        let by_digest = by_digest.and_then(|digest| entry(&format!("{name}@{digest}")));
        // A tag leads past nothing that is said of the very content, either.
        let exact: Vec<_> = by_tag.into_iter().chain(by_digest).collect();
        if !exact.is_empty() {
            return (Quantity::Each, exact);
        }
        if let Some(stripped) = self.demanding(asked).or_else(|| self.rejecting(asked)) {
            return stripped;
        }
        let above = scope::above(reference);
        let clause = above.iter().find_map(|spelling| entry(spelling));
        let clause = clause.unwrap_or_else(|| Clause {
            scope: None,
            is_stripped: false,
            requirements: &self.default,
            asked: asked.clone(),
        });
        (Quantity::Each, vec![clause])
    }

    /// What decides for an image whose name has no scope of its own that demands something, in a
    /// repository that has scopes of tags: the image may be one of those, and the host may have
    /// dropped or changed its tag.
    ///
    /// One scope that demands a signature must hold, as if the name had its tag. A tag that accepts
    /// anything never speaks for a digest.
    fn demanding(&self, asked: &ImageName) -> Option<(Quantity, Vec<Clause<'_>>)> {
        let is_demanding = |clause: &Clause<'_>| clause.demands() && !clause.rejects();
        let demanding: Vec<_> = self.of_tags(asked).filter(is_demanding).collect();
        (!demanding.is_empty()).then_some((Quantity::One, demanding))
    }

    /// The same, where no tag demands a signature: a scope that rejects, rejects.
    fn rejecting(&self, asked: &ImageName) -> Option<(Quantity, Vec<Clause<'_>>)> {
        let rejecting = self.of_tags(asked).find(Clause::rejects)?;
        Some((Quantity::Each, vec![rejecting]))
    }

    /// The scopes of the tags of a repository, each with its tag as the one that is asked for.
    fn of_tags(&self, asked: &ImageName) -> impl Iterator<Item = Clause<'_>> {
        let prefix = format!("{}:", asked.name);
        let from = self.scopes.range(prefix.clone()..);
        from.map_while(move |(spelling, entry)| Some((spelling.strip_prefix(&prefix)?, entry))).map(
            |(tag, entry)| {
                let tag = Some(tag.to_owned());
                let asked = ImageName { tag, ..asked.clone() };
                Clause { is_stripped: true, ..Clause::of(entry, asked) }
            },
        )
    }
}

impl<'p> Ruling<'p> {
    /// The same, with as many verifications as are left there.
    #[must_use]
    pub fn within(self, left: Arc<Verifications>) -> Self {
        Self { left, ..self }
    }

    /// The image, in its one spelling.
    pub fn image(&self) -> &str {
        &self.image
    }

    /// How many of the clauses must hold.
    pub fn quantity(&self) -> Quantity {
        self.quantity
    }

    /// The requirements that decide.
    pub fn clauses(&self) -> &[Clause<'p>] {
        &self.clauses
    }

    /// The scope that decides, where it accepts anything that the host cares to name.
    pub fn accepts_anything(&self) -> Option<&Clause<'p>> {
        match self.clauses.as_slice() {
            [clause] if !clause.demands() && !clause.is_of_digest() => Some(clause),
            _ => None,
        }
    }

    /// Whether any signature could make a difference; if not, none has to be fetched.
    pub fn needs_signatures(&self) -> bool {
        let mut clauses = self.clauses.iter();
        clauses.any(|clause| !clause.rejects() && clause.has_signed())
    }

    /// The paths and URIs of the keys that [`Ruling::judge`] will ask for, about these contents.
    pub fn key_paths(&self, contents: &[Digest]) -> BTreeSet<&'p str> {
        let of_contents = self.of_contents(contents);
        let clauses = self.clauses.iter().chain(&of_contents);
        clauses.flat_map(Clause::key_paths).collect()
    }

    /// The signatures that are enough for the image to run, of what was found for its manifest and
    /// for each index that led to it: a signature of any of them fulfils a requirement, for an
    /// index binds what it lists by its digest.
    ///
    /// A name without digest says nothing of the content: who asks has resolved it, and found the
    /// signatures of what it was resolved to. Content that the conditions refuse is refused by any
    /// scope, and the host may have written the outer indexes: so `contents` has the manifest and
    /// every index that led to it, each hashed by whoever fetched it. What was found for anything
    /// else counts for nothing.
    ///
    /// # Errors
    ///
    /// [`Refusal`], of the first scope and requirement that do not hold.
    pub fn judge(
        &self,
        contents: &[Digest],
        found: &[Placed],
        keys: &KeySource<'_>,
        conditions: &Conditions,
    ) -> Result<Vec<Placed>, Refusal> {
        self.check_refused(contents, conditions)?;
        let is_named = |digest: &Digest| contents.contains(digest);
        if let Some(clause) = self.clauses.first()
            && self.needs_signatures()
            && !self.digest.as_ref().is_none_or(is_named)
        {
            return Err(self.refuse(clause, Reason::OtherContent));
        }
        let of_content = |digest| found.iter().filter(move |(of, _)| of == digest);
        let found: Vec<_> = contents.iter().flat_map(of_content).collect();
        let signatures: Vec<_> = found.iter().map(|placed| Prepared::read(placed)).collect();
        let case = Case { signatures: &signatures, keys, left: &self.left };
        let judge =
            |clause: &Clause<'_>| clause.judge(&case).map_err(|reason| self.refuse(clause, reason));
        let mut enough = BTreeSet::new();
        for clause in &self.of_contents(contents) {
            enough.extend(judge(clause)?);
        }
        match self.quantity {
            Quantity::Each => {
                for clause in &self.clauses {
                    enough.extend(judge(clause)?);
                }
            }
            Quantity::One => enough.extend(self.one(judge)?),
        }
        let found = found.into_iter().enumerate();
        let found = found.filter(|(at, _)| enough.contains(at));
        Ok(found.map(|(_, placed)| placed.clone()).collect())
    }

    /// What is enough for the first of the clauses that holds. The refusal is the first, but one
    /// that a signature changes comes before.
    fn one(
        &self,
        judge: impl Fn(&Clause<'_>) -> Result<Vec<usize>, Refusal>,
    ) -> Result<Vec<usize>, Refusal> {
        let mut first: Option<Refusal> = None;
        for clause in &self.clauses {
            match judge(clause) {
                Err(refusal) if *refusal.reason != Reason::TooManyVerifications => {
                    let is_worse =
                        |first: &Refusal| first.may_be_helped() || !refusal.may_be_helped();
                    first = first.filter(is_worse).or(Some(refusal));
                }
                last => return last,
            }
        }
        first.map_or_else(|| Ok(Vec::new()), Err)
    }

    /// Refuses contents that do not run, whatever a scope asks for.
    ///
    /// # Errors
    ///
    /// The refusal.
    pub fn check_refused(
        &self,
        contents: &[Digest],
        conditions: &Conditions,
    ) -> Result<(), Refusal> {
        let mut digests = self.digest.iter().chain(contents);
        let Some(digest) = digests.find(|digest| conditions.refuses(digest)) else {
            return Ok(());
        };
        Err(Refusal {
            image: self.image.clone(),
            scope: "refuse of [image-policy]".to_owned(),
            reason: Box::new(Reason::Listed(digest.clone())),
            seen: None,
        })
    }

    /// What the policy says of contents that the name does not name: the host writes the name, and
    /// an index of its own may lead to any manifest.
    fn of_contents(&self, contents: &[Digest]) -> Vec<Clause<'p>> {
        let others = contents.iter().filter(|digest| self.digest.as_ref() != Some(digest));
        let spellings = others.map(|digest| format!("{}@{digest}", self.asked.name));
        let entries = spellings.filter_map(|spelling| self.policy.scopes.get(&spelling));
        let clauses = entries.map(|entry| Clause::of(entry, self.asked.clone()));
        clauses.collect()
    }

    fn refuse(&self, clause: &Clause<'_>, reason: Reason) -> Refusal {
        let mut scope = clause.to_string();
        if clause.is_stripped {
            scope.push_str(
                ", which holds for a name of this repository that has no demand of its own,",
            );
        }
        Refusal { image: self.image.clone(), scope, reason: Box::new(reason), seen: None }
    }
}

/// A requirement in words, as `explain` prints it.
impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Accept => f.write_str("nothing (insecureAcceptAnything)"),
            Self::Reject => f.write_str("what no image has (reject)"),
            Self::Signed(signed) => f.write_str(&in_words(signed)),
            Self::Unsupported(what) => {
                write!(f, "what no image has here: {} {}", what.name(), what.reason())
            }
        }
    }
}

//! One scope of a policy as it decides for an image.

use std::fmt;

use foreign_text::shown;

use super::KeySource;
use crate::identity::Asked;
use crate::key::PublicKey;
use crate::policy::{Entry, KeyPlace, Requirement, Signed};
use crate::refusal::{Reason, Shortcoming, in_words};
use crate::signature::{Match, Prepared, Wanted};
use crate::verifications::Verifications;

/// How much of a scope a message shows, in characters.
const MAX_SCOPE_CHARS: usize = 300;

/// What is brought to a judgement.
pub(super) struct Case<'c> {
    pub(super) signatures: &'c [Prepared<'c>],
    pub(super) keys: &'c KeySource<'c>,
    pub(super) left: &'c Verifications,
}

/// The requirements of one scope, and the name that the image has for them.
#[derive(Clone, Debug)]
pub struct Clause<'p> {
    /// The scope as the policy writes it; none is the default.
    pub(super) scope: Option<&'p str>,
    /// Whether it is for another name, which the host may have changed.
    pub(super) is_stripped: bool,
    pub(super) requirements: &'p [Requirement],
    pub(super) asked: Asked,
}

impl<'p> Clause<'p> {
    pub(super) fn of(entry: &'p Entry, asked: Asked) -> Self {
        Self {
            scope: Some(&entry.written),
            is_stripped: false,
            requirements: &entry.requirements,
            asked,
        }
    }

    /// What the scope asks for; all of it must hold.
    pub fn requirements(&self) -> &'p [Requirement] {
        self.requirements
    }

    pub(super) fn rejects(&self) -> bool {
        self.requirements.contains(&Requirement::Reject)
    }

    pub(super) fn demands(&self) -> bool {
        let accepts = |one: &Requirement| *one == Requirement::Accept;
        !self.requirements.iter().all(accepts)
    }

    pub(super) fn is_of_digest(&self) -> bool {
        self.scope.is_some_and(|scope| scope.contains('@'))
    }

    /// Whether a signature is among what is asked for, and nothing that no image has.
    pub(crate) fn demands_signature(&self) -> bool {
        let is_signed = |one: &Requirement| matches!(one, Requirement::Signed(_));
        let may_hold = |one: &Requirement| is_signed(one) || *one == Requirement::Accept;
        self.requirements.iter().any(is_signed) && self.requirements.iter().all(may_hold)
    }

    /// Which of the signatures are enough, one for each requirement that asks for one.
    pub(super) fn judge(&self, case: &Case<'_>) -> Result<Vec<usize>, Reason> {
        let mut enough = Vec::new();
        for requirement in self.requirements {
            match requirement {
                Requirement::Accept => {}
                Requirement::Reject => return Err(Reason::Rejected),
                Requirement::Unsupported(what) => return Err(Reason::Unsupported(*what)),
                Requirement::Signed(signed) => enough.push(self.judge_signed(signed, case)?),
            }
        }
        Ok(enough)
    }

    fn judge_signed(&self, signed: &Signed, case: &Case<'_>) -> Result<usize, Reason> {
        let keys: Result<Vec<_>, _> = signed.keys.iter().map(|key| read(key, case.keys)).collect();
        let keys = keys?;
        let wanted = Wanted { keys: &keys, identity: &signed.identity, asked: &self.asked };
        let mut best = None;
        for (at, signature) in case.signatures.iter().enumerate() {
            match signature.compare(&wanted, case.left) {
                None => return Err(Reason::TooManyVerifications),
                Some(Match::Fulfilled) => return Ok(at),
                other => best = best.max(other),
            }
        }
        Err(Reason::Signature(in_words(signed), Shortcoming::of(best)))
    }
}

/// The requirements that a signature may fulfil.
pub(super) fn signed_in<'c, 'p: 'c>(
    clauses: impl IntoIterator<Item = &'c Clause<'p>>,
) -> impl Iterator<Item = &'p Signed> {
    let clauses = clauses.into_iter().filter(|clause| !clause.rejects());
    let requirements = clauses.flat_map(|clause| clause.requirements);
    requirements.filter_map(|requirement| match requirement {
        Requirement::Signed(signed) => Some(signed),
        _ => None,
    })
}

/// Reads a key; one that cannot be read refuses the image, whatever others there are.
fn read(key: &KeyPlace, source: &KeySource<'_>) -> Result<PublicKey, Reason> {
    let refuse = |why: String| Reason::Key(key.to_string(), why);
    let parsed = match key {
        KeyPlace::Inline(bytes) => PublicKey::parse(bytes),
        KeyPlace::Path(path) => PublicKey::parse(&source(path).map_err(refuse)?),
    };
    parsed.map_err(|why| refuse(why.to_string()))
}

/// The scope in words.
impl fmt::Display for Clause<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.scope {
            None => f.write_str("the default"),
            Some("") => f.write_str("scope \"\" (every image)"),
            Some(scope) => write!(f, "scope {}", shown(scope).up_to(MAX_SCOPE_CHARS).quoted()),
        }
    }
}

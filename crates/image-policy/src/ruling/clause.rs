//! One scope of a policy as it decides for an image.

use std::fmt;

use foreign_text::shown;

use super::KeySource;
use crate::identity::ImageName;
use crate::key::PublicKey;
use crate::policy::{Entry, KeyPlace, Requirement, Signed};
use crate::refusal::{Reason, Shortcoming, in_words};
use crate::signature::Prepared;
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
    pub(super) asked: ImageName,
}

impl<'p> Clause<'p> {
    pub(super) fn of(entry: &'p Entry, asked: ImageName) -> Self {
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

    pub(super) fn has_signed(&self) -> bool {
        self.requirements.iter().any(|one| matches!(one, Requirement::Signed(_)))
    }

    /// Whether a signature is among what is asked for, and nothing that no image has.
    pub(crate) fn demands_signature(&self) -> bool {
        self.has_signed() && self.requirements.iter().all(may_hold)
    }

    /// The keys by a path or a URI, up to what no image has, where the judgement ends.
    pub(super) fn key_paths(&self) -> impl Iterator<Item = &'p str> + use<'p> {
        let requirements = self.requirements.iter().take_while(|one| may_hold(one));
        let keys = requirements.flat_map(Requirement::keys);
        keys.filter_map(|key| match key {
            KeyPlace::Path(path) => Some(path.as_str()),
            KeyPlace::Inline(_) => None,
        })
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
        let mut best = Shortcoming::None;
        for (at, signature) in case.signatures.iter().enumerate() {
            match signature.lacks(&keys, &signed.identity, &self.asked, case.left)? {
                None => return Ok(at),
                Some(shortcoming) => best = best.max(shortcoming),
            }
        }
        Err(Reason::Signature(in_words(signed), best))
    }
}

/// Whether some image may have it.
fn may_hold(requirement: &Requirement) -> bool {
    matches!(requirement, Requirement::Signed(_) | Requirement::Accept)
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

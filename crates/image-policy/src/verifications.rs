//! How many signatures are held against keys while one image is pulled.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::places::MAX_SIGNATURES;
use crate::policy::MAX_POLICY_KEYS;
use crate::refusal::Reason;

/// The most verifications of one pull: as many as one place has signatures at most, for each key
/// that a policy has at most; a signature that comes early may be verified twice. To verify is what
/// costs time, a tenth of a millisecond and more, and whoever serves the image says how many
/// signatures there are.
pub const MAX_VERIFICATIONS: usize = MAX_SIGNATURES * MAX_POLICY_KEYS;

/// The verifications that are left of one pull, for all rulings that are given them.
#[derive(Debug)]
pub struct Verifications(AtomicUsize);

impl Default for Verifications {
    fn default() -> Self {
        Self(AtomicUsize::new(MAX_VERIFICATIONS))
    }
}

impl Verifications {
    /// Takes one.
    ///
    /// # Errors
    ///
    /// They are used up.
    pub(crate) fn take(&self) -> Result<(), Reason> {
        let less = |left: usize| left.checked_sub(1);
        let taken = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        taken.map(drop).map_err(|_| Reason::TooManyVerifications)
    }
}

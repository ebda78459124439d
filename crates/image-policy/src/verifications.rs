//! How many signatures are held against keys while one image is pulled.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::key::PublicKey;
use crate::places::MAX_SIGNATURES;
use crate::policy::MAX_POLICY_KEYS;

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
    /// Whether one of the keys made a signature; nothing where the verifications are used up.
    pub(crate) fn is_by_one_of(
        &self,
        keys: &[PublicKey],
        verifies: impl Fn(&PublicKey) -> bool,
    ) -> Option<bool> {
        for key in keys {
            let less = |left: usize| left.checked_sub(1);
            self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).ok()?;
            if verifies(key) {
                return Some(true);
            }
        }
        Some(false)
    }
}

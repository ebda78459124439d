//! How many operations with private keys a pull may cost.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

/// The operations with private keys that are left; clones share the number.
///
/// The author of an image chooses the number of recipients, and each of them costs an operation
/// with every key that fits: milliseconds with RSA. Limits for one layer do not bound an image, so
/// the caller gives one number for the whole image, and can take back what is left while another
/// thread works.
#[derive(Clone, Debug)]
pub struct Effort(Arc<AtomicU32>);

impl Effort {
    /// That many operations.
    pub fn new(operations: u32) -> Self {
        Self(Arc::new(AtomicU32::new(operations)))
    }

    /// Takes back what is left. An operation that was begun is not interrupted.
    pub fn end(&self) {
        self.0.store(0, Ordering::Relaxed);
    }

    /// Takes one operation, and says whether there was one.
    pub fn spend(&self) -> bool {
        let less_one = |left: u32| left.checked_sub(1);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less_one).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_done_than_was_given() {
        let effort = Effort::new(2);
        let shared = effort.clone();
        assert!(effort.spend() && shared.spend());
        assert!(!effort.spend() && !shared.spend());

        let ended = Effort::new(u32::MAX);
        ended.clone().end();
        assert!(!ended.spend());
    }

    #[test]
    fn threads_share_what_there_is() {
        let effort = Effort::new(1000);
        let spend_all = || (0..1000).filter(|_| effort.spend()).count();
        let spent: usize = std::thread::scope(|scope| {
            let threads = [(); 4].map(|()| scope.spawn(spend_all));
            threads.map(|thread| thread.join().unwrap()).iter().sum()
        });
        assert_eq!(spent, 1000);
    }
}

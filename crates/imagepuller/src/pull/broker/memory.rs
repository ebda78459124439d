//! What references of an image policy gave, for the pulls of this boot: a cached image starts again
//! where the broker is gone.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use kbs_client::Origin;
use puller_config::ResourceUri;
use zeroize::Zeroizing;

/// How many texts are kept: a policy, and more keys than one names.
const MAX_TEXTS: usize = 64;

/// The most bytes of all of them; a policy has at most a MiB.
const MAX_BYTES: usize = 4 << 20;

/// A policy or a key.
pub type Text = Arc<Zeroizing<Vec<u8>>>;

/// What the same sources gave.
#[derive(Default)]
pub struct Memory(Mutex<VecDeque<Kept>>);

struct Kept {
    name: ResourceUri,
    /// The source that the pull kept to which fetched it; none if it had asked none but those that
    /// the owner names for one reference.
    origin: Option<Origin>,
    text: Text,
}

impl Memory {
    /// What a reference gave, and which source a pull must keep to that uses it.
    pub fn find(&self, reference: &ResourceUri) -> Option<(Option<Origin>, Text)> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = all.iter().find(|kept| kept.name == *reference)?;
        Some((kept.origin, kept.text.clone()))
    }

    /// Keeps it, in the place of the oldest ones if there are too many.
    pub fn keep(&self, reference: &ResourceUri, origin: Option<Origin>, text: Text) {
        let name = reference.clone();
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|kept| kept.name != name);
        all.push_back(Kept { name, origin, text });
        let bytes = |all: &VecDeque<Kept>| all.iter().map(|kept| kept.text.len()).sum::<usize>();
        while all.len() > MAX_TEXTS || bytes(&all) > MAX_BYTES {
            all.pop_front();
        }
    }
}

/// No name and no text.
impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        write!(f, "Memory({} texts)", all.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_are_forgotten() {
        let memory = Memory::default();
        let name = |number: usize| {
            let text = format!("kbs:///default/key/{number}");
            ResourceUri::parse(&text).unwrap()
        };
        let text = |bytes: usize| Arc::new(Zeroizing::new(vec![0; bytes]));
        for number in 0..=MAX_TEXTS {
            memory.keep(&name(number), None, text(10));
        }
        assert!(memory.find(&name(0)).is_none());
        assert!(memory.find(&name(1)).is_some());
        for number in 0..5 {
            memory.keep(&name(number), None, text(1 << 20));
        }
        assert!(memory.find(&name(0)).is_none());
        assert_eq!(memory.find(&name(4)).unwrap().1.len(), 1 << 20);
        // The same reference is there once.
        memory.keep(&name(4), None, text(1));
        assert_eq!(memory.find(&name(4)).unwrap().1.len(), 1);
    }
}

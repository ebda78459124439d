//! What references of an image policy gave, for the pulls of this boot: a cached image starts again
//! where the CDH is gone.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use registry_config::{ResourceSource, ResourceUri};
use zeroize::Zeroizing;

/// How many texts are kept: a policy, and more keys than one names.
const MAX_TEXTS: usize = 64;

/// The most bytes of all of them; a policy has at most a MiB.
const MAX_BYTES: usize = 4 << 20;

/// A policy or a key.
pub type Text = Arc<Zeroizing<Vec<u8>>>;

/// What each source gave.
#[derive(Default)]
pub struct Memory(Mutex<VecDeque<Kept>>);

struct Kept {
    source: Option<ResourceSource>,
    name: ResourceUri,
    text: Text,
}

impl Memory {
    /// What a reference gave at a source.
    pub fn find(&self, source: Option<&ResourceSource>, name: &ResourceUri) -> Option<Text> {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = all.iter().find(|kept| kept.is(source, name))?;
        Some(kept.text.clone())
    }

    /// Keeps it, in the place of the oldest ones if there are too many.
    pub fn keep(&self, source: Option<&ResourceSource>, name: &ResourceUri, text: Text) {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|kept| !kept.is(source, name));
        all.push_back(Kept { source: source.cloned(), name: name.clone(), text });
        let bytes = |all: &VecDeque<Kept>| all.iter().map(|kept| kept.text.len()).sum::<usize>();
        while all.len() > MAX_TEXTS || bytes(&all) > MAX_BYTES {
            all.pop_front();
        }
    }
}

impl Kept {
    fn is(&self, source: Option<&ResourceSource>, name: &ResourceUri) -> bool {
        self.source.as_ref() == source && self.name == *name
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
            memory.keep(None, &name(number), text(10));
        }
        assert!(memory.find(None, &name(0)).is_none());
        assert!(memory.find(None, &name(1)).is_some());
        for number in 0..5 {
            memory.keep(None, &name(number), text(1 << 20));
        }
        assert!(memory.find(None, &name(0)).is_none());
        assert_eq!(memory.find(None, &name(4)).unwrap().len(), 1 << 20);
        // What one source gave is not what another one would.
        let other = ResourceSource::parse("cdh=unix:/run/other.sock").unwrap();
        assert!(memory.find(Some(&other), &name(4)).is_none());
        // The same reference is there once.
        memory.keep(None, &name(4), text(1));
        assert_eq!(memory.find(None, &name(4)).unwrap().len(), 1);
    }
}

//! The owner's image policy: which signatures an image must carry before anything of it is used.
//!
//! The guest acts by `image-policy`, the crate of the rules; here is the I/O that they need.
//!
//! - `rules`: the policy of one pull, where its text and its keys are; `files`: those in the
//!   directory of the measured document.
//! - `gate`: what a pull asks of it, and in which order; `evidence`: signatures on their way.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use image_policy::Policy;
use image_policy::remark::Remark;
use registry_client::Documents;
use zeroize::Zeroizing;

mod evidence;
mod files;
mod gate;
mod rules;

pub use gate::Gate;

/// Where policies are, for all pulls of a program.
#[derive(Clone, Debug, Default)]
pub struct PolicyPlace {
    /// The directory of the measured document, which has the files that it names.
    pub directory: Option<PathBuf>,
    /// The file that somebody at a terminal gives in its place. Its keys are files beside it, or
    /// where their path says.
    pub given: Option<PathBuf>,
    /// What was logged of the last policy.
    remarked: Arc<Mutex<Vec<Remark>>>,
}

impl PolicyPlace {
    /// Where they are for who goes by these documents.
    pub fn of(documents: &Documents, given: Option<PathBuf>) -> Self {
        let measured = documents.measured.as_deref();
        let directory = measured.and_then(Path::parent).map(|directory| {
            // Of a plain file name, where the program runs.
            match directory.as_os_str().is_empty() {
                true => PathBuf::from("."),
                false => directory.to_owned(),
            }
        });
        Self { directory, given, remarked: Arc::default() }
    }

    /// Reads a file of the policy: one beside the measured document, or one that a person names,
    /// by a path or beside the policy. Blocks.
    fn read(&self, path: &str, limit: usize) -> Result<Zeroizing<Vec<u8>>, String> {
        match &self.given {
            Some(given) => files::beside(given, path, limit),
            None => files::measured(self.directory.as_deref(), path, limit),
        }
    }

    /// Logs what a policy says and probably does not mean, once for each policy.
    fn remark(&self, policy: &Policy) {
        let mut remarked = self.remarked.lock().unwrap_or_else(PoisonError::into_inner);
        if *remarked != policy.remarks() {
            for remark in policy.remarks() {
                tracing::warn!(%remark, "image policy");
            }
            *remarked = policy.remarks().to_vec();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_is_the_measured_documents() {
        let directory = |measured: Option<&str>| {
            let documents = Documents {
                measured: measured.map(PathBuf::from),
                ..Documents::of("/run/insecure-cfg/imagepuller.toml")
            };
            PolicyPlace::of(&documents, None).directory
        };
        for (measured, found) in [
            ("/run/measured-cfg/imagepuller.toml", "/run/measured-cfg"),
            ("measured.toml", "."),
            ("cfg/measured.toml", "cfg"),
        ] {
            assert_eq!(directory(Some(measured)).as_deref(), Some(Path::new(found)));
        }
        assert_eq!(directory(None), None);
    }
}

//! The policy of a guest whose initdata brings none: the image's own.
//!
//! Part of the guest image and as measured as this program. So there is a policy in
//! `/run/measured-cfg` after every run, and the agent can always be told to read it: an agent that
//! finds no file there ends, and takes the guest with it.

use config_image::MAX_DOCUMENT_BYTES;
use foreign_text::bounded::{ReadError, read_path};

use crate::journal::Journal;
use crate::paths::Paths;
use crate::settings::Settings;
use crate::{Error, deny};

/// Why the image's policy is not usable.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DefaultPolicyError {
    /// It cannot be read.
    #[error(transparent)]
    Read(#[from] ReadError),
    /// The agent ends on such a file.
    #[error("it is not UTF-8")]
    NotText,
}

/// What is put in place where initdata brings no policy.
#[derive(Debug)]
pub struct DefaultPolicy(Result<String, Error>);

impl DefaultPolicy {
    /// Reads the image's policy, at most as long as one in initdata. Before the sandbox, which has
    /// no room for it.
    #[must_use]
    pub fn load(paths: &Paths, settings: &Settings) -> Self {
        let path = &settings.default_policy;
        let below = path.strip_prefix("/").unwrap_or(path);
        let text = read_path(paths.root.join(below), MAX_DOCUMENT_BYTES)
            .map_err(DefaultPolicyError::from)
            .and_then(|bytes| {
                String::from_utf8(bytes.to_vec()).map_err(|_| DefaultPolicyError::NotText)
            });
        Self(text.map_err(|source| Error::DefaultPolicy(path.clone(), source)))
    }

    /// The policy; one that denies everything, with the reason, if the image has none to use.
    #[must_use]
    pub fn text(&self) -> String {
        match &self.0 {
            Ok(text) => text.clone(),
            Err(error) => deny::policy(&error.line()),
        }
    }

    /// Says which policy is in place.
    pub fn tell(&self, journal: &mut Journal<'_>) {
        match &self.0 {
            Ok(_) => journal.info("the image's default policy in place: initdata brings none"),
            Err(error) => journal.warn(format_args!(
                "deny-all policy in place, for agents that know policies: {}",
                error.line()
            )),
        }
    }
}

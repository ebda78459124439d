//! The packed image of one sandbox, whatever way it then takes to the hypervisor.

use std::path::{Path, PathBuf};

use config_image::Magic;
use puller_config::Document;
use zeroize::Zeroizing;

use crate::choice::Choice;
use crate::settings::Settings;
use crate::{Error, sandbox_spec};

/// A valid document, chosen for a sandbox.
#[derive(Debug)]
pub struct SandboxImage {
    choice: Choice,
}

impl SandboxImage {
    /// Chooses the document by the annotation in the spec of `bundle` and the node's settings, and requires that it is
    /// valid. `None` where the sandbox gets no disk.
    ///
    /// # Errors
    ///
    /// Every [`Error`] of the spec, the choice and the document.
    pub fn choose(settings: &Settings, bundle: &Path) -> Result<Option<Self>, Error> {
        let annotation = sandbox_spec::annotation(bundle)?;
        let Some(choice) = Choice::make(settings, annotation.as_deref())? else {
            return Ok(None);
        };
        Document::parse(&choice.text).map_err(|problems| Error::Document {
            path: choice.path.clone(),
            problems,
        })?;
        Ok(Some(Self { choice }))
    }

    /// The document's path.
    #[must_use]
    pub fn document(&self) -> PathBuf {
        self.choice.path.clone()
    }

    /// The document's text.
    #[must_use]
    pub fn text(&self) -> &[u8] {
        &self.choice.text
    }

    /// The image's bytes. The encoder's copy is zeroed when dropped; the compressor's own window is not.
    ///
    /// # Errors
    ///
    /// [`Error::Pack`].
    pub fn pack(&self) -> Result<Zeroizing<Vec<u8>>, Error> {
        config_image::encode(Magic::IMAGEPULLER, self.text()).map_err(Error::Pack)
    }
}

//! The packed image of one sandbox, whatever way it then takes to the hypervisor.

use std::path::{Path, PathBuf};

use config_image::Magic;
use credential_sources::Finding;
use puller_config::Document;
use zeroize::Zeroizing;

use crate::choice::{Choice, DocumentText};
use crate::providers::Contribution;
use crate::settings::{Settings, Sources};
use crate::{SandboxError, capacity, providers, sandbox_spec};

/// A valid document, chosen for a sandbox; nothing is added to it yet.
#[derive(Debug)]
pub struct Chosen {
    choice: Choice,
    chosen_by: ChosenBy,
}

/// Who chose the document of a sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChosenBy {
    /// The pod, by its annotation.
    Pod,
    /// The node's settings.
    Node,
    /// Nobody: it is empty but for what credential providers offer.
    Providers,
}

impl Chosen {
    /// Chooses the document by the annotation in the spec of `bundle` and the node's settings, and
    /// requires that it is valid. `None` where the sandbox gets no disk.
    ///
    /// Where nobody names a document but the settings name registries for credential providers, the
    /// document is what those offer.
    ///
    /// # Errors
    ///
    /// Every [`SandboxError`] of the spec, the choice and the document.
    pub fn make(settings: &Settings, bundle: &Path) -> Result<Option<Self>, SandboxError> {
        let annotation = sandbox_spec::annotation(bundle)?;
        let sources = settings.credential_providers.sources();
        let choice = Choice::make(settings, annotation.as_deref())?;
        let (choice, chosen_by) = match (choice, &annotation, sources) {
            (Some(choice), Some(_), _) => (choice, ChosenBy::Pod),
            (Some(choice), None, _) => (choice, ChosenBy::Node),
            (None, None, Some(Sources { config, .. })) => {
                (Choice::empty(config), ChosenBy::Providers)
            }
            (None, ..) => return Ok(None),
        };
        Document::parse(&choice.text).map_err(|problems| SandboxError::Document {
            path: choice.path.clone(),
            problems,
        })?;
        Ok(Some(Self { choice, chosen_by }))
    }

    /// The document's bytes.
    #[must_use]
    pub fn text(&self) -> &DocumentText {
        &self.choice.text
    }

    /// Whose choice it is.
    #[must_use]
    pub fn chosen_by(&self) -> ChosenBy {
        self.chosen_by
    }

    /// Puts what the node's credential providers offer below the document.
    #[must_use]
    pub fn provide(self, settings: &Settings) -> SandboxImage {
        let Choice { path, text } = self.choice;
        let (text, contribution) = if settings.credential_providers.sources().is_some() {
            providers::add(settings, text)
        } else {
            (text, Contribution::default())
        };
        SandboxImage {
            choice: Choice { path, text },
            warnings: contribution.warnings(),
            contribution,
        }
    }
}

/// The document of a sandbox, complete.
#[derive(Debug)]
pub struct SandboxImage {
    choice: Choice,
    contribution: Contribution,
    warnings: Vec<Finding>,
}

impl SandboxImage {
    /// [`Chosen::make`], then [`Chosen::provide`].
    ///
    /// # Errors
    ///
    /// Those of [`Chosen::make`].
    pub fn choose(settings: &Settings, bundle: &Path) -> Result<Option<Self>, SandboxError> {
        let chosen = Chosen::make(settings, bundle)?;
        Ok(chosen.map(|chosen| chosen.provide(settings)))
    }

    /// The document's path.
    #[must_use]
    pub fn document(&self) -> PathBuf {
        self.choice.path.clone()
    }

    /// The document's bytes.
    #[must_use]
    pub fn text(&self) -> &DocumentText {
        &self.choice.text
    }

    /// What credential providers did.
    #[must_use]
    pub fn contribution(&self) -> &Contribution {
        &self.contribution
    }

    /// What credential providers did not contribute, and why. Nobody waits for these before the
    /// sandbox starts.
    #[must_use]
    pub fn warnings(&self) -> &[Finding] {
        &self.warnings
    }

    /// The image's bytes, with the room that `settings` reserve. The encoder's copy is zeroed when
    /// dropped; the compressor's own window is not.
    ///
    /// # Errors
    ///
    /// [`SandboxError::Pack`].
    pub fn pack(&self, settings: &Settings) -> Result<Zeroizing<Vec<u8>>, SandboxError> {
        let image = config_image::encode(Magic::IMAGEPULLER, &self.choice.text)?;
        let size = capacity::size(settings.capacity, settings.transport, image.len());
        Ok(capacity::pad(image, size))
    }
}

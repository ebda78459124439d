//! The document of one sandbox, from the choice to the packed image, whatever way that then takes
//! to the hypervisor.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use config_image::Magic;
use credential_sources::Finding;
use registry_config::{Document, RegistryName};
use zeroize::Zeroizing;

use crate::choice::{ChoiceError, DocumentFile, DocumentText};
use crate::namespace::Namespace;
use crate::node_root::NodeRoot;
use crate::providers::{Contribution, Kept};
use crate::sandbox_spec::Pod;
use crate::settings::Settings;
use crate::shared_image::record::Record;
use crate::transport::Transport;
use crate::{SandboxError, capacity, choice, providers};

/// The document of a sandbox: chosen, valid, and parsed once.
#[derive(Debug)]
pub struct SandboxDocument {
    /// Its file on the node. Where neither pod nor settings name one: the configuration of the
    /// credential providers.
    pub path: PathBuf,
    /// Who chose it.
    pub chosen_by: ChosenBy,
    /// What its file says.
    pub file: DocumentText,
    /// Its bytes: those of the file, with what credential providers offer.
    pub text: DocumentText,
    /// What the bytes say.
    pub document: Document,
    /// The line of the file where the entry of each registry begins.
    pub lines: BTreeMap<RegistryName, usize>,
    /// The pod's namespace, where the choice depends on it.
    pub namespace: Option<Namespace>,
    /// The missing document of the pod's namespace, in whose place this one stands.
    pub instead_of: Option<PathBuf>,
    /// The document that the pod's namespace has until its own one is there.
    pub fallback: Option<PathBuf>,
    /// What credential providers did to it. Empty before [`SandboxDocument::provide`].
    pub contribution: Contribution,
}

/// Who chose the document of a sandbox.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChosenBy {
    /// The pod, by its annotation.
    Pod,
    /// The node's settings.
    Node,
    /// The node's settings, which name one for each namespace.
    Namespace,
    /// The node's settings, which name one for namespaces without their own.
    Fallback,
    /// Neither: the document is empty but for what credential providers offer.
    Providers,
}

impl ChosenBy {
    /// Who names the document of a sandbox of `pod`, before a file was looked at; `None` where it
    /// gets no disk.
    #[must_use]
    pub fn of(settings: &Settings, pod: &Pod) -> Option<Self> {
        match pod.document.as_deref() {
            _ if !settings.enabled => None,
            Some("") => None,
            Some(_) => Some(Self::Pod),
            None if settings.is_by_namespace() => Some(Self::Namespace),
            None if settings.document.is_some() => Some(Self::Node),
            None => {
                let is_wanted = settings.credential_providers.is_wanted();
                is_wanted.then_some(Self::Providers)
            }
        }
    }
}

/// As a phrase: who does what.
impl fmt::Display for ChosenBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Pod => "the annotation names a document",
            Self::Node => "the settings name a document",
            Self::Namespace | Self::Fallback => "the settings name a document by namespace",
            Self::Providers => "the settings ask credential providers",
        })
    }
}

impl SandboxDocument {
    /// [`SandboxDocument::choose`], then [`SandboxDocument::provide`].
    ///
    /// # Errors
    ///
    /// Those of [`SandboxDocument::choose`].
    pub fn complete(settings: &Settings, pod: &Pod) -> Result<Option<Self>, SandboxError> {
        let chosen = Self::choose(settings, pod)?;
        Ok(chosen.map(|chosen| chosen.provide(settings)))
    }

    /// Chooses the document by what is known of the `pod` and the node's settings, and requires
    /// that it is valid. `None` where the sandbox gets no disk.
    ///
    /// Where neither names a document, but the settings name registries for credential providers,
    /// the document is what those offer.
    ///
    /// # Errors
    ///
    /// Every [`SandboxError`] of the choice and the document.
    pub fn choose(settings: &Settings, pod: &Pod) -> Result<Option<Self>, SandboxError> {
        if ChosenBy::of(settings, pod).is_none() {
            return Ok(None);
        }
        let providers = &settings.credential_providers;
        let node = NodeRoot::open(None).map_err(ChoiceError::NodeFile)?;
        match choice::choose(&node, settings, pod)? {
            Some(file) => Self::parse(file).map(Some),
            // The pod's namespace may have no document, which is as if there were none at all.
            None if !providers.is_wanted() => Ok(None),
            None => {
                let sources = providers.sources(Path::new("/"));
                let listing = sources.map(|found| found.config).unwrap_or_default();
                Self::parse(DocumentFile::empty(&listing)).map(Some)
            }
        }
    }

    /// The document of the node's settings, for no pod in particular.
    ///
    /// # Errors
    ///
    /// Those of [`SandboxDocument::choose`].
    pub fn of_node(settings: &Settings) -> Result<Option<Self>, SandboxError> {
        Self::choose(settings, &Pod::default())
    }

    /// The document in `file`, which must be valid.
    ///
    /// # Errors
    ///
    /// [`SandboxError::Document`].
    pub fn parse(file: DocumentFile) -> Result<Self, SandboxError> {
        let checked = match Document::parse(&file.text) {
            Ok(checked) => checked,
            Err(problems) => {
                return Err(SandboxError::Document { path: file.path, problems });
            }
        };
        Ok(Self {
            path: file.path,
            chosen_by: file.chosen_by,
            file: file.text.clone(),
            text: file.text,
            document: checked.document,
            lines: checked.lines,
            namespace: file.namespace,
            instead_of: file.instead_of,
            fallback: file.fallback,
            contribution: Contribution::default(),
        })
    }

    /// Puts what the node's credential providers offer below the document. Nobody is asked where
    /// the document refuses every pull.
    #[must_use]
    pub fn provide(self, settings: &Settings) -> Self {
        self.provide_by(settings, Kept::Used)
    }

    /// [`SandboxDocument::provide`] for a sandbox of the wrapper, which waits for no plugin where
    /// the node agent asks them: then with the answers that are kept.
    #[must_use]
    pub fn provide_at_start(self, settings: &Settings) -> Self {
        let providers = &settings.credential_providers;
        // What is in a sealed image stays.
        let is_left = providers.is_wanted()
            && providers.leave_to_agent
            && settings.transport == Transport::File
            && providers::agent::is_promised(&settings.run_root, self.promised(settings));
        match is_left {
            true => self.provide_by(settings, Kept::Only),
            false => self.provide(settings),
        }
    }

    /// Calls the node agent where something was left to it, which needs image and record of the
    /// sandbox in their place. The answer is whether it has gone meanwhile.
    #[must_use]
    pub fn is_deserted(&self, settings: &Settings) -> bool {
        self.contribution.is_left_to_agent()
            && !providers::agent::call(&settings.run_root, self.promised(settings))
    }

    /// For which document the node agent promises to ask: for all namespaces at once.
    fn promised<'a>(&'a self, settings: &'a Settings) -> &'a Path {
        match (self.chosen_by, &settings.document) {
            (ChosenBy::Namespace | ChosenBy::Fallback, Some(pattern)) => pattern,
            _ => &self.path,
        }
    }

    /// [`SandboxDocument::provide`], with answers that are as good as `kept` says.
    #[must_use]
    pub fn provide_by(mut self, settings: &Settings, kept: Kept) -> Self {
        if self.document.node_error.is_some() {
            return self;
        }
        let own = (&self.text, &self.document);
        let (merged, contribution) = providers::add(settings, own, kept);
        if let Some((text, document)) = merged {
            self.text = text;
            self.document = document;
        }
        self.contribution = contribution;
        self
    }

    /// The document's file, if somebody named one.
    #[must_use]
    pub fn own_path(&self) -> Option<&Path> {
        (self.chosen_by != ChosenBy::Providers).then_some(&*self.path)
    }

    /// What the record beside the sandbox's image says, where a process holds it or nobody does.
    #[must_use]
    pub fn record(&self, settings: &Settings, held: bool) -> Record {
        let own = self.instead_of.as_ref().unwrap_or(&self.path);
        Record {
            document: self.own_path().and(Some(own.clone())),
            fallback: self.fallback.clone(),
            namespace: self.namespace.clone(),
            providers: settings.credential_providers.is_wanted(),
            held,
        }
    }

    /// What credential providers did not contribute, and why. The sandbox starts all the same.
    #[must_use]
    pub fn warnings(&self) -> Vec<Finding> {
        self.contribution.warnings()
    }

    /// The image's bytes, with the room that `settings` reserve. The encoder's copy is zeroed when
    /// dropped; the compressor's own window is not.
    ///
    /// # Errors
    ///
    /// [`SandboxError::Pack`].
    pub fn pack(&self, settings: &Settings) -> Result<Zeroizing<Vec<u8>>, SandboxError> {
        let image = config_image::encode(Magic::IMAGEPULLER, &self.text)?;
        let size = capacity::size(settings.capacity, settings.transport, image.len());
        Ok(capacity::pad(image, size))
    }
}

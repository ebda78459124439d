//! What the disks of living sandboxes should hold, and how one is brought to it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use config_image::Magic;
use node_installer::Options;
use registry_config::Document;
use zeroize::Zeroizing;

use super::super::rotation::{self, Completed, Rotation};
use super::{CURRENT, KEPT, UNSEEN, is_directory, open, read};
use crate::choice::{ChoiceError, DocumentText, over_base};
use crate::namespace_path::{NamespacePath, NamespacePaths};
use crate::sandbox_id::SandboxId;
use crate::shared_image::record::{self, Life, Record};
use crate::update::{UpdateError, holds_no_more, holds_nothing, update};

/// What became of a sandbox.
pub(super) enum Brought {
    /// Its process is gone, or it has no disk yet.
    Gone,
    /// Its disk holds what it should ([`CURRENT`]), or nobody here knows all of that: [`UNSEEN`] or
    /// [`KEPT`].
    There { state: &'static str, changed: bool },
}

/// What the disks should hold, each made once for all sandboxes that have it.
pub(super) struct Contents<'a> {
    options: &'a Options,
    rotation: &'a mut Rotation,
    /// The documents of the sets that have one for each namespace.
    by_namespace: Vec<(&'a str, NamespacePath, Option<PathBuf>)>,
    /// By what they are made of.
    images: BTreeMap<MadeOf<'a>, Made>,
    /// Why disks are left as they are, a line for each document.
    unknown: BTreeSet<String>,
}

/// What a disk is made of.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
struct MadeOf<'a> {
    document: PathBuf,
    /// The set whose plugins are asked.
    set: Option<&'a str>,
    /// Whether plugins add to it.
    providers: bool,
}

/// What a disk should hold, or the error as a line.
type Made = Result<Content, String>;

/// What a disk should hold.
#[derive(Clone)]
enum Content {
    /// This image.
    Whole(Zeroizing<Vec<u8>>),
    /// This image, and more that is not known.
    Part {
        image: Zeroizing<Vec<u8>>,
        /// What it says; `None` where nobody here asks the plugins, so that it is the document
        /// alone.
        document: Option<Arc<Document>>,
        /// The reason, as a line.
        why: String,
    },
    /// There is no valid document to be seen from here.
    Unseen,
}

impl<'a> Contents<'a> {
    pub(super) fn new(options: &'a Options, rotation: &'a mut Rotation) -> Self {
        Self {
            options,
            rotation,
            by_namespace: by_namespace(options),
            images: BTreeMap::new(),
            unknown: BTreeSet::new(),
        }
    }

    /// Why disks were left as they are, a line for each document.
    pub(super) fn unknown(&mut self) -> BTreeSet<String> {
        std::mem::take(&mut self.unknown)
    }

    /// Brings the disk of one sandbox to what it should hold.
    pub(super) fn bring(
        &mut self,
        run_root: &Path,
        sandbox: &SandboxId,
        record: &Record,
    ) -> Result<Brought, String> {
        let line = |error: &dyn std::fmt::Display, remedy: &str| {
            format!("sandbox {sandbox}: failed to {error}: {remedy}")
        };
        match record::life(run_root, sandbox) {
            Ok(Life::Released) => return Ok(Brought::Gone),
            Ok(Life::Held | Life::Unknown) => {}
            Err(error) => return Err(line(&error, error.remedy())),
        }
        let Some(document) = self.document(record) else {
            return Ok(Brought::There { state: UNSEEN, changed: false });
        };
        let unknown = match self.options.providers {
            true => UNSEEN,
            false => KEPT,
        };
        let made_of = MadeOf {
            document: document.to_owned(),
            set: self.set_of(record),
            providers: record.providers,
        };
        let (image, state) = match self.image(made_of)? {
            Content::Whole(image) => (Some(image), CURRENT),
            Content::Part { image, document, why } => {
                let (is_more, is_all) = match document {
                    // The document alone is more than a refusal of every pull, and less than
                    // anything else.
                    None => [holds_nothing(run_root, sandbox); 2].into(),
                    Some(document) => (holds_no_more(run_root, sandbox, &document), false),
                };
                let state = match is_all {
                    true => CURRENT,
                    false => {
                        self.unknown.insert(why);
                        unknown
                    }
                };
                (Some(image).filter(|_| is_more), state)
            }
            Content::Unseen => (None, UNSEEN),
        };
        let Some(image) = image else {
            let changed = false;
            return Ok(Brought::There { state, changed });
        };
        match update(run_root, sandbox, image) {
            Ok(updated) => Ok(Brought::There { state, changed: updated.changed }),
            // It is about to start, or has just ended.
            Err(UpdateError::Nothing { .. }) => Ok(Brought::Gone),
            Err(error) => Err(line(&error, error.remedy())),
        }
    }

    /// The document that a sandbox with this record has now: that of its namespace as soon as it is
    /// there, and nothing else before its directory is.
    fn document<'r>(&self, record: &'r Record) -> Option<&'r Path> {
        let own = record.document.as_deref()?;
        let fallback = record.fallback.as_deref();
        let is_missing = || {
            let directory = own.parent().unwrap_or(own);
            is_directory(self.options, directory)
                && open(self.options, own).is_err_and(|error| error.fault.is_absent())
        };
        Some(fallback.filter(|_| is_missing()).unwrap_or(own))
    }

    /// The image for sandboxes whose disk is made of this.
    fn image(&mut self, made_of: MadeOf<'a>) -> Made {
        if let Some(made) = self.images.get(&made_of) {
            return made.clone();
        }
        let made = self.make(&made_of);
        self.images.insert(made_of, made.clone());
        made
    }

    fn make(&mut self, made_of: &MadeOf<'_>) -> Made {
        let (document, set) = (made_of.document.as_path(), made_of.set);
        let failed = |error| format!("failed to read the document {error}");
        let mut text = match read(self.options, document) {
            Ok(text) => DocumentText::from(text),
            Err(error) if error.fault.is_absent() => return Ok(Content::Unseen),
            Err(error) => return Err(failed(error)),
        };
        if let Some(path) = self.base_of(document) {
            let base = read(self.options, path).map_err(failed)?;
            let whole = over_base(&text, &base).map_err(|why| {
                let why = ChoiceError::Base { path: path.into(), why };
                format!("failed to {why}: {}", why.remedy())
            })?;
            text = whole.unwrap_or(text);
        }
        // What is not valid is told by whoever installs it.
        let Ok(parsed) = Document::parse(&text) else {
            return Ok(Content::Unseen);
        };
        let own = parsed.document;
        let refuses = own.node_error.is_some();
        let encode = |text: &[u8]| {
            config_image::encode(Magic::IMAGEPULLER, text)
                .map_err(|error| format!("failed to {error}"))
        };
        if !made_of.providers || refuses {
            return encode(&text).map(Content::Whole);
        }
        let completed = match set {
            Some(set) => {
                let own = (&*text, &own);
                self.rotation.complete(self.options, set, own)
            }
            None => Err("it is not the document of a set"),
        };
        let line = |why| {
            let whose = match set {
                Some(set) => format!("set {set}"),
                None => format!("the document {}", document.display()),
            };
            format!(
                "{whose}: living sandboxes keep what their disks hold, because what credential \
                providers add to the document is not known: {why}"
            )
        };
        Ok(match completed {
            Ok(Completed { text, missing: None, .. }) => Content::Whole(encode(&text)?),
            Ok(Completed { text, document, missing: Some(why) }) => Content::Part {
                image: encode(&text)?,
                document: Some(Arc::new(document)),
                why: line(why),
            },
            Err(why) => Content::Part { image: encode(&text)?, document: None, why: line(why) },
        })
    }

    /// The set whose document a sandbox has.
    pub(super) fn set_of(&self, record: &Record) -> Option<&'a str> {
        let (options, document) = (self.options, record.document.as_deref()?);
        let names = options.sets.keys().map(String::as_str);
        let mut sets = names.filter(|name| Path::new(options.document(name).as_str()) == document);
        let mut by_namespace = self.by_namespace.iter();
        let of_namespace = || {
            let found = by_namespace.find(|(_, paths, _)| paths.namespace_of(document).is_some());
            found.map(|(set, ..)| *set)
        };
        sets.next().or_else(of_namespace)
    }

    /// What completes the document, if it is that of a namespace.
    fn base_of(&self, document: &Path) -> Option<&Path> {
        let mut by_namespace = self.by_namespace.iter();
        let (.., base) =
            by_namespace.find(|(_, paths, _)| paths.namespace_of(document).is_some())?;
        base.as_deref()
    }
}

fn by_namespace(options: &Options) -> Vec<(&str, NamespacePath, Option<PathBuf>)> {
    let names = options.sets.keys().map(String::as_str);
    let found = names.filter_map(|set| {
        let settings = rotation::settings(options, set)?;
        Some((set, NamespacePaths::of(&settings).document?, settings.namespace_base))
    });
    found.collect()
}

//! The disks of living sandboxes, brought to what the documents say now, and the leavings of those
//! that are gone.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use config_image::Magic;
use credential_sources::narrow;
use linux_sys::rooted::Root;
use node_installer::Options;
use puller_config::{Document, MAX_DOCUMENT_BYTES, OnlyRegistries};
use rustix::fs::OFlags;
use zeroize::Zeroizing;

use super::rotation::{self, Completed, Rotation};
use crate::host_file::{FileError, HostFile, require_administered};
use crate::namespace_path::{NamespacePath, NamespacePaths};
use crate::providers;
use crate::sandbox_id::SandboxId;
use crate::settings::DEFAULT_RUN_ROOT;
use crate::shared_image::record::{self, Life, Record};
use crate::sweep::{DEFAULT_MIN_AGE, sweep_released};
use crate::update::{UpdateError, holds_no_more, holds_nothing, update};

/// How many sandboxes are named in the log that cannot be brought up to date, or swept.
const MAX_NAMED: usize = 16;

/// How the sandboxes are called that have a document which is no set's.
const OTHERS: &str = "";

/// The disk holds what the node has for it.
pub(super) const CURRENT: &str = "current";
/// It does not, and cannot be changed.
pub(super) const BEHIND: &str = "behind";
/// Nobody here knows what it should hold.
pub(super) const UNSEEN: &str = "unseen";
/// Plugins add to what it should hold, and nobody here is to ask them: it keeps what it has.
pub(super) const KEPT: &str = "kept";

/// What was found and done.
#[derive(Debug, Default, PartialEq)]
pub struct Looked {
    /// How many sandboxes live, by the set of their document and by what their disk holds.
    pub sandboxes: BTreeMap<(String, &'static str), u64>,
    /// How many disks were changed.
    pub updated: u64,
    /// How many could not be.
    pub failed: u64,
    /// How many sandboxes were gone and left something.
    pub swept: u64,
    /// What did not work, a line each.
    pub warnings: Vec<String>,
}

/// Updates and sweeps the sandboxes below each run root of the sets.
///
/// What does not work with one sandbox does not keep the others: it is a warning. A disk that was
/// left half-written by a killed process is whole again afterwards.
///
/// Without sets nobody comes again: the answers of credential providers that were kept go too, and
/// a warning counts the sandboxes that still have a configuration.
pub fn keep(options: &Options, rotation: &mut Rotation) -> Looked {
    look(options, rotation, options.sets.is_empty())
}

/// [`keep`], after everything that the sets have on the node was removed.
#[must_use]
pub fn leave(options: &Options) -> Looked {
    look(options, &mut Rotation::default(), true)
}

fn look(options: &Options, rotation: &mut Rotation, is_removal: bool) -> Looked {
    let mut looked = Looked::default();
    let mut contents = Contents {
        options,
        rotation,
        by_namespace: by_namespace(options),
        images: BTreeMap::new(),
        unknown: BTreeSet::new(),
    };
    let mut unnamed = 0;
    let mut warn = |looked: &mut Looked, line: String| match looked.warnings.len() {
        MAX_NAMED.. => unnamed += 1,
        _ => looked.warnings.push(line),
    };
    for run_root in run_roots(options) {
        let sandboxes = record::all(&run_root).unwrap_or_else(|error| {
            warn(&mut looked, format!("failed to {error}"));
            Vec::new()
        });
        for (sandbox, record) in sandboxes {
            let state = match contents.bring(&run_root, &sandbox, &record) {
                Ok(Brought::Gone) => continue,
                Ok(Brought::There { state, changed }) => {
                    looked.updated += u64::from(changed);
                    state
                }
                Err(line) => {
                    looked.failed += 1;
                    warn(&mut looked, line);
                    BEHIND
                }
            };
            let set = contents.set_of(&record).unwrap_or(OTHERS).to_owned();
            *looked.sandboxes.entry((set, state)).or_default() += 1;
        }
        match is_removal {
            true => providers::forget_all(&run_root),
            false => providers::forget_expired(&run_root),
        }
        match sweep_released(&run_root, DEFAULT_MIN_AGE) {
            Ok(swept) => {
                looked.swept += swept.removed.len() as u64;
                for (sandbox, error) in swept.failed {
                    warn(&mut looked, format!("sandbox {sandbox}: failed to {error}"));
                }
            }
            Err(error) => warn(&mut looked, format!("failed to {error}")),
        }
    }
    for line in std::mem::take(&mut contents.unknown) {
        warn(&mut looked, line);
    }
    let living: u64 = looked.sandboxes.values().sum();
    if is_removal && living > 0 {
        let line = format!(
            "sandboxes that still have a configuration in /run: {living}; nobody removes what they \
            leave, but \"kata-configdev sweep\" and the node's next start"
        );
        looked.warnings.push(line);
    }
    if unnamed > 0 {
        let line = format!("{unnamed} more sandboxes like these");
        looked.warnings.push(line);
    }
    looked
}

/// Where the sets have their sandboxes, as seen from here; the default place without sets, where
/// those of former ones are.
pub(super) fn run_roots(options: &Options) -> BTreeSet<PathBuf> {
    match options.sets.is_empty() {
        true => [seen(options, Path::new(DEFAULT_RUN_ROOT))].into(),
        false => {
            let sets = options.sets.values();
            sets.map(|set| run_root(options, set)).collect()
        }
    }
}

/// Where a set has its sandboxes, as seen from here.
pub(super) fn run_root(options: &Options, set: &node_installer::Set) -> PathBuf {
    let said = set.settings.get("run-root");
    let path = said
        .and_then(toml::Value::as_str)
        .unwrap_or(DEFAULT_RUN_ROOT);
    seen(options, Path::new(path))
}

/// Where a path of the node is, seen from here.
pub(super) fn seen(options: &Options, path: &Path) -> PathBuf {
    options.host.join(path.strip_prefix("/").unwrap_or(path))
}

/// What became of a sandbox.
enum Brought {
    /// Its process is gone, or it has no disk yet.
    Gone,
    /// Its disk holds what it should ([`CURRENT`]), or nobody here knows all of that: [`UNSEEN`] or
    /// [`KEPT`].
    There { state: &'static str, changed: bool },
}

/// What the disks should hold, each made once for all sandboxes that have it.
struct Contents<'a> {
    options: &'a Options,
    rotation: &'a mut Rotation,
    /// The documents of the sets that have one for each namespace.
    by_namespace: Vec<(&'a str, NamespacePath)>,
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
    /// The registries that it is for, if not for all.
    only: Option<OnlyRegistries>,
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
    fn bring(
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
            return Ok(Brought::There {
                state: UNSEEN,
                changed: false,
            });
        };
        let unknown = match self.options.providers {
            true => UNSEEN,
            false => KEPT,
        };
        let made_of = MadeOf {
            document: document.to_owned(),
            set: self.set_of(record),
            only: record.only().cloned(),
            providers: record.providers,
        };
        let (image, state) = match self.image(made_of)? {
            Content::Whole(image) => (Some(image), CURRENT),
            Content::Part {
                image,
                document,
                why,
            } => {
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
        match update(run_root, sandbox, Magic::IMAGEPULLER, image) {
            Ok(updated) => Ok(Brought::There {
                state,
                changed: updated.changed,
            }),
            // It is about to start, or has just ended.
            Err(UpdateError::Nothing { .. }) => Ok(Brought::Gone),
            Err(error) => Err(line(&error, error.remedy())),
        }
    }

    /// The document that a sandbox with this record has now: that of its namespace as soon as it is
    /// there, and nothing else before its directory is.
    fn document<'r>(&self, record: &'r Record) -> Option<&'r Path> {
        let own = record.document()?;
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
        // Each pod may be for other registries, and all their images together are large.
        if made_of.only.is_none() {
            self.images.insert(made_of, made.clone());
        }
        made
    }

    fn make(&mut self, made_of: &MadeOf<'_>) -> Made {
        let (document, set) = (made_of.document.as_path(), made_of.set);
        let text = match read(self.options, document) {
            Ok(text) => text,
            Err(error) if error.fault.is_absent() => return Ok(Content::Unseen),
            Err(error) => return Err(format!("failed to read the document {error}")),
        };
        // What is not valid is told by whoever installs it.
        let Ok(parsed) = Document::parse(&text) else {
            return Ok(Content::Unseen);
        };
        let (text, own) = match &made_of.only {
            None => (text, parsed.document),
            Some(only) => {
                let narrowed = narrow(&text, only).map_err(|error| {
                    let document = document.display();
                    format!("failed to leave out of {document} what it has for others: {error}")
                })?;
                (narrowed.text, narrowed.document)
            }
        };
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
                let own = (text.as_slice(), &own);
                let only = made_of.only.as_ref();
                self.rotation.complete(self.options, set, own, only)
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
            Ok(Completed {
                text,
                missing: None,
                ..
            }) => Content::Whole(encode(&text)?),
            Ok(Completed {
                text,
                document,
                missing: Some(why),
            }) => Content::Part {
                image: encode(&text)?,
                document: Some(Arc::new(document)),
                why: line(why),
            },
            Err(why) => Content::Part {
                image: encode(&text)?,
                document: None,
                why: line(why),
            },
        })
    }

    /// The set whose document a sandbox has.
    fn set_of(&self, record: &Record) -> Option<&'a str> {
        let (options, document) = (self.options, record.document()?);
        let names = options.sets.keys().map(String::as_str);
        let mut sets = names.filter(|name| Path::new(options.document(name).as_str()) == document);
        let mut by_namespace = self.by_namespace.iter();
        let of_namespace = || {
            let found = by_namespace.find(|(_, paths)| paths.namespace_of(document).is_some());
            found.map(|(set, _)| *set)
        };
        sets.next().or_else(of_namespace)
    }
}

fn by_namespace(options: &Options) -> Vec<(&str, NamespacePath)> {
    let names = options.sets.keys().map(String::as_str);
    let found = names.filter_map(|set| {
        let settings = rotation::settings(options, set)?;
        Some((set, NamespacePaths::of(&settings).document?))
    });
    found.collect()
}

/// Reads a document of the node, through no link.
pub(super) fn read(options: &Options, path: &Path) -> Result<Zeroizing<Vec<u8>>, FileError> {
    let read = open(options, path)?.read(MAX_DOCUMENT_BYTES);
    read.map_err(|fault| fault.at(path))
}

/// Whether there is a directory that the wrapper would look into: one that others can write says
/// nothing about which documents are missing.
fn is_directory(options: &Options, path: &Path) -> bool {
    let beneath = path.strip_prefix("/").unwrap_or(path);
    let flags = OFlags::RDONLY | OFlags::DIRECTORY;
    let opened = Root::open(&options.host).and_then(|root| root.open_file(beneath, flags));
    let metadata = opened.and_then(|directory| directory.metadata());
    metadata.is_ok_and(|metadata| require_administered(&metadata).is_ok())
}

fn open(options: &Options, path: &Path) -> Result<HostFile, FileError> {
    let beneath = path.strip_prefix("/").unwrap_or(path);
    let opened = Root::open(&options.host).map_err(Into::into);
    opened
        .and_then(|root| HostFile::open_beneath(&root, beneath))
        .and_then(HostFile::require_administered)
        .map_err(|fault| fault.at(path))
}

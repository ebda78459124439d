//! The way from a digest to the image for one platform: which document to fetch next, each hashed
//! before it is read.
//!
//! The choice depends on verified bytes and on the platform alone: a missing document ends the
//! search instead of making it look elsewhere, so an attacker who holds documents back cannot
//! choose among images.
//!
//! Among the entries of an index the order is containerd's: the best platform, of equals the first;
//! entries that name no platform come last. Where containerd takes the first of these, their
//! configurations decide here.

use foreign_text::shown;

use crate::config::ImageConfig;
use crate::descriptor::Descriptor;
use crate::digest::Digest;
pub use crate::document::{Document, DocumentRequest, Kind};
use crate::invalid::InvalidDocument;
use crate::manifest::Manifest;
use crate::media_type::{INDEX_TYPES, MANIFEST_TYPES};
use crate::platform::Platform;

/// How many indexes may lie between a reference and its image; one level is common, two exist.
pub const MAX_INDEX_DEPTH: usize = 4;

/// How many documents one search reads. Only indexes that do not name platforms need more than one
/// for each level, and two.
pub const MAX_DOCUMENTS: usize = 64;

/// How many platforms a message lists.
const MAX_LISTED: usize = 16;

/// What a failure is about, in words that stand before the digest.
const MANIFEST: &str = "manifest";
const INDEX: &str = "index";
const CONFIG: &str = "image configuration";

/// Looks for an image, one document at a time. Does no I/O: the caller fetches what is
/// [`wanted`](Search::wanted).
#[derive(Debug)]
pub struct Search {
    guest: Platform,
    wanted: PendingDocument,
    /// Set while the configuration of an image is wanted.
    image: Option<ImageParts>,
    /// What to look at if this is for another platform, last first.
    others: Vec<PendingDocument>,
    /// The indexes that were entered, the outermost first; as many as the depth of what is wanted
    /// led to it. A failure is about the first.
    indexes: Vec<Digest>,
    /// What there was instead.
    offered: Vec<String>,
    documents: usize,
}

/// An image of which everything but the layers is there and verified.
#[derive(Clone, Debug)]
pub struct Image {
    /// The digest of its manifest.
    pub manifest: Digest,
    /// What led to it, the digest of the reference first: indexes, and the manifest.
    pub contents: Vec<Digest>,
    /// Its configuration, byte for byte as its digest names it.
    pub configuration: Vec<u8>,
    /// Its layers, lowest first: the blob to fetch, and the digest of what is in it.
    pub layers: Vec<(Descriptor, Digest)>,
}

/// Why there is no image: a document is what was wanted, but of no use.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the {what} {digest} {rule}")]
pub struct Unusable {
    /// Which kind of document it is, such as `index`.
    pub what: &'static str,
    /// Its digest.
    pub digest: Digest,
    /// The rule that it breaks.
    pub rule: InvalidDocument,
}

#[derive(Debug)]
struct PendingDocument {
    digest: Digest,
    size: Option<u64>,
    media_type: String,
    depth: usize,
    /// Whether something said that it is for this platform: a reference or an entry of an index.
    is_named: bool,
}

#[derive(Debug)]
struct ImageParts {
    config: Descriptor,
    layers: Vec<Descriptor>,
}

impl Search {
    /// Begins at the digest of a reference.
    pub fn new(digest: Digest, guest: Platform) -> Self {
        Self {
            guest,
            wanted: PendingDocument {
                digest,
                size: None,
                media_type: String::new(),
                depth: 0,
                is_named: true,
            },
            image: None,
            others: Vec::new(),
            indexes: Vec::new(),
            offered: Vec::new(),
            documents: 0,
        }
    }

    /// What to fetch, to [verify](DocumentRequest::verify) and to hand to [`Search::receive`].
    pub fn wanted(&self) -> DocumentRequest {
        match &self.image {
            Some(found) => DocumentRequest {
                kind: Kind::Config,
                digest: found.config.digest.clone(),
                size: Some(found.config.size),
            },
            None => DocumentRequest {
                kind: Kind::Manifest,
                digest: self.wanted.digest.clone(),
                size: self.wanted.size,
            },
        }
    }

    /// What leads to the manifest that is wanted, the digest of the reference first: indexes, and
    /// that manifest.
    pub fn contents(&self) -> Vec<Digest> {
        let indexes = self.indexes.iter().take(self.wanted.depth);
        indexes.chain([&self.wanted.digest]).cloned().collect()
    }

    /// The blobs of the image whose configuration is wanted, lowest first. None as long as only that
    /// configuration can tell whether the image is for this platform.
    pub fn expected_layers(&self) -> &[Descriptor] {
        match &self.image {
            Some(found) if self.wanted.is_named => &found.layers,
            _ => &[],
        }
    }

    /// Reads the wanted document. Without an image yet, another one is wanted now.
    ///
    /// # Errors
    ///
    /// [`Unusable`]: there is no image for this platform.
    pub fn receive(&mut self, document: Document) -> Result<Option<Image>, Unusable> {
        self.documents += 1;
        if self.documents > MAX_DOCUMENTS {
            let rule = format!("leads to more than {MAX_DOCUMENTS} documents");
            return Err(self.about_index(InvalidDocument::Content(rule)));
        }
        // A document that was not asked for changes nothing.
        if document.digest != self.wanted().digest {
            return Ok(None);
        }
        match self.image.take() {
            Some(found) => self.receive_config(document.text, found),
            None => self.receive_manifest(&document.text).map(|()| None),
        }
    }

    fn receive_manifest(&mut self, text: &[u8]) -> Result<(), Unusable> {
        let document = match Manifest::parse(text) {
            Ok(document) => document,
            Err(invalid) => return self.pass_over(invalid),
        };
        self.wanted.check_kind(&document).map_err(|rule| self.about(MANIFEST, rule))?;
        match document {
            Manifest::Index(entries) => self.enter(&entries),
            Manifest::Image { config, layers } => {
                self.image = Some(ImageParts { config, layers });
                Ok(())
            }
        }
    }

    fn receive_config(
        &mut self,
        text: Vec<u8>,
        found: ImageParts,
    ) -> Result<Option<Image>, Unusable> {
        let ImageParts { config, layers } = found;
        let unusable = |rule| Unusable { what: CONFIG, digest: config.digest.clone(), rule };
        let read = ImageConfig::parse(&text, layers.len()).map_err(unusable)?;
        let (guest, offered) = (&self.guest, &read.platform);
        if self.wanted.is_named && !guest.accepts(offered) {
            let rule = format!("says that the image is for {offered}, and this guest is {guest}");
            return Err(unusable(InvalidDocument::Platform(rule)));
        }
        // Where nothing else says for which platform the image is, silence here is not enough.
        if !self.wanted.is_named && guest.rank(offered).is_none() {
            self.offer(offered.to_string());
            return self.go_on().map(|()| None);
        }
        Ok(Some(Image {
            manifest: self.wanted.digest.clone(),
            contents: self.contents(),
            configuration: text,
            layers: layers.into_iter().zip(read.diff_ids).collect(),
        }))
    }

    /// Goes on among the entries of an index.
    fn enter(&mut self, entries: &[Descriptor]) -> Result<(), Unusable> {
        let depth = self.wanted.depth + 1;
        if depth > MAX_INDEX_DEPTH {
            let rule = format!("is nested more than {MAX_INDEX_DEPTH} levels deep");
            return Err(self.about(INDEX, InvalidDocument::Content(rule)));
        }
        self.indexes.truncate(self.wanted.depth);
        self.indexes.push(self.wanted.digest.clone());
        for entry in entries.iter().filter(|entry| entry.may_be_image()) {
            if let Some(platform) = entry.named_platform() {
                self.offer(platform.to_string());
            }
        }
        let candidates = candidates(entries, &self.guest);
        // The first to look at comes last; more than can be looked at need not be remembered.
        for entry in candidates.into_iter().take(MAX_DOCUMENTS).rev() {
            self.others.push(PendingDocument {
                digest: entry.digest.clone(),
                size: Some(entry.size),
                media_type: entry.media_type.clone(),
                depth,
                is_named: entry.named_platform().is_some(),
            });
        }
        self.go_on()
    }

    /// Passes over a document that is no image, if nothing said that it is one for this guest.
    fn pass_over(&mut self, invalid: InvalidDocument) -> Result<(), Unusable> {
        match invalid {
            InvalidDocument::Artifact(artifact) if !self.wanted.is_named => {
                self.offer(artifact);
                self.go_on()
            }
            invalid => Err(self.about(MANIFEST, invalid)),
        }
    }

    /// Takes the next candidate up.
    fn go_on(&mut self) -> Result<(), Unusable> {
        if let Some(candidate) = self.others.pop() {
            self.wanted = candidate;
            return Ok(());
        }
        let offered = if self.offered.is_empty() {
            "and lists no other".to_owned()
        } else {
            format!("only for: {}", self.offered.join(", "))
        };
        let rule = format!("has no image for {}, {offered}", self.guest);
        Err(self.about_index(InvalidDocument::Platform(rule)))
    }

    fn offer(&mut self, what: String) {
        if self.offered.len() < MAX_LISTED && !self.offered.contains(&what) {
            self.offered.push(what);
        }
    }

    fn about(&self, what: &'static str, rule: InvalidDocument) -> Unusable {
        Unusable { what, digest: self.wanted.digest.clone(), rule }
    }

    fn about_index(&self, rule: InvalidDocument) -> Unusable {
        Unusable {
            what: INDEX,
            digest: self.indexes.first().unwrap_or(&self.wanted.digest).clone(),
            rule,
        }
    }
}

impl PendingDocument {
    /// An entry of an index and the document that it names must agree on what it is: another
    /// program may go by the entry.
    fn check_kind(&self, document: &Manifest) -> Result<(), InvalidDocument> {
        let types = match document {
            Manifest::Index(_) => INDEX_TYPES,
            Manifest::Image { .. } => MANIFEST_TYPES,
        };
        if self.media_type.is_empty() || types.contains(&self.media_type.as_str()) {
            return Ok(());
        }
        Err(InvalidDocument::Kind(format!(
            "is listed as {} and is something else",
            shown(&self.media_type).quoted()
        )))
    }
}

/// The entries to look at, best first: the best one of those that name a platform, or else all that
/// name none.
fn candidates<'a>(entries: &'a [Descriptor], guest: &Platform) -> Vec<&'a Descriptor> {
    let images = || entries.iter().filter(|entry| entry.may_be_image());
    let ranked = images().filter_map(|entry| Some((guest.rank(entry.named_platform()?)?, entry)));
    match ranked.min_by_key(|(rank, _)| *rank) {
        Some((_, best)) => vec![best],
        None => images().filter(|entry| entry.named_platform().is_none()).collect(),
    }
}

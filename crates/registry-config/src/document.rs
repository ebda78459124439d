//! The document as a whole: parsed completely, or every reason why not.

use std::collections::BTreeMap;

use foreign_text::position::line_of;
use foreign_text::toml::{NotToml, Tree, join};
use toml_parser::Source;
use toml_parser::lexer::{Token, TokenKind};

use crate::limits::{MAX_DOCUMENT_BYTES, MAX_ELEMENTS};
use crate::problem::{Findings, Origin, Place};
use crate::section::Section;
use crate::{
    DecryptionKeys, Effect, ExtraEnv, ImagePolicy, NodeError, Pins, Problems, Registries,
    RegistryName, Resources, Rule, Warning, decryption_keys, entry,
};

/// A registry configuration. The default is that of a guest without one: the web's roots, no
/// credentials, no proxies.
#[derive(Clone, Debug, Default)]
pub struct Document {
    /// The proxies.
    pub extra_env: ExtraEnv,
    /// Whether the table of the proxies is there, even without a variable: that of the measured
    /// document replaces the host's, and an empty one means that there is no proxy.
    pub has_extra_env: bool,
    /// The registries.
    pub registries: Registries,
    /// What encrypted images are opened with.
    pub decryption_keys: DecryptionKeys,
    /// Where the guest gets what the document and images refer to; never there in a document of the
    /// host.
    pub resources: Option<Resources>,
    /// Which content images have by their names; never there in a document of the host. What they
    /// mean, and whether they mean anything, `oci_image::pins` says.
    pub pins: Pins,
    /// Which signatures images need; never there in a document of the host. What it means, and
    /// whether it means anything, the room `image-policy` says.
    pub image_policy: Option<ImagePolicy>,
    /// Why the node has no document. Then all else is the default and counts for nothing: every
    /// pull is refused, and nothing is added. Only ever there in a document of the host.
    pub node_error: Option<NodeError>,
}

/// A document without problems.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Checked {
    /// What it says.
    pub document: Document,
    /// What its author may not have meant, by line.
    pub warnings: Vec<Warning>,
    /// The line where the entry of each registry begins.
    pub lines: BTreeMap<RegistryName, usize>,
}

impl Document {
    /// Reads a document of the host, which is not measured; see `docs/document.md`.
    ///
    /// The text may come from an attacker: it is bounded by [`MAX_DOCUMENT_BYTES`] and
    /// [`MAX_ELEMENTS`], its nesting by the TOML parser, and it can neither cause a panic nor make
    /// a value of it appear in an error.
    ///
    /// Secrets are moved or copied once, into memory that is zeroed when it is released; `text` is
    /// the caller's to zero. Two kinds of copy escape: a string with escape sequences leaves
    /// fragments behind when the TOML parser's buffer grows, and of a text that is not TOML the
    /// parser's error holds a copy that is released unzeroed.
    ///
    /// # Errors
    ///
    /// Every rule that the document breaks, by line, up to [`MAX_PROBLEMS`](crate::MAX_PROBLEMS).
    /// Of a text that is not TOML only the first error is given, since the rest cannot be read with
    /// any certainty.
    pub fn parse(text: &[u8]) -> Result<Checked, Problems> {
        Self::parse_from(Origin::Host, text)
    }

    /// Reads the measured document, the word of the guest's owner. It has the same keys less
    /// `node-error`, and what is not the host's to say: `[resources]`, whom the guest asks for
    /// secrets, `[pins]` and `only-pins`, which content it runs, and `[image-policy]`, which
    /// signatures that needs. Otherwise as [`Document::parse`].
    ///
    /// # Errors
    ///
    /// As those of [`Document::parse`].
    pub fn parse_measured(text: &[u8]) -> Result<Checked, Problems> {
        Self::parse_from(Origin::Measured, text)
    }

    /// Whether a document, the measured one included, may have this key at its top.
    #[must_use]
    pub fn has_key(key: &str) -> bool {
        let findings = Findings::of(Origin::Measured);
        let Ok(empty) = Tree::parse(b"") else { return false };
        let mut section = Section::new(empty.table(), &findings);
        read(&mut section);
        section.keys().contains(&key)
    }

    fn parse_from(origin: Origin, text: &[u8]) -> Result<Checked, Problems> {
        let findings = Findings::of(origin);
        let document = match parsed(text) {
            Ok(tree) => read(&mut Section::new(tree.table(), &findings)),
            Err((line, rule)) => {
                findings.problem(Place { line, ..Place::default() }, rule);
                Self::default()
            }
        };
        let lines = findings.lines.take();
        let warnings = findings.into_result()?;
        Ok(Checked { document, warnings, lines })
    }
}

/// Parses a text within the limits. An error has its line, 0 for the whole.
fn parsed(text: &[u8]) -> Result<Tree<'_>, (usize, Rule)> {
    if text.len() > MAX_DOCUMENT_BYTES {
        return Err((0, Rule::DocumentTooLong));
    }
    let written = str::from_utf8(text)
        .map_err(|error| (line_of(text, error.valid_up_to()), not_utf8(text)))?;
    if let Some(start) = first_element_over_limit(written) {
        return Err((line_of(text, start), Rule::TooManyElements));
    }
    Tree::parse(text).map_err(|NotToml { line, span, message }| {
        let line = span.as_ref().map_or(0, |_| line);
        let said = match span.and_then(|span| written.get(span)) {
            // It points at the second of two keys: that one is named.
            Some(key) if message == "duplicate key" => {
                format!("{message} {}", join("", key.trim_matches(['"', '\''])))
            }
            _ if has_open_pem(written) => {
                format!("{message}; a value of several lines stands between \"\"\"")
            }
            _ => message,
        };
        (line, Rule::Syntax(said))
    })
}

/// The rule that a text breaks which is not UTF-8.
fn not_utf8(text: &[u8]) -> Rule {
    match text {
        [0xff, 0xfe, ..] | [0xfe, 0xff, ..] => Rule::Utf16,
        _ => Rule::NotUtf8,
    }
}

/// Whether a PEM begins behind a quote for one line and does not end on that line.
fn has_open_pem(text: &str) -> bool {
    text.lines().filter_map(|line| line.split_once('=')).any(|(_, value)| {
        let quoted = value.trim_start().strip_prefix(['"', '\'']).unwrap_or_default();
        quoted.starts_with("-----BEGIN ") && !quoted.contains("-----END ")
    })
}

/// Reads a document to its end; what is broken is reported and missing.
pub(crate) fn read(section: &mut Section<'_, '_>) -> Document {
    let reason = section.text("node-error");
    if section.has("node-error") && section.findings.origin == Origin::Host {
        section.warn("node-error", Effect::RefusesEveryPull);
        return Document { node_error: NodeError::read(reason, section), ..Document::default() };
    }
    section.problem("node-error", Rule::NodeErrorOfOwner);
    let extra_env = section.table("extra-env");
    let registries = section.table("registries");
    let decryption_keys = section.table("decryption-keys");
    let mut owners = |key, rule| section.table(key).filter(|_| section.is_owners(key, rule));
    let resources = owners("resources", Rule::ResourcesOfHost);
    let pins = owners("pins", Rule::PinsOfHost);
    let image_policy = owners("image-policy", Rule::ImagePolicyOfHost);
    let is_only = section.flag("only-pins");
    let is_only = section.is_owners("only-pins", Rule::PinsOfHost) && is_only;
    section.refuse_rest(None);
    let pins = Pins { all: pins.map(Pins::read).unwrap_or_default(), is_only };
    if is_only && pins.all.is_empty() {
        section.warn("only-pins", Effect::NothingPinned);
    }
    Document {
        has_extra_env: extra_env.is_some(),
        extra_env: extra_env.map(ExtraEnv::read).unwrap_or_default(),
        registries: registries.map(entry::read_all).unwrap_or_default(),
        decryption_keys: decryption_keys.map(decryption_keys::read).unwrap_or_default(),
        resources: resources.map(Resources::read),
        pins,
        image_policy: image_policy.and_then(|mut section| ImagePolicy::read(&mut section)),
        node_error: None,
    }
}

/// Where the text has its first element beyond [`MAX_ELEMENTS`]. Reads tokens only, in constant
/// memory.
pub(crate) fn first_element_over_limit(text: &str) -> Option<usize> {
    let makes_element = |token: &Token| {
        matches!(
            token.kind(),
            TokenKind::Dot
                | TokenKind::Equals
                | TokenKind::Comma
                | TokenKind::LeftSquareBracket
                | TokenKind::LeftCurlyBracket
        )
    };
    Source::new(text)
        .lex()
        .filter(makes_element)
        .nth(MAX_ELEMENTS)
        .map(|token| token.span().start())
}

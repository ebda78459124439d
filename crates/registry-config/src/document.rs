//! The document as a whole: parsed completely, or every reason why not.

use toml::de::DeTable;
use toml_parser::Source;
use toml_parser::lexer::{Token, TokenKind};

use crate::limits::{MAX_DOCUMENT_BYTES, MAX_ELEMENTS};
use crate::problem::{Findings, Origin, Place};
use crate::section::{Lines, Section, Tree, join};
use crate::{
    DecryptionKeys, Effect, ExtraEnv, ImagePolicy, NodeError, Pins, Problems, Registries,
    Resources, Rule, Warning, decryption_keys, entry, image_policy, node_error, pins,
};

/// The keys at the top of a document, for suggestions.
pub(crate) const KEYS: [&str; 8] = [
    "extra-env",
    "registries",
    "decryption-keys",
    "resources",
    pins::KEY,
    pins::ONLY,
    image_policy::KEY,
    node_error::KEY,
];

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

    fn parse_from(origin: Origin, text: &[u8]) -> Result<Checked, Problems> {
        let mut findings = Findings::default();
        let document = read(text, origin, &mut findings).unwrap_or_default();
        let warnings = findings.into_result()?;
        Ok(Checked { document, warnings })
    }
}

/// Reads a document as far as it can be; `None` if it is not even TOML.
fn read(text: &[u8], origin: Origin, findings: &mut Findings) -> Option<Document> {
    if text.len() > MAX_DOCUMENT_BYTES {
        findings.problem(&Place::document(), Rule::DocumentTooLong);
        return None;
    }
    let lines = Lines::of(text);
    let text = std::str::from_utf8(text)
        .map_err(|error| {
            findings.problem(&Place::line(lines.at(error.valid_up_to())), Rule::NotUtf8)
        })
        .ok()?;
    if let Some(start) = first_element_over_limit(text) {
        findings.problem(&Place::line(lines.at(start)), Rule::TooManyElements);
        return None;
    }
    let root =
        DeTable::parse(text).map_err(|error| report_syntax(text, &error, &lines, findings)).ok()?;
    let mut tree = Tree { root: root.into_inner() };
    let mut section = Section::new(Place::document(), &mut tree.root, &lines);
    if let Some(field) = section.take_string(node_error::KEY, findings) {
        if origin == Origin::Host {
            findings.warning(&field.place, Effect::RefusesEveryPull);
            return Some(Document {
                node_error: NodeError::read(field, section, findings),
                ..Document::default()
            });
        }
        findings.problem(&field.place, Rule::NodeErrorOfOwner);
    }
    let extra_env = section.take_table("extra-env", findings);
    let registries = section.take_table("registries", findings);
    let decryption_keys = section.take_table("decryption-keys", findings);
    let resources = section
        .take_table("resources", findings)
        .filter(|section| is_owners(section.place(), Rule::ResourcesOfHost, origin, findings));
    let pins = section
        .take_table(pins::KEY, findings)
        .filter(|section| is_owners(section.place(), Rule::PinsOfHost, origin, findings));
    let only_pins = section
        .take_bool(pins::ONLY, findings)
        .filter(|field| is_owners(&field.place, Rule::PinsOfHost, origin, findings));
    let image_policy = section
        .take_table(image_policy::KEY, findings)
        .filter(|section| is_owners(section.place(), Rule::ImagePolicyOfHost, origin, findings));
    section.refuse_rest(&KEYS, &Rule::UnknownKey { suggestion: None }, findings);
    Some(Document {
        has_extra_env: extra_env.is_some(),
        extra_env: extra_env.map(|section| ExtraEnv::read(section, findings)).unwrap_or_default(),
        registries: registries
            .map(|section| entry::read_all(section, origin, findings))
            .unwrap_or_default(),
        decryption_keys: decryption_keys
            .map(|section| decryption_keys::read(section, origin, findings))
            .unwrap_or_default(),
        resources: resources.map(|section| Resources::read(section, findings)),
        pins: Pins::read(pins, only_pins, findings),
        image_policy: image_policy.and_then(|section| ImagePolicy::read(section, findings)),
        node_error: None,
    })
}

/// Whether a key stands in the document that may have it, the owner's; if not, the rule is
/// reported.
fn is_owners(place: &Place, rule: Rule, origin: Origin, findings: &mut Findings) -> bool {
    let is_measured = origin == Origin::Measured;
    if !is_measured {
        findings.problem(place, rule);
    }
    is_measured
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

/// Reports the parser's message, which consists of its own words; its `Display` would quote the
/// line. Of a key that is there twice it points at the second: that one is named.
fn report_syntax(text: &str, error: &toml::de::Error, lines: &Lines, findings: &mut Findings) {
    let place = error.span().map_or(Place::document(), |span| Place::line(lines.at(span.start)));
    let key = error.span().and_then(|span| text.get(span));
    let said = match (error.message(), key) {
        (said @ "duplicate key", Some(key)) => {
            format!("{said} {}", join("", key.trim_matches(['"', '\''])))
        }
        (said, _) => said.to_owned(),
    };
    findings.problem(&place, Rule::Syntax(said));
}

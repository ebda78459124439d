//! `[pins]` and `only-pins` of the measured document: which content an image's name means.
//!
//! Names of images and digests are not this crate's to read. A pin is kept as it was written, and
//! `oci_image::pins` gives it its meaning, for the guest and for who checks a document.

use toml::de::DeValue;

use crate::limits::{MAX_PIN_DIGESTS, MAX_PINS};
use crate::problem::{Findings, Place, Problems};
use crate::section::{Field, Section, wrong_type};
use crate::{Effect, Rule};

/// The table.
pub(crate) const KEY: &str = "pins";

/// The key at the top that lets nothing run without a pin.
pub(crate) const ONLY: &str = "only-pins";

/// The pins as they were written.
#[derive(Clone, Debug, Default)]
pub struct Pins {
    /// In the document's order, at most [`MAX_PINS`].
    pub all: Vec<Pin>,
    /// Whether nothing runs without one.
    pub is_only: bool,
}

/// A name of images and the digests that it stands for, as they were written.
#[derive(Clone, Debug)]
pub struct Pin {
    /// What should be the name of a repository, with or without a tag.
    pub name: String,
    /// What should be digests: one at least, at most [`MAX_PIN_DIGESTS`].
    pub digests: Vec<String>,
    place: Place,
}

impl Pin {
    /// The line, from 1.
    pub fn line(&self) -> usize {
        self.place.line
    }
}

impl Pins {
    /// Reads both keys, as far as they can be without the meaning of names.
    pub(crate) fn read(
        table: Option<Section<'_, '_>>,
        only: Option<Field<bool>>,
        findings: &mut Findings,
    ) -> Self {
        let pins = Self {
            all: table.map_or(Vec::new(), |table| read_all(table, findings)),
            is_only: only.as_ref().is_some_and(|only| only.value),
        };
        if let Some(only) = only.filter(|_| pins.is_only && pins.all.is_empty()) {
            findings.warning(&only.place, Effect::NothingPinned);
        }
        pins
    }

    /// What is wrong with some of these pins, as problems of the document; none if nothing is. The
    /// words quote no value.
    ///
    /// # Errors
    ///
    /// The problems, if there is one.
    pub fn refuse<'p>(faults: impl IntoIterator<Item = (&'p Pin, String)>) -> Result<(), Problems> {
        let mut findings = Findings::default();
        for (pin, words) in faults {
            findings.problem(&pin.place, Rule::Pin(words));
        }
        findings.into_result().map(|_| ())
    }
}

fn read_all(table: Section<'_, '_>, findings: &mut Findings) -> Vec<Pin> {
    if table.len() > MAX_PINS {
        findings.problem(table.place(), Rule::TooManyPins);
        return Vec::new();
    }
    let pins = table.into_fields().filter_map(|(name, field)| {
        let Field { place, value } = field;
        if name == ONLY && value.as_bool().is_some() {
            findings.problem(&place, Rule::OnlyPinsInside);
            return None;
        }
        Some(Pin { name: name.to_owned(), digests: read_digests(&place, value, findings)?, place })
    });
    pins.collect()
}

/// One digest, or a list of them; `None` for what is neither, which is reported.
fn read_digests(
    place: &Place,
    value: &DeValue<'_>,
    findings: &mut Findings,
) -> Option<Vec<String>> {
    let items = match value {
        DeValue::String(digest) => return Some(vec![digest.to_string()]),
        DeValue::Array(items) => items,
        other => {
            findings.problem(place, wrong_type("string or array", other));
            return None;
        }
    };
    if items.is_empty() || items.len() > MAX_PIN_DIGESTS {
        findings.problem(place, Rule::PinDigests);
        return None;
    }
    let digest = |item: &toml::Spanned<DeValue<'_>>| match item.get_ref() {
        DeValue::String(digest) => Some(digest.to_string()),
        other => {
            findings.problem(place, wrong_type("string", other));
            None
        }
    };
    items.iter().map(digest).collect()
}

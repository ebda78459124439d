//! `[pins]` and `only-pins` of the measured document: which content an image's name means.
//!
//! Names of images and digests are not this crate's to read. A pin is kept as it was written, and
//! `oci_image::pins` gives it its meaning, for the guest and for who checks a document.

use foreign_text::toml::Field;

use crate::limits::{MAX_PIN_DIGESTS, MAX_PINS};
use crate::problem::{Findings, Place, Problems};
use crate::section::Section;
use crate::{Origin, Rule};

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
    /// Reads the table, as far as it can be without the meaning of names.
    pub(crate) fn read(mut table: Section<'_, '_>) -> Vec<Pin> {
        if table.len() > MAX_PINS {
            table.problem("", Rule::TooManyPins);
            return Vec::new();
        }
        let pins = table.rest().filter_map(|field| {
            let place = Place::from(&field);
            let digests = match field.flag() {
                Ok(_) if field.key == "only-pins" => Err(Rule::OnlyPinsInside),
                _ => read_digests(&field),
            };
            let digests = table.findings.kept(&place, digests)?;
            Some(Pin { name: field.key.to_owned(), digests, place })
        });
        pins.collect()
    }

    /// What is wrong with some of these pins, as problems of the document; none if nothing is. The
    /// words quote no value.
    ///
    /// # Errors
    ///
    /// The problems, if there is one.
    pub fn refuse<'p>(faults: impl IntoIterator<Item = (&'p Pin, String)>) -> Result<(), Problems> {
        let findings = Findings::of(Origin::Measured);
        for (pin, words) in faults {
            findings.problem(&pin.place, Rule::Pin(words));
        }
        findings.into_result().map(|_| ())
    }
}

/// One digest, or a list of them.
fn read_digests(field: &Field<'_, '_>) -> Result<Vec<String>, Rule> {
    if let Ok(digest) = field.text() {
        return Ok(vec![digest.to_owned()]);
    }
    let items = field.items().map_err(|_| field.wrong_type("string or array"))?;
    if !(1..=MAX_PIN_DIGESTS).contains(&items.len()) {
        return Err(Rule::PinDigests);
    }
    items.iter().map(|item| Ok(item.text()?.to_owned())).collect()
}

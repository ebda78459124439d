//! The section `[pins]` as text.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};

use foreign_text::one_line;
use oci_image::named::NamedReference;
use oci_image::pins::Pins;
use puller_config::Document;

/// How many places a comment names.
const MAX_PLACES: usize = 4;

/// Pins by the one spelling of their names.
#[derive(Debug, Default)]
pub struct Section(BTreeMap<String, Pin>);

#[derive(Debug)]
struct Pin {
    is_tag: bool,
    /// Each digest and the places where it is named.
    digests: BTreeMap<String, BTreeSet<String>>,
}

impl Section {
    /// Pins an image that has a digest. A tag that has another digest elsewhere is a fault.
    pub fn add(&mut self, place: &str, named: &NamedReference, faults: &mut Vec<String>) {
        let Some(digest) = named.digest() else {
            faults.push(format!("{place}: {named} has no digest"));
            return;
        };
        let name = match named.tag() {
            Some(tag) => format!("{}:{tag}", named.name()),
            None => named.name(),
        };
        let pin = match self.0.entry(name) {
            Entry::Vacant(entry) => {
                entry.insert(Pin { is_tag: named.tag().is_some(), digests: BTreeMap::new() })
            }
            Entry::Occupied(entry) => entry.into_mut(),
        };
        let digest = digest.to_string();
        if pin.is_tag && !pin.digests.is_empty() && !pin.digests.contains_key(&digest) {
            let (other, places) = pin.digests.iter().next().unzip();
            let first = places.and_then(BTreeSet::first);
            faults.push(format!(
                "{place}: {named} has another digest than in {}, {}: a tag is pinned to one",
                first.map_or("", String::as_str),
                other.map_or("", String::as_str),
            ));
            return;
        }
        let places = pin.digests.entry(digest).or_default();
        places.insert(place.to_owned());
    }

    /// Whether guests take the section, by their own function.
    pub fn check(&self, faults: &mut Vec<String>) {
        let checked = Document::parse_measured(self.text().as_bytes());
        let read = checked.and_then(|checked| Pins::read(&checked.document.pins).map(drop));
        if let Err(problems) = read {
            let problems = problems.iter();
            let fault = |problem| format!("these are no pins for a guest: {problem}");
            faults.extend(problems.map(fault));
        }
    }

    /// Writes it.
    pub fn print(&self, out: &mut impl Write) -> io::Result<()> {
        out.write_all(self.text().as_bytes())
    }

    fn text(&self) -> String {
        let mut text = String::from("[pins]\n");
        for (name, pin) in &self.0 {
            let places: BTreeSet<_> = pin.digests.values().flatten().collect();
            for place in places.iter().take(MAX_PLACES) {
                text.push_str(&format!("# {}\n", one_line(place)));
            }
            if let more @ 1.. = places.len().saturating_sub(MAX_PLACES) {
                text.push_str(&format!("# and {more} more\n"));
            }
            // Names and digests have neither quotation marks nor backslashes.
            let digests: Vec<_> = pin.digests.keys().map(|it| format!("\"{it}\"")).collect();
            match &digests[..] {
                [digest] => text.push_str(&format!("\"{name}\" = {digest}\n")),
                several => {
                    let lines = several.iter().map(|digest| format!("  {digest},\n"));
                    let lines: String = lines.collect();
                    text.push_str(&format!("\"{name}\" = [\n{lines}]\n"));
                }
            }
        }
        text
    }
}

//! The table: every row names its disks and what has to become of initdata and of the
//! configuration.
//!
//! All machines are without a TEE and allow that, so that the documents of hostile initdata reach
//! the parser.

use std::collections::BTreeSet;

use crate::hostile_disks::image::{Case, Kind, cases, image};
use crate::hostile_disks::row::{Disk, Expected, Files, Row};
use crate::hostile_disks::stream::{Member, compressed};
use crate::hostile_disks::{device, document};

/// Good initdata, as text.
pub const DOCUMENT: &str = "version = \"0.1.0\"\nalgorithm = \"sha256\"\n[data]\n\
     \"policy.rego\" = \"package agent_policy # uu7Hq-content-of-a-disk\"\n\"aa.toml\" = \"\"\n";

/// A good configuration.
pub const CONFIGURATION: &str =
    "[registries.\"registry.corp.\"]\nauth = \"uu7Hq-content-of-a-disk\"\n";

pub const INITDATA: &[u8; 8] = b"initdata";
pub const IMGPULLR: &[u8; 8] = b"imgpullr";

/// All rows; no two have one name.
pub fn rows() -> Vec<Row> {
    let rows: Vec<Row> =
        [images(), documents(), device::magics(), device::several(), device::devices()]
            .into_iter()
            .flatten()
            .collect();
    let names: BTreeSet<&str> = rows.iter().map(|row| row.name.as_str()).collect();
    assert_eq!(names.len(), rows.len(), "two rows with one name");
    rows
}

/// An image of `document`, small enough for a reader.
pub fn packed(magic: &[u8; 8], document: &[u8]) -> Disk {
    let stream = if document.len() < 64 << 10 {
        Member::stored(document).bytes()
    } else {
        Member::new(document, compressed(document)).bytes()
    };
    Disk::new(image(magic, stream.len() as u64, &stream))
}

pub fn good_initdata() -> Disk {
    packed(INITDATA, DOCUMENT.as_bytes())
}

pub fn good_configuration() -> Disk {
    packed(IMGPULLR, CONFIGURATION.as_bytes())
}

/// What [`DOCUMENT`] becomes.
pub fn measured() -> Expected {
    let policy = "package agent_policy # uu7Hq-content-of-a-disk";
    let files = [("policy.rego", policy), ("aa.toml", "")];
    Expected::Placed(
        files.map(|(name, content)| (name.to_owned(), content.as_bytes().to_vec())).into(),
    )
}

/// What a configuration becomes.
pub fn configured(document: &[u8]) -> Expected {
    Expected::Placed(Files::from([("imagepuller.toml".to_owned(), document.to_vec())]))
}

/// The configuration where initdata was refused.
pub fn follows() -> Expected {
    Expected::refused(&["initdata was refused: failed to "])
}

pub fn row(name: &str, disks: Vec<Disk>, initdata: Expected, configuration: Expected) -> Row {
    Row {
        name: name.to_owned(),
        disks,
        initdata,
        configuration,
        parsed: DOCUMENT.len(),
        in_guests: false,
    }
}

impl Row {
    pub fn in_guests(mut self) -> Self {
        self.in_guests = true;
        self
    }
}

/// Each odd image as either document, beside a good disk of the other kind.
fn images() -> Vec<Row> {
    let kind = |magic, document: &'static str| Kind { magic, document: document.as_bytes() };
    let configuration = |case: Case| Row {
        in_guests: case.in_guests,
        ..row(
            &format!("configuration: {}", case.name),
            vec![good_initdata(), Disk::new(case.image)],
            measured(),
            match case.outcome {
                Ok(document) => configured(&document),
                Err(words) => Expected::refused(&["(\"imgpullr\")", words]),
            },
        )
    };
    let initdata = |case: Case| {
        let parsed = case.outcome.as_ref().map_or(0, Vec::len);
        let (initdata, configuration) = match case.outcome {
            Ok(_) => (measured(), configured(CONFIGURATION.as_bytes())),
            Err(words) => (
                Expected::refused(&["(\"initdata\")", words]),
                Expected::refused(&["initdata was refused: failed to ", words]),
            ),
        };
        Row {
            parsed,
            in_guests: case.in_guests,
            ..row(
                &format!("initdata: {}", case.name),
                vec![Disk::new(case.image), good_configuration()],
                initdata,
                configuration,
            )
        }
    };
    let configurations = cases(kind(IMGPULLR, CONFIGURATION)).into_iter();
    let initdatas = cases(kind(INITDATA, DOCUMENT)).into_iter();
    configurations.map(configuration).chain(initdatas.map(initdata)).collect()
}

fn documents() -> Vec<Row> {
    let initdata = document::initdata().into_iter().map(|(name, bytes, outcome)| {
        let (initdata, configuration) = match outcome {
            Ok(files) => (Expected::Placed(files), configured(CONFIGURATION.as_bytes())),
            Err(words) => (Expected::refused(&["parse initdata from disk ", words]), follows()),
        };
        let disks = vec![packed(INITDATA, &bytes), good_configuration()];
        Row { parsed: bytes.len(), ..row(name, disks, initdata, configuration) }
    });
    let configurations = document::configurations().into_iter().map(|(name, bytes)| {
        let disks = vec![good_initdata(), packed(IMGPULLR, &bytes)];
        row(name, disks, measured(), configured(&bytes))
    });
    let empty = row(
        "configuration: no bytes",
        vec![good_initdata(), packed(IMGPULLR, b"")],
        measured(),
        Expected::Absent,
    );
    initdata.chain(configurations).chain([empty.in_guests()]).collect()
}

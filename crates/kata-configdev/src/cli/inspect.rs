//! `kata-configdev inspect`.

mod initdata;
mod puller;

use std::fs::File;
use std::io::Write;
use std::path::Path;

use config_image::{Magic, ReadAt};
use serde::Serialize;

use crate::cli::CommandError;
use crate::digest;
use crate::host_file::FileFault;
use crate::{exit, image_file};

/// What an image is, as `--json` prints it.
#[derive(Serialize)]
struct Report {
    path: String,
    magic: String,
    /// Length of the gzip stream, which begins at offset 16.
    gzip_bytes: usize,
    /// Length of the image by its header, padding included.
    bytes: usize,
    /// Length of the file or device. More than the image's is legal; less means that the padding is
    /// missing.
    source_bytes: u64,
    /// Digest of the image, of as much of it as the file holds.
    sha256: String,
    document: Content,
}

/// What the document says; its form depends on the magic.
#[derive(Serialize)]
#[serde(untagged)]
enum Content {
    Puller(Box<puller::Report>),
    Initdata(initdata::Report),
}

/// Shows the image `path`. An image whose document is not valid is shown all the same, with the
/// problems, and ends with exit code 65; so does initdata whose image policy is missing or not
/// valid.
pub fn run(path: &Path, json: bool, out: &mut impl Write) -> Result<u8, CommandError> {
    let unreadable = |error: std::io::Error| FileFault::from(error).at(path);
    let file = image_file::open_disk(path).map_err(|fault| fault.at(path))?;
    let found = config_image::probe(&file).map_err(unreadable)?;
    let known = found.filter(|magic| [Magic::IMAGEPULLER, Magic::INITDATA].contains(magic));
    let magic = known.ok_or_else(|| CommandError::UnknownMagic { path: path.into(), found })?;
    let image = config_image::decode(&file, magic)
        .map_err(|source| CommandError::Image { path: path.into(), source })?;
    let source_bytes = file.size().map_err(unreadable)?;
    let report = Report {
        path: path.to_string_lossy().into_owned(),
        magic: magic.to_string(),
        gzip_bytes: image.gzip_len,
        bytes: image.image_len(),
        source_bytes,
        sha256: image_digest(&file, image.image_len(), source_bytes).map_err(unreadable)?,
        document: match magic {
            Magic::IMAGEPULLER => Content::Puller(Box::new(puller::Report::of(&image.document))),
            _ => Content::Initdata(initdata::Report::of(&image.document)),
        },
    };
    if json {
        super::print_json(out, &report)?;
    } else {
        print(&report, path, out)?;
    }
    let valid = match &report.document {
        Content::Puller(document) => document.valid,
        Content::Initdata(document) => document.is_good(),
    };
    Ok(if valid { 0 } else { exit::DATA })
}

/// The digest of the image, whose length the header bounds: a device can be of any size.
fn image_digest(file: &File, image_len: usize, source_bytes: u64) -> std::io::Result<String> {
    let held = usize::try_from(source_bytes).unwrap_or(usize::MAX);
    let mut image = zeroize::Zeroizing::new(vec![0; image_len.min(held)]);
    ReadAt::read_exact_at(file, &mut image, 0)?;
    Ok(digest::sha256(&image))
}

fn print(report: &Report, path: &Path, out: &mut impl Write) -> Result<(), CommandError> {
    writeln!(out, "image     {}", report.path)?;
    writeln!(out, "magic     {}", report.magic)?;
    writeln!(
        out,
        "gzip      {} bytes at offset {}",
        report.gzip_bytes,
        config_image::HEADER_BYTES
    )?;
    writeln!(out, "length    {} bytes", report.bytes)?;
    match report.source_bytes.checked_sub(report.bytes as u64) {
        Some(0) => {}
        Some(more) => writeln!(out, "          and {more} bytes behind the image")?,
        None => writeln!(
            out,
            "          but the file has {} bytes: its padding is missing",
            report.source_bytes
        )?,
    }
    writeln!(out, "sha256    {}", report.sha256)?;
    match &report.document {
        Content::Puller(document) => document.print(path, out),
        Content::Initdata(document) => document.print(path, out),
    }
}

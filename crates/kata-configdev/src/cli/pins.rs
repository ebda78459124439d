//! `kata-configdev pins`.

mod section;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use credential_sources::pod_manifest;
use credential_sources::secret_manifest::MAX_MANIFEST_BYTES;
use foreign_text::{one_line, shown};
use oci_image::digest::Digest;
use oci_image::named::NamedReference;
use serde_json::Value;

use self::section::Section;
use super::CommandError;
use super::check::ask::{Document, Question};
use super::import::outcome::{label, require_one_stdin};
use crate::exit;
use crate::host_file::read_named;

/// How many images imagepuller is asked for at once, which has the same limit.
const ASKED_AT_ONCE: usize = 64;

/// How many kinds of objects without pods are named.
const MAX_KINDS: usize = 16;

/// Writes [pins] of the measured document for the images of pods.
///
/// FILE is a manifest, YAML or JSON: pods, and the pod templates of deployments, daemon sets,
/// stateful sets, replica sets, jobs and cron jobs; objects of other kinds are left out, with a
/// note. An image with a digest is pinned to it, under its tag if it has one, else under its
/// repository. One without a digest is an error, unless --ask says what its tag is now: look at the
/// result, since from then on it is the owner's word.
///
/// The section goes to standard output, sorted, with a comment above each pin that says where it
/// came from. Where an image cannot be pinned nothing is printed, and the exit code is 65, or 69
/// where a registry is not reached or denies access. Nothing but pinned images runs if
/// "only-pins = true" stands at the top of the document, before its tables.
#[derive(Args, Debug)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  kata-configdev pins pod.yaml >> initdata/imagepuller.toml
  kubectl get deployments -o yaml | kata-configdev pins -
  kata-configdev pins --ask --config imagepuller.toml --image registry.corp/team/app:1.2"
)]
pub struct Arguments {
    /// Manifests; - is standard input.
    #[arg(value_name = "FILE", required_unless_present = "images")]
    files: Vec<PathBuf>,
    /// An image's reference; may be repeated.
    #[arg(long = "image", value_name = "IMAGE")]
    images: Vec<String>,
    /// Ask the registries which digests the tags without one have now, by the program imagepuller
    /// (`imagepuller probe`), from this host.
    #[arg(long)]
    ask: bool,
    /// The document with the credentials to ask with.
    #[arg(long, value_name = "DOCUMENT", requires = "ask")]
    config: Option<PathBuf>,
}

/// An image that somebody named, and where.
struct Found {
    place: String,
    named: NamedReference,
}

/// Prints the section, or every reason why there is none.
pub fn run(arguments: &Arguments, out: &mut impl Write) -> Result<u8, CommandError> {
    require_one_stdin(&arguments.files, None)?;
    let mut faults = Vec::new();
    let mut found = Vec::new();
    let mut code = exit::DATA;
    for image in &arguments.images {
        add("--image".to_owned(), image, &mut found, &mut faults);
    }
    for file in &arguments.files {
        of_file(file, &mut found, &mut faults)?;
    }
    if found.is_empty() && faults.is_empty() {
        faults.push("no image was found: FILE has no pod with one".to_owned());
    }
    if faults.is_empty() {
        if arguments.ask {
            code = ask(arguments, &mut found, &mut faults)?;
        } else {
            let unpinned = found.iter().filter(|found| found.named.digest().is_none());
            let fault = |Found { place, named }: &Found| {
                format!(
                    "{place}: {named} has no digest: write one, or have --ask ask the registry \
                    which one the tag has now"
                )
            };
            faults.extend(unpinned.map(fault));
        }
    }
    let mut section = Section::default();
    if faults.is_empty() {
        for Found { place, named } in &found {
            section.add(place, named, &mut faults);
        }
    }
    if faults.is_empty() {
        section.check(&mut faults);
    }
    if faults.is_empty() {
        section.print(out)?;
        return Ok(0);
    }
    let mut err = io::stderr().lock();
    for fault in &faults {
        writeln!(err, "{}", one_line(fault))?;
    }
    Ok(code)
}

/// The images of a file.
fn of_file(
    path: &Path,
    found: &mut Vec<Found>,
    faults: &mut Vec<String>,
) -> Result<(), CommandError> {
    let text = read_named(path, MAX_MANIFEST_BYTES)?;
    let name = label(path);
    let manifests = pod_manifest::parse(&text).map_err(|error| CommandError::Manifest {
        path: name.clone().into(),
        reason: error.to_string(),
    })?;
    let kinds: BTreeSet<_> = manifests.other_kinds.iter().collect();
    if !kinds.is_empty() {
        let some = kinds.iter().take(MAX_KINDS);
        let some: Vec<_> = some.map(|kind| shown(kind).to_string()).collect();
        let more = if kinds.len() > MAX_KINDS { ", ..." } else { "" };
        let kinds = some.join(", ");
        let note = format!("note: {name}: objects of other kinds are left out: {kinds}{more}");
        writeln!(io::stderr(), "{}", one_line(&note))?;
    }
    for found_image in manifests.images {
        let place = format!("{name}: {}", found_image.place);
        add(place, &found_image.image, found, faults);
    }
    Ok(())
}

fn add(place: String, image: &str, found: &mut Vec<Found>, faults: &mut Vec<String>) {
    match NamedReference::parse(image) {
        Ok(named) => found.push(Found { place, named }),
        // The rule does not repeat the text, which may be a URL with a password.
        Err(rule) => faults.push(format!("{place}: {rule}")),
    }
}

/// Asks which digests the tags have that are named without one, each once. Gives the exit code for
/// faults, which is 69 where a registry was not reached or denies access.
fn ask(
    arguments: &Arguments,
    found: &mut [Found],
    faults: &mut Vec<String>,
) -> Result<u8, CommandError> {
    let unpinned = found.iter().filter(|found| found.named.digest().is_none());
    let images: BTreeSet<_> = unpinned.filter_map(Found::tagged).collect();
    let images: Vec<_> = images.into_iter().collect();
    let mut answers = BTreeMap::new();
    let mut code = exit::DATA;
    for images in images.chunks(ASKED_AT_ONCE) {
        let document =
            arguments.config.as_deref().map(|path| Document { path, is_measured: false });
        let question =
            Question { document, images: images.iter().map(OsStr::new).collect(), json: true };
        let answer = question.ask()?;
        code = code.max(answer.code);
        let answer = answer.object();
        for (index, image) in images.iter().enumerate() {
            let target = answer["targets"].get(index);
            answers.insert(image, pinned(target, image));
        }
    }
    for found in found.iter_mut() {
        let answer = found.tagged().and_then(|image| answers.get(&image));
        match answer {
            None => {}
            Some(Ok(named)) => {
                found.named = named.clone();
                found.place.push_str(", as its registry said");
            }
            Some(Err(why)) => faults.push(format!("{}: {}: {why}", found.place, found.named)),
        }
    }
    Ok(code)
}

impl Found {
    /// The image with its tag, or with the one that no tag means; none where it has a digest.
    fn tagged(&self) -> Option<String> {
        let tagged = self.named.clone().into_tagged().ok()?;
        Some(tagged.to_string())
    }
}

/// An image by the digest that a registry named for its tag.
fn pinned(target: Option<&Value>, image: &str) -> Result<NamedReference, String> {
    let digest = digest_of(target, image)?;
    let named = NamedReference::parse(&format!("{image}@{digest}"));
    named.map_err(|error| error.to_string())
}

/// The digest that a registry named for an image.
fn digest_of(target: Option<&Value>, image: &str) -> Result<Digest, String> {
    let target = target
        .filter(|target| target["image"] == image)
        .ok_or("imagepuller did not say what it is")?;
    match (target["works"].as_bool(), target["digest"].as_str()) {
        (Some(true), Some(digest)) => Digest::parse(digest).map_err(|error| error.to_string()),
        _ => {
            let why = target["error"].as_str();
            Err(why.unwrap_or("imagepuller found no digest").to_owned())
        }
    }
}

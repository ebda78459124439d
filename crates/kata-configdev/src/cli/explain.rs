//! `kata-configdev explain`.

mod consequence;
mod image;
mod keys;
pub(super) mod sandbox;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use clap::Args;
use foreign_text::one_line;
use oci_image::pins::Pins;
use pull_route::{Authority, EntryName, PlacedDocument, Reason};
use registry_config::{Document, Problems, RegistryName};
use serde::Serialize;

use self::consequence::Consequences;
use self::image::Image;
use super::finding::{self, Finding, Input};
use super::policy::measured;
use crate::cli::{CommandError, UsageError};
use crate::node_root::NodeRoot;
use crate::sandbox_spec::Pod;
use crate::settings::Settings;
use crate::{choice, exit};

/// What the first line says where no entry holds.
const DEFAULTS: &str = "(defaults)";

/// Says which entry of a document holds for an image, why, and what follows from it; or,
/// with --sandbox, which source wins for each registry of a sandbox.
///
/// With --config the document is that file, which must be valid, as for `check`; without, it is the
/// node's, by the settings, and a line says which. With --measured besides, that file is the
/// measured document of the guest. The first line is the name of the entry exactly as the document
/// has it, or "(defaults)" where none holds.
///
/// The guest plans its pulls with the same code. Where it refuses every pull of the image, the
/// reason is printed and the exit code is 65.
///
/// The measured document's pins and image policy count too: which scope decides, what it asks for,
/// and whether a tag may be resolved. No signature is looked for; `imagepuller pull` does that.
///
/// With --sandbox the document is chosen and completed as when a sandbox starts, by the same code:
/// the annotation in the bundle's config.json, else the document of its namespace or of the node;
/// and below it what the credential providers of the settings offer. They are really run, with this
/// command's user and environment, unless an earlier answer is kept, and answers are kept as for a
/// sandbox; --no-providers leaves them out. Without IMAGE, every registry is shown.
///
/// No secret is shown, and of what providers offer not even the user name.
#[derive(Args, Debug)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  kata-configdev explain --config imagepuller.toml registry.corp:5000/team/app:1.2
  kata-configdev explain --config imagepuller.toml alpine | head -n 1
  kata-configdev explain registry.corp/team/app
  kata-configdev explain --config imagepuller.toml --json registry.corp/app | jq .credentials
  kata-configdev explain --sandbox /run/containerd/io.containerd.runtime.v2.task/k8s.io/ID
  kata-configdev explain --sandbox . --no-providers registry.corp/app
  kata-configdev explain --sandbox . --json | jq '.registries[] | {registry, source, losers}'"
)]
pub struct Arguments {
    /// The document [default: document of the settings]. With --sandbox: the node's, a path or a
    /// pattern, instead of document of the settings.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// The measured document, imagepuller.toml of the initdata, which comes before --config.
    #[arg(long, value_name = "FILE", conflicts_with = "sandbox")]
    measured: Option<PathBuf>,
    /// The sandbox's bundle: the directory with its config.json.
    #[arg(long, value_name = "BUNDLE")]
    sandbox: Option<PathBuf>,
    /// Leave the credential providers out.
    #[arg(long, requires = "sandbox")]
    no_providers: bool,
    /// The settings file [default: $KATA_CONFIGDEV_CONFIG, or /etc/kata-configdev/config.toml].
    #[arg(long, value_name = "FILE")]
    settings: Option<PathBuf>,
    /// The image's reference, as a pod has it. A name without a registry is Docker Hub's.
    #[arg(required_unless_present = "sandbox")]
    image: Option<String>,
    /// Print one JSON object. Of an image: key, rule, image, also_matching, credentials, roots,
    /// decryption_keys and so on. Of a sandbox: bundle, document, providers, findings,
    /// registries, refused, and of an image explanation.
    #[arg(long)]
    json: bool,
}

impl Arguments {
    /// The settings file.
    fn settings_path(&self) -> PathBuf {
        self.settings.clone().unwrap_or_else(Settings::own_path)
    }
}

/// What a document says of an image, as `--json` prints it.
#[derive(Serialize)]
struct Report {
    /// The node's document, where no other is named.
    #[serde(skip_serializing_if = "Option::is_none")]
    document: Option<OfNode>,
    /// The name of the entry as the document has it; `None` for the defaults.
    key: Option<String>,
    image: Image,
    rule: &'static str,
    reason: String,
    /// The name of the entry that says who the puller is, as its document has it, where that is
    /// another one: for the image's repository, or the host's beside one of the owner.
    #[serde(skip_serializing_if = "Option::is_none")]
    credentials_key: Option<String>,
    /// Why the host's document says who the puller is where the owner's shows the way.
    #[serde(skip_serializing_if = "Option::is_none")]
    credentials_reason: Option<String>,
    /// The other entries that match, the most specific first.
    also_matching: Vec<Loser>,
    #[serde(flatten)]
    consequences: Option<Consequences>,
    /// The tables whose keys are tried on encrypted layers, in this order.
    decryption_keys: Vec<keys::Table>,
    /// What the owner's image policy asks of the image.
    #[serde(skip_serializing_if = "Option::is_none")]
    image_policy: Option<measured::Told>,
    /// Why every pull of the image fails before a host is asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
}

/// The node's document, and the settings file that says so.
#[derive(Serialize)]
struct OfNode {
    path: PathBuf,
    settings: PathBuf,
}

/// An entry that matches as well, and why another one holds.
#[derive(Serialize)]
struct Loser {
    key: String,
    rule: &'static str,
    reason: String,
}

/// Explains `arguments.image` by the document `arguments.config`, or the sandbox
/// `arguments.sandbox`.
pub fn run(arguments: &Arguments, out: &mut impl Write) -> Result<u8, CommandError> {
    let image = arguments.image.as_deref().map(Image::parse).transpose();
    let image = image.map_err(|rule| UsageError::ImageReference(rule.to_string()))?;
    match (&arguments.sandbox, image) {
        (Some(bundle), image) => sandbox::run(arguments, bundle, image, out),
        (None, Some(image)) => of_files(arguments, image, out),
        // The command line does not let this happen.
        (None, None) => Ok(exit::USAGE),
    }
}

fn of_files(
    arguments: &Arguments,
    mut image: Image,
    out: &mut impl Write,
) -> Result<u8, CommandError> {
    let (path, input, of_node) = match (&arguments.config, &arguments.settings) {
        (Some(_), Some(_)) => return Err(UsageError::SettingsUseless.into()),
        (Some(path), None) => (path.clone(), Input::read(path)?, None),
        (None, _) => {
            let (found, input) = of_node(arguments.settings_path())?;
            (found.path.clone(), input, Some(found))
        }
    };
    let configuration = match placed(&path, input.parse()) {
        Ok(configuration) => configuration,
        Err(problems) => return refuse(&path, &problems),
    };
    let measured = match &arguments.measured {
        Some(path) => match placed(path, Input::read(path)?.parse_measured()) {
            Ok(measured) => measured,
            Err(problems) => return refuse(path, &problems),
        },
        None => PlacedDocument::default(),
    };
    let settings = pull_route::Settings::new(measured, configuration);
    let (pins, path) = settings.pins();
    let owners = Pins::read(pins).and_then(|pins| {
        let against = image.pin(&pins).map(|refused| refused.to_string());
        let asked = settings.image_policy();
        let asked = asked.map(|written| measured::explain(written, &image.ruled)).transpose()?;
        Ok((against, asked))
    });
    let (against, asked) = match owners {
        Ok(owners) => owners,
        Err(problems) => return refuse(path, &problems),
    };
    image.tag_allowed = asked.as_ref().and_then(|told| told.tag_allowed) == Some(true);
    let mut report = Report::of(&settings, image, &|_| false);
    let of_policy = asked.as_ref().and_then(|told| told.refused.clone());
    report.refused = report.refused.or(against).or(of_policy);
    report.image_policy = asked;
    report.document = of_node;
    if arguments.json {
        super::print_json(out, &report)?;
    } else {
        writeln!(out, "{}", report.first_line())?;
        print_rows(&report.rows(), out)?;
    }
    Ok(code(report.refused.as_ref()))
}

/// The document that every pod gets that names none, by the settings file `path`.
fn of_node(path: PathBuf) -> Result<(OfNode, Input), CommandError> {
    let settings = Settings::load(&path)?;
    let chosen = match settings.is_by_namespace() {
        true => None,
        false => choice::choose(&NodeRoot::open(None)?, &settings, &Pod::default())?,
    };
    let Some(file) = chosen else {
        return Err(UsageError::NoDocument(path).into());
    };
    Ok((OfNode { path: file.path, settings: path }, Input::of(file.text, None)))
}

fn placed(
    path: &Path,
    parsed: Result<(Document, Vec<Finding>), Problems>,
) -> Result<PlacedDocument, Problems> {
    let (document, _) = parsed?;
    Ok(PlacedDocument { document: Arc::new(document), path: path.into(), is_present: true })
}

/// Prints why a document of the command line is not valid.
fn refuse(path: &Path, problems: &Problems) -> Result<u8, CommandError> {
    let mut err = std::io::stderr();
    finding::print(&mut err, path, "", &finding::of_problems(problems))?;
    writeln!(err, "{}: not valid, every pull would fail", path.display())?;
    Ok(exit::DATA)
}

impl Report {
    /// What the documents say of `image`; of entries whose credentials were offered no user name.
    fn of(
        settings: &pull_route::Settings,
        image: Image,
        is_offered: &dyn Fn(&RegistryName) -> bool,
    ) -> Self {
        let Image { host, repository, .. } = &image;
        let authority = settings.image(host, repository);
        let name = name_of(&authority.name);
        let reason = match name.cloned() {
            Some(name) => Reason::InCharge { name, host: host.clone() },
            None => Reason::NoEntry(host.clone()),
        };
        let plan = settings.plan(host, repository);
        let winners: Vec<_> = authority.entries().collect();
        let also_matching = settings.matches(host, repository).filter_map(|(origin, found)| {
            let is_same = |winner: &&EntryName| winner.origin() == Some(origin);
            let reason = match winners.iter().any(is_same) {
                true => Reason::loses(found),
                false => Reason::LosesToMeasured,
            };
            let is_loser = !winners.contains(&&EntryName::Entry(found.clone(), origin));
            is_loser.then(|| Loser {
                key: found.written(),
                rule: rule(Some(found)),
                reason: reason.to_string(),
            })
        });
        Self {
            document: None,
            key: name.map(RegistryName::written),
            rule: rule(name),
            reason: reason.to_string(),
            credentials_key: access_name(&authority),
            credentials_reason: authority.combined().map(|reason| reason.to_string()),
            also_matching: also_matching.collect(),
            refused: plan.as_ref().err().map(ToString::to_string),
            consequences: plan.ok().map(|plan| Consequences::of(&plan, is_offered)),
            image_policy: None,
            decryption_keys: keys::tables(settings, &image),
            image,
        }
    }

    fn first_line(&self) -> &str {
        self.key.as_deref().unwrap_or(DEFAULTS)
    }

    fn rows(&self) -> Vec<Row> {
        let mut rows = Vec::new();
        if let Some(OfNode { path, settings }) = &self.document {
            rows.push(("document", format!("{}, by {}", path.display(), settings.display())));
        }
        rows.push(("image", self.image.to_string()));
        rows.push(("why", self.reason.clone()));
        let account = self.credentials_key.as_ref();
        let account = account
            .map(|key| format!("\"{key}\" holds for this repository and says who the puller is"));
        let account = self.credentials_reason.clone().or(account);
        rows.extend(account.map(|text| ("account", text)));
        for loser in &self.also_matching {
            rows.push(("loses", format!("\"{}\": {}", loser.key, loser.reason)));
        }
        rows.extend(self.consequences.iter().flat_map(Consequences::rows));
        rows.extend(keys::told(&self.decryption_keys).map(|told| ("keys", told)));
        rows.extend(self.image_policy.iter().flat_map(measured::Told::rows));
        rows.extend(self.refused.iter().map(|rule| ("refused", rule.clone())));
        rows
    }
}

/// The kind of name by which the matcher decided.
fn rule(winner: Option<&RegistryName>) -> &'static str {
    match winner {
        None => "defaults",
        Some(name) if name.repositories().is_some() => "repositories",
        Some(name) if name.has_port() => "literal with port",
        Some(name) if name.is_literal() => "literal",
        Some(name) if name.is_any() => "everything",
        Some(_) => "suffix",
    }
}

/// The name of an entry, if it is one.
fn name_of(entry: &EntryName) -> Option<&RegistryName> {
    match entry {
        EntryName::Entry(name, _) => Some(name),
        _ => None,
    }
}

/// The name of the entry that says who the puller is, where that is another one.
fn access_name(authority: &Authority) -> Option<String> {
    let access = name_of(authority.credentials_name());
    let is_another =
        |name: &&RegistryName| name.repositories().is_some() || authority.combined().is_some();
    access.filter(is_another).map(RegistryName::written)
}

/// The exit code: whether a pull can work at all.
fn code(refused: Option<&String>) -> u8 {
    refused.map_or(0, |_| exit::DATA)
}

/// Label and text of a line that people get.
pub(super) type Row = (&'static str, String);

pub(super) fn print_rows(rows: &[Row], out: &mut impl Write) -> Result<(), CommandError> {
    for (label, text) in rows {
        let line = format!("{label:<12}{text}");
        writeln!(out, "{}", one_line(&line))?;
    }
    Ok(())
}

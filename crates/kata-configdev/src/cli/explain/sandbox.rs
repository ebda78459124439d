//! `kata-configdev explain --sandbox`: who wins for each registry of a sandbox.
//!
//! What a sandbox would get is found out by making it, not by a second description of how it is
//! made.

pub(in crate::cli) mod registry;

use std::io::Write;
use std::path::Path;
use std::sync::Arc;

use foreign_text::one_line;
use pull_route::PlacedDocument;
use serde::Serialize;

use self::registry::{Registry, row};
use super::{Arguments, Image, Report, Row, print_rows};
use crate::cli::CommandError;
use crate::namespace::Namespace;
use crate::providers::Line;
use crate::sandbox_document::{ChosenBy, SandboxDocument};
use crate::sandbox_spec::{self, Pod};
use crate::settings::{CredentialProviders, Settings};

/// How messages call a document that is no file.
const OFFERED: &str = "what credential providers offer";

/// What becomes of credential providers where the settings name some.
const ASKED: &str = "asked";

/// The answer, as `--json` prints it.
#[derive(Serialize)]
struct Answer<'a> {
    bundle: &'a Path,
    /// The pod's, where the document depends on it.
    namespace: Option<&'a Namespace>,
    /// `None` where the sandbox gets no disk.
    document: Option<DocumentReport<'a>>,
    /// Why it is this document, or none.
    why: &'static str,
    providers: &'static str,
    /// What is not about one registry.
    findings: Vec<&'a Line>,
    registries: Vec<Registry<'a>>,
    /// Why every pull fails; of an image, its explanation says it.
    #[serde(skip_serializing_if = "Option::is_none")]
    refused: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    explanation: Option<Report>,
}

#[derive(Serialize)]
struct DocumentReport<'a> {
    /// `None` where it is empty but for what credential providers offer.
    path: Option<&'a Path>,
    chosen_by: &'static str,
}

/// Explains the sandbox of `bundle`, or `image` in it.
pub fn run(
    arguments: &Arguments,
    bundle: &Path,
    image: Option<Image>,
    out: &mut impl Write,
) -> Result<u8, CommandError> {
    let pod = sandbox_spec::pod(bundle)?;
    let (settings, providers) = settings(arguments)?;
    let chosen = SandboxDocument::choose(&settings, &pod)?;
    let complete = chosen.map(|chosen| chosen.provide_at_start(&settings));
    let complete = complete.as_ref();
    let (chosen_by, why) = match complete {
        Some(complete) => reason(complete.chosen_by),
        None => ("", no_disk(&settings, &pod)),
    };
    let refused = complete.and_then(|complete| complete.document.node_error.as_ref());
    let lines = complete.map_or(&[][..], |complete| &complete.contribution.lines);
    let answer = Answer {
        bundle,
        namespace: complete.and_then(|complete| complete.namespace.as_ref()),
        document: complete.map(|complete| DocumentReport { path: complete.own_path(), chosen_by }),
        why,
        providers: match refused {
            Some(_) if providers == ASKED => "not asked, because every pull is refused",
            _ => providers,
        },
        findings: lines.iter().filter(|line| line.registry.is_empty()).collect(),
        registries: match (complete.filter(|_| refused.is_none()), &image) {
            (None, _) => Vec::new(),
            (Some(complete), Some(image)) => {
                registry::of_image(complete, image).into_iter().collect()
            }
            (Some(complete), None) => registry::all(complete),
        },
        refused: refused
            .filter(|_| image.is_none())
            .map(|reason| pull_route::Error::NodeError(reason.clone()).to_string()),
        explanation: image.map(|image| {
            let placed = |complete: &SandboxDocument| PlacedDocument {
                document: Arc::new(complete.document.clone()),
                path: complete.own_path().unwrap_or(Path::new(OFFERED)).into(),
                is_present: true,
            };
            let none = PlacedDocument::default();
            let settings =
                pull_route::Settings::new(none, complete.map(placed).unwrap_or_default());
            let is_offered = |name: &_| complete.is_some_and(|own| registry::is_offered(own, name));
            Report::of(&settings, image, &is_offered)
        }),
    };
    if arguments.json {
        crate::cli::print_json(out, &answer)?;
    } else {
        answer.print(out)?;
    }
    Ok(super::code(answer.refusal()))
}

/// The node's settings with what the arguments say instead, and what that means for credential
/// providers.
fn settings(arguments: &Arguments) -> Result<(Settings, &'static str), CommandError> {
    let mut settings = Settings::load(&arguments.settings_path())?;
    if let Some(config) = &arguments.config {
        settings.document = Some(config.clone());
    }
    let is_asked = settings.credential_providers.is_wanted();
    let providers = match (is_asked, arguments.no_providers) {
        (false, _) => "not in the settings",
        (true, true) => "left out",
        (true, false) => ASKED,
    };
    if arguments.no_providers {
        settings.credential_providers = CredentialProviders::default();
    }
    settings.credential_providers.by_child = true;
    Ok((settings, providers))
}

impl Answer<'_> {
    fn print(&self, out: &mut impl Write) -> Result<(), CommandError> {
        if let Some(explanation) = &self.explanation {
            writeln!(out, "{}", explanation.first_line())?;
            print_rows(&explanation.rows(), out)?;
            let sources = self.registries.iter().flat_map(Registry::source_rows);
            print_rows(&sources.collect::<Vec<_>>(), out)?;
            return print_rows(&self.rows(), out);
        }
        print_rows(&self.rows(), out)?;
        for registry in &self.registries {
            writeln!(out, "\n{}", one_line(&registry.registry))?;
            print_rows(&registry.rows(), out)?;
        }
        Ok(())
    }

    /// Why the sandbox does not start, or pulls nothing.
    fn refusal(&self) -> Option<&String> {
        let pull = self.explanation.as_ref().and_then(|image| image.refused.as_ref());
        pull.or(self.refused.as_ref())
    }

    /// What holds for all registries.
    fn rows(&self) -> Vec<Row> {
        let document = match &self.document {
            None => format!("none, so the sandbox gets no disk: {}", self.why),
            Some(DocumentReport { path: None, .. }) => format!("an empty one: {}", self.why),
            Some(DocumentReport { path: Some(path), .. }) => {
                format!("{}: {}", path.display(), self.why)
            }
        };
        let mut rows = vec![("sandbox", self.bundle.display().to_string())];
        let namespace = self.namespace.as_ref();
        rows.extend(namespace.map(|name| ("namespace", name.to_string())));
        rows.push(("document", document));
        rows.push(("providers", self.providers.to_owned()));
        rows.extend(self.findings.iter().map(|line| row(line)));
        rows.extend(self.refused.iter().map(|rule| ("refused", rule.clone())));
        rows
    }
}

/// Why a sandbox of this `pod` gets no disk.
fn no_disk(settings: &Settings, pod: &Pod) -> &'static str {
    match pod.document {
        _ if !settings.enabled => "the settings say enabled = false, so that the wrapper adds none",
        Some(_) => "the pod's annotation is empty, which asks for no disk",
        None if settings.is_by_namespace() => {
            "the pod's namespace has no document, and the settings name none instead"
        }
        None => "neither the pod's annotation nor the settings name a document",
    }
}

fn reason(chosen_by: ChosenBy) -> (&'static str, &'static str) {
    match chosen_by {
        ChosenBy::Pod => ("pod", "the pod's annotation names it"),
        ChosenBy::Node => ("node", "the settings name it, and the pod no other"),
        ChosenBy::Namespace => ("namespace", "it is that of the pod's namespace"),
        ChosenBy::Fallback => {
            ("fallback", "the pod's namespace has none, and the settings name it instead")
        }
        ChosenBy::Providers => {
            ("providers", "nobody names one, but the settings ask credential providers")
        }
    }
}

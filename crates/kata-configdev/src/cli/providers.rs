//! `kata-configdev providers`.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;
use foreign_text::one_line;
use serde::Serialize;

use super::config::SettingsFile;
use super::explain::sandbox::registry::{self, Registry, row};
use super::explain::{Row, print_rows};
use crate::cli::CommandError;
use crate::exit;
use crate::providers::{Kept, Line, Outcome};
use crate::sandbox_document::SandboxDocument;
use crate::settings::Settings;

/// Asks the kubelet's credential providers now, and shows what each of them gives for which
/// registry.
///
/// They are asked as for a sandbox that starts, with this command's user and environment, about the
/// registries of the settings, and what they offer is put below the node's document. Unlike for a
/// sandbox, kept answers do not count, and a provider is asked again that failed a moment ago; what
/// they answer now is kept for sandboxes. Registries for which the document has credentials are not
/// asked about; where each namespace has a document, none counts. The lines are those that a
/// sandbox's start writes to Kata's log.
///
/// The exit code is 69 where a provider gave no answer, or none can be asked. No secret is shown,
/// and not even the user name.
#[derive(Args, Debug)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  kata-configdev providers
  kata-configdev providers --json | jq '.registries[] | {registry, asked, findings}'"
)]
pub struct Arguments {
    #[command(flatten)]
    settings: SettingsFile,
    /// Print one JSON object: config, bin_dir, document, findings, and registries as explain
    /// --sandbox has them.
    #[arg(long)]
    json: bool,
}

/// The answer, as `--json` prints it.
#[derive(Serialize)]
struct Answer<'a> {
    /// The kubelet's configuration of the providers; `None` where it is not found.
    config: Option<PathBuf>,
    /// The directory of their programs.
    bin_dir: Option<PathBuf>,
    /// The node's document, if the settings name one.
    document: Option<&'a Path>,
    /// What is not about one registry.
    findings: Vec<&'a Line>,
    registries: Vec<Registry<'a>>,
}

/// Asks, and prints what came of it.
pub fn run(arguments: &Arguments, out: &mut impl Write) -> Result<u8, CommandError> {
    let settings = Settings::load(&arguments.settings.path())?;
    if !settings.credential_providers.is_wanted() {
        return Err(CommandError::NoProviders);
    }
    let is_by_namespace = settings.is_by_namespace();
    let mut asked = Settings {
        // Whether sandboxes get anything is another question.
        enabled: true,
        // As is, of whose.
        document: settings.document.filter(|_| !is_by_namespace),
        ..settings
    };
    asked.credential_providers.by_child = true;
    let Some(chosen) = SandboxDocument::of_node(&asked)? else {
        return Err(CommandError::NoProviders);
    };
    let complete = chosen.provide_by(&asked, Kept::Ignored);
    let contribution = &complete.contribution;
    let sources = asked.credential_providers.sources(Path::new("/"));
    let mut registries = registry::all(&complete);
    registries.retain(Registry::is_asked_about);
    let answer = Answer {
        config: sources.as_ref().map(|found| found.config.clone()),
        bin_dir: sources.map(|found| found.bin_dir),
        document: complete.own_path(),
        findings: contribution.lines.iter().filter(|line| line.registry.is_empty()).collect(),
        registries,
    };
    match arguments.json {
        true => super::print_json(out, &answer)?,
        false => answer.print(out)?,
    }
    let has_failed = |outcome| matches!(outcome, Outcome::Failed | Outcome::Hung);
    let asked = &contribution.asked;
    let failed = asked.is_empty() || asked.iter().any(|one| has_failed(one.outcome));
    Ok(if failed { exit::UNAVAILABLE } else { 0 })
}

impl Answer<'_> {
    fn print(&self, out: &mut impl Write) -> Result<(), CommandError> {
        let path = |path: Option<&Path>| match path {
            Some(path) => path.display().to_string(),
            None => "none".to_owned(),
        };
        let mut rows: Vec<Row> = vec![
            ("config", path(self.config.as_deref())),
            ("programs", path(self.bin_dir.as_deref())),
            ("document", path(self.document)),
        ];
        rows.extend(self.findings.iter().map(|line| row(line)));
        print_rows(&rows, out)?;
        for registry in &self.registries {
            writeln!(out, "\n{}", one_line(&registry.registry))?;
            print_rows(&registry.rows(), out)?;
        }
        Ok(())
    }
}

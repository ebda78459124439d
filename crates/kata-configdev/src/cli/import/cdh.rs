//! `kata-configdev import cdh`.

use std::path::PathBuf;

use cdh_config::{MAX_CDH_BYTES, MAX_PARAMETERS_BYTES, Meaning};
use clap::Args;
use credential_sources::{Finding, Loss};
use serde_json::json;

use super::outcome::{Content, Imported, Options, label};
use crate::cli::CommandError;
use crate::cli::policy::measured;
use crate::host_file::read_named;

/// The key whose text is a policy.
const POLICY: &str = "image.image_security_policy";

/// Prints the measured document that a data hub's cdh.toml means: what a guest makes of [image],
/// when the file lies in its measured initdata.
///
/// What has no counterpart is an error (exit code 65), as it is for each pull of such a guest.
#[derive(Args, Debug)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  kata-configdev import cdh --output measured.toml cdh.toml
  kata-configdev import cdh --parameters /proc/cmdline cdh.toml"
)]
pub struct Arguments {
    /// The file, or "-" for standard input.
    file: PathBuf,
    /// A line of kernel parameters, as /proc/cmdline has it. They count where the file has no
    /// [image].
    #[arg(long, value_name = "FILE")]
    parameters: Option<PathBuf>,
    #[command(flatten)]
    pub options: Options,
}

impl Arguments {
    pub fn read(&self) -> Result<Imported, CommandError> {
        let parameters = self.parameters.as_ref();
        self.options.target.require([&self.file].into_iter().chain(parameters))?;
        let text = read_named(&self.file, MAX_CDH_BYTES)?;
        let parameters = parameters.map(|path| read_named(path, MAX_PARAMETERS_BYTES));
        let parameters = parameters.transpose()?.unwrap_or_default();
        let source = label(&self.file);
        let finding = |found: &cdh_config::Finding| {
            let cdh_config::Finding { place, text } = found;
            let text = match place.line {
                0 => text.clone(),
                line => format!("line {line}: {text}"),
            };
            Finding::new(&source, &place.key, Loss::Lost, text)
        };
        let parameters = String::from_utf8_lossy(&parameters);
        let (meaning, faults) = match cdh_config::read(Some(&text), &parameters) {
            Ok(meaning) => (meaning, Vec::new()),
            Err(problems) => (Meaning::default(), problems),
        };
        let mut faults: Vec<_> = faults.iter().map(finding).collect();
        let mut findings: Vec<_> = meaning.notes.iter().map(finding).collect();
        let of_policy = |loss: Loss, text: String| Finding::new(&source, POLICY, loss, text);
        match measured::warnings(&meaning.document) {
            Ok(warnings) => {
                let noted = warnings.into_iter();
                findings.extend(noted.map(|warning| of_policy(Loss::Note, warning.message)));
            }
            Err(problems) => {
                let faulty = problems.iter().map(|problem| problem.rule.to_string());
                faults.extend(faulty.map(|text| of_policy(Loss::Lost, text)));
            }
        }
        let is_empty = meaning.document.written_bytes() == 0;
        if is_empty && meaning.is_of_hub {
            let text = "says nothing about image pulls, so that the document is empty";
            findings.push(Finding::new(&source, "", Loss::Note, text));
        }
        let content = Content::Measured(Box::new(meaning.document), source);
        // A guest with a file of the hub that says nothing pulls.
        let is_empty = is_empty && !meaning.is_of_hub;
        Ok(Imported { content, is_empty, findings, faults, more: json!({}) })
    }
}

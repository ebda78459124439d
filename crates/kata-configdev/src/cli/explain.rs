//! `kata-configdev explain`.

mod consequence;
mod image;
mod reason;

use std::io::Write;
use std::path::PathBuf;

use clap::Args;
use puller_config::Match;
use serde::Serialize;

use self::consequence::Consequences;
use self::image::Image;
use self::reason::Loser;
use super::finding::{self, Input};
use crate::{Error, exit, lines};

/// What the first line says where no entry holds.
const DEFAULTS: &str = "(defaults)";

/// Says which entry of a document holds for an image, why, and what follows from it.
///
/// The first line is the name of the entry exactly as the document has it, or "(defaults)" where none
/// holds. No secret is shown. The document must be valid, as for `check`.
#[derive(Args, Debug)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Examples:
  kata-configdev explain --config imagepuller.toml registry.corp:5000/team/app:1.2
  kata-configdev explain --config imagepuller.toml alpine | head -n 1
  kata-configdev explain --config imagepuller.toml --json registry.corp/app | jq .credentials"
)]
pub struct Arguments {
    /// The document.
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// The image's reference, as a pod has it. A name without a registry is Docker Hub's.
    image: String,
    /// Print one JSON object: key, rule, image, also_matching, credentials, roots and so on.
    #[arg(long)]
    json: bool,
}

/// The answer, as `--json` prints it.
#[derive(Serialize)]
struct Report {
    /// The name of the entry as the document has it; `None` for the defaults.
    key: Option<String>,
    image: Image,
    rule: &'static str,
    reason: String,
    /// The other entries that match, the most specific first.
    also_matching: Vec<Loser>,
    #[serde(flatten)]
    consequences: Consequences,
}

/// Explains `arguments.image` by the document `arguments.config`.
pub fn run(arguments: &Arguments, out: &mut impl Write) -> Result<u8, Error> {
    let Arguments {
        config,
        image,
        json,
    } = arguments;
    let image = Image::parse(image).map_err(Error::ImageReference)?;
    let document = match Input::read(config)?.parse() {
        Ok((document, _)) => document,
        Err(problems) => {
            let mut err = std::io::stderr();
            finding::print(&mut err, config, "", &finding::of_problems(&problems))?;
            writeln!(
                err,
                "{}: not valid, every pull would fail",
                config.display()
            )?;
            return Ok(exit::DATA);
        }
    };
    let found = document.registries.entry_for(&image.host);
    let key = match found {
        Match::Entry { key, .. } => Some(key.written()),
        Match::Defaults => None,
    };
    let mut matches = document.registries.matches(&image.host);
    let winner = matches.next().map(|(key, _)| key);
    let report = Report {
        key,
        rule: reason::rule(winner),
        reason: reason::why(winner, &image.host),
        also_matching: matches.map(|(key, _)| Loser::of(key)).collect(),
        consequences: Consequences::of(&document, &image.host, found),
        image,
    };
    if *json {
        super::print_json(out, &report)?;
    } else {
        print(&report, out)?;
    }
    Ok(0)
}

fn print(report: &Report, out: &mut impl Write) -> Result<(), Error> {
    writeln!(out, "{}", report.key.as_deref().unwrap_or(DEFAULTS))?;
    let mut rows = vec![
        ("image", report.image.to_string()),
        ("why", report.reason.clone()),
    ];
    for loser in &report.also_matching {
        rows.push(("loses", format!("\"{}\": {}", loser.key, loser.reason)));
    }
    rows.extend(report.consequences.rows());
    for (label, text) in rows {
        let line = format!("{label:<12}{text}");
        writeln!(out, "{}", lines::on_one_line(&line))?;
    }
    Ok(())
}

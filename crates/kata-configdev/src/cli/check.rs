//! `kata-configdev check`.

use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Args;

use self::ask::Question;
use self::report::Report;
use super::finding::Input;
use super::import::outcome;
use crate::cli::{CommandError, UsageError};

mod ask;
mod report;

/// Shows every problem of documents at once, with line and key.
///
/// Problems make a document unusable: exit code 65. Warnings are about what is legal but probably
/// not meant, and about who else can read the file: exit code 0, or with --strict 65. Notes say what
/// cannot be checked, such as an image policy that the guest gets elsewhere. Of several documents
/// each is checked, also behind one that cannot be read.
///
/// With --ask a valid document is tried: is each registry reached, its certificate trusted, the
/// account let in. The host asks by its own network, which a guest's may differ from. Then the exit
/// code is 0 only if all would work; else 65, or 69 where a host is not reached or denies access.
#[derive(Args, Debug)]
#[command(
    verbatim_doc_comment,
    override_usage = "kata-configdev check [OPTIONS] FILE...\n       \
                      kata-configdev check [OPTIONS] --ask FILE [IMAGE]...",
    after_help = "\
Examples:
  kata-configdev check /etc/kata-configdev/imagepuller.toml
  kata-configdev check --strict tenants/*.toml
  kata-configdev check --json imagepuller.toml | jq '.problems[].key'
  kata-configdev check --measured initdata/imagepuller.toml
  kata-configdev check --ask imagepuller.toml registry.corp/team/app:1.2
  decrypt-my-secret | kata-configdev check -"
)]
pub struct Arguments {
    /// The documents, or "-" for standard input. With --ask the first is the document, and what
    /// follows are the images to ask for, such as registry.corp/team/app@sha256:...
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// They are measured documents, imagepuller.toml of the initdata, which may have [resources]
    /// too.
    #[arg(long)]
    measured: bool,
    /// Warnings are errors: exit code 65.
    #[arg(long)]
    strict: bool,
    /// Ask the registries too: for each IMAGE, else for each entry, the way of a pull up to the
    /// manifest, by the program imagepuller (`imagepuller probe`), from this host.
    #[arg(long)]
    ask: bool,
    /// Print one JSON object: path, valid, registries, record, problem_count, problems, warnings,
    /// and notes where there are some; with --ask also asked, the object that imagepuller probe
    /// prints; of a file that cannot be read also error and remedy. Several documents have one
    /// object each, on a line of its own.
    #[arg(long)]
    json: bool,
}

impl Arguments {
    /// The documents and the images.
    fn split(&self) -> Result<(&[PathBuf], &[PathBuf]), UsageError> {
        let is_stdin = |path: &&PathBuf| path.as_path() == Path::new("-");
        if self.ask {
            let (documents, images) = self.files.split_at(1);
            // No reference is the path of a file that is there by chance.
            let is_document = |image: &&PathBuf| is_stdin(image) || image.is_file();
            return match images.iter().find(is_document) {
                Some(document) => Err(UsageError::AskBySeveral(document.clone())),
                None => Ok((documents, images)),
            };
        }
        outcome::require_one_stdin(&self.files)?;
        Ok((&self.files, &[]))
    }
}

/// Checks the documents, and prints every finding. The exit code says whether all are valid; with
/// `--ask` also whether pulls by the document would work.
pub fn run(arguments: &Arguments, out: &mut impl Write) -> Result<u8, CommandError> {
    let (documents, images) = arguments.split()?;
    let mut code = 0;
    for path in documents {
        let found = match Input::read(path) {
            Ok(input) if arguments.ask && !input.is_file() => {
                return Err(UsageError::AskedTwice(path.clone()).into());
            }
            Ok(input) => {
                let mut report = Report::of(path, &input, arguments.measured);
                let asked = if arguments.ask && report.valid {
                    Some(Question::of(path, arguments, images))
                } else {
                    None
                };
                one(&mut report, asked, documents.len(), arguments, out)?
            }
            Err(error) if arguments.json => {
                print_json(&Report::unread(path, &error), documents.len(), out)?;
                error.exit_code()
            }
            Err(error) => super::report(&error),
        };
        // The first document's fault decides, as of commands in a row.
        code = if code == 0 { found } else { code };
    }
    Ok(code)
}

/// Prints what was found of one document, asks the registries, and gives the exit code.
fn one(
    report: &mut Report,
    question: Option<Question<'_>>,
    documents: usize,
    arguments: &Arguments,
    out: &mut impl Write,
) -> Result<u8, CommandError> {
    let own = report.code(arguments.strict);
    let asked = if arguments.json {
        let asked = question.map_or(0, |question| report.ask(&question));
        print_json(report, documents, out)?;
        asked
    } else {
        report.print(arguments.strict, out)?;
        match question {
            Some(question) => told(&question, out)?,
            None => 0,
        }
    };
    Ok(if asked == 0 { own } else { asked })
}

/// Asks the registries, and prints what the program says as it says it.
fn told(question: &Question<'_>, out: &mut impl Write) -> Result<u8, CommandError> {
    writeln!(out, "{}:", ask::FROM)?;
    out.flush()?;
    let answer = question.ask()?;
    out.write_all(&answer.said)?;
    Ok(answer.code)
}

/// Prints the object of one document; of several each on its line, so that a reader of one reads
/// the others too.
fn print_json(report: &Report, documents: usize, out: &mut impl Write) -> Result<(), CommandError> {
    if documents == 1 {
        return super::print_json(out, report);
    }
    super::json::print_line(out, report)
}

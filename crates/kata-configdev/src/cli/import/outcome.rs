//! The one way of all imports: what was read is put below a document, told and written.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::Args;
use credential_sources::decryption_secret::{Key, put_below};
use credential_sources::merge::{self, MergeError, merge};
use credential_sources::{Finding, Loss, Offer, combine};
use foreign_text::one_line;
use registry_config::{Document, Origin, RegistryName, Warning};
use serde::Serialize;
use serde_json::{Value, json};
use zeroize::Zeroizing;

use super::target::Target;
use crate::cli::{CommandError, UsageError};
use crate::exit;

/// What a reader found in files of its kind, and what there is to say of it.
#[derive(Debug)]
pub struct Imported {
    /// What a document can have of it.
    pub content: Content,
    /// Whether that is nothing at all.
    pub is_empty: bool,
    /// What was left out, and what changes its meaning.
    pub findings: Vec<Finding>,
    /// What is wrong, so that there is no document.
    pub faults: Vec<Finding>,
    /// What else this import has for programs, as a JSON object.
    pub more: Value,
}

/// What a document can have of files, by the rules for adding it.
#[derive(Debug)]
pub enum Content {
    /// Accounts, of which the first one for a registry is tried first.
    Accounts(Vec<Offer>),
    /// Keys of encrypted images.
    Keys(Vec<Key>),
    /// Documents of the host, of which an earlier one wins.
    Configs(Vec<(Document, Sources)>),
    /// A document of the owner, and its file.
    Measured(Box<Document>, String),
}

/// Where the entries of a document come from; without a name all else.
pub type Sources = BTreeMap<Option<RegistryName>, String>;

/// The options of every import.
#[derive(Args, Debug)]
pub struct Options {
    #[command(flatten)]
    pub target: Target,
    #[command(flatten)]
    pub printed: Printed,
}

/// How the outcome is printed, as options.
#[derive(Clone, Copy, Debug, Args)]
pub struct Printed {
    /// Print no document if anything is left out or changes its meaning (exit code 65).
    #[arg(long)]
    pub strict: bool,
    /// Print an empty document where the files have nothing for one, instead of failing (65).
    #[arg(long)]
    allow_empty: bool,
    /// Print one JSON object: document, findings, faults, and what else this import tells.
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Report<'a> {
    /// `None` where there are faults, or with `--strict` losses.
    document: Option<&'a str>,
    findings: &'a [Finding],
    faults: &'a [Finding],
    #[serde(flatten)]
    more: &'a Value,
}

impl Imported {
    /// Whether there will be no document of it, unless an empty one is wanted.
    pub fn has_nothing(&self) -> bool {
        self.is_empty || !self.faults.is_empty()
    }

    /// Adds what other files of the node say, below what these do.
    pub fn add(&mut self, other: Self) {
        self.more = json!({"unlisted": self.unlisted() + other.unlisted()});
        if let (Content::Configs(configs), Content::Configs(more)) =
            (&mut self.content, other.content)
        {
            configs.extend(more);
        }
        self.is_empty &= other.is_empty;
        self.findings.extend(other.findings);
        self.faults.extend(other.faults);
    }

    /// Puts it below the document of the options, tells what there is to say, and writes the
    /// outcome. Says how the command ends.
    pub fn finish(
        mut self,
        Options { target, printed }: &Options,
        out: &mut impl Write,
    ) -> Result<u8, CommandError> {
        let base = target.base()?;
        let before: &[u8] = base.as_ref().map_or(&[], |base| &base.text);
        let text = self.added(before, &target.base_name(), target.header());
        let text = text.filter(|_| self.is_accepted(*printed));
        if let (Some(text), true) = (&text, target.file().is_some()) {
            target.write(base.as_ref(), text, out)?;
        }
        let document = text.as_ref().and_then(|text| str::from_utf8(text).ok());
        self.print(document, target.file().is_some(), *printed, out)
    }

    /// The document with what was read, below a `header` if there is news, and what there is to say
    /// about that. What is wrong with it becomes a fault.
    pub fn added(&mut self, before: &[u8], name: &str, header: &str) -> Option<Zeroizing<Vec<u8>>> {
        let Self { content, findings, faults, more, .. } = self;
        let added = match content {
            Content::Accounts(offers) => merge(before, offers).map(|merged| {
                findings.extend(merged.origins.iter().flat_map(|origin| origin.findings(name)));
                let origins = merged.origins.iter().filter(|_| faults.is_empty());
                *more = json!({"decisions": origins.map(verdict).collect::<Vec<_>>()});
                (merged.text, merged.warnings)
            }),
            Content::Keys(keys) => put_below(before, keys).map(|combined| {
                findings.extend(combined.findings);
                (combined.text, combined.warnings)
            }),
            Content::Configs(configs) => put_all_below(before, configs, findings),
            Content::Measured(document, source) => {
                completed(before, document).map(|(text, lost)| {
                    let why = "left out: the document has its own";
                    let lost = lost.iter().map(|key| Finding::new(source, key, Loss::Lost, why));
                    findings.extend(lost);
                    (text, Vec::new())
                })
            }
        };
        let fault = |name: &str, key: &str, text: String| Finding::new(name, key, Loss::Lost, text);
        let (name, problems) = match added {
            Ok((mut text, warnings)) => {
                let header = if *text == *before { "" } else { header };
                findings.extend(warnings.iter().map(|warning| {
                    let line = warning.line + header.lines().count();
                    let text = format!("line {line}: {}", warning.effect);
                    Finding::new(NEW, &warning.key, Loss::Note, text)
                }));
                // A buffer that grows leaves copies of its secrets behind.
                let mut all = Zeroizing::new(Vec::with_capacity(header.len() + text.len()));
                all.extend_from_slice(header.as_bytes());
                all.append(&mut text);
                return Some(all);
            }
            Err(MergeError::Document(problems)) => (name, problems),
            Err(MergeError::Result(problems)) => (NEW, problems),
            Err(error) => {
                faults.push(fault(name, "", one_line(&error.to_string()).to_string()));
                return None;
            }
        };
        faults.extend(problems.iter().map(|problem| {
            // None is known where two documents do not go together.
            let line = (problem.line > 0).then(|| format!("line {}: ", problem.line));
            let text = format!("{}{}", line.unwrap_or_default(), problem.rule);
            fault(name, &problem.key, text)
        }));
        None
    }

    /// Whether the document may be used.
    pub fn is_accepted(&self, printed: Printed) -> bool {
        let has_losses =
            self.unlisted() > 0 || self.findings.iter().any(|one| one.loss > Loss::Note);
        let is_enough = !self.is_empty || printed.allow_empty;
        self.faults.is_empty() && is_enough && !(printed.strict && has_losses)
    }

    /// How many findings and faults are not listed.
    fn unlisted(&self) -> u64 {
        self.more.get("unlisted").and_then(Value::as_u64).unwrap_or_default()
    }

    /// Prints the outcome, without the document where it `is_written`, and says how the command
    /// ends.
    pub fn print(
        mut self,
        document: Option<&str>,
        is_written: bool,
        printed: Printed,
        out: &mut impl Write,
    ) -> Result<u8, CommandError> {
        if self.faults.is_empty() && self.is_empty && !printed.allow_empty {
            let text = "nothing is in it that a document can have; --allow-empty takes that too";
            self.faults.push(Finding::new("the import", "", Loss::Lost, text));
        }
        let Self { findings, faults, more, .. } = &self;
        if printed.json {
            crate::cli::print_json(out, &Report { document, findings, faults, more })?;
        } else {
            self.tell(printed.strict)?;
            out.write_all(document.filter(|_| !is_written).unwrap_or_default().as_bytes())?;
        }
        Ok(if document.is_some() && faults.is_empty() { 0 } else { exit::DATA })
    }

    /// Writes a line for each finding and fault to standard error. Losses are errors if
    /// `is_strict`.
    fn tell(&self, is_strict: bool) -> io::Result<()> {
        let mut err = io::stderr().lock();
        let findings = self.findings.iter().map(|finding| match finding.loss {
            Loss::Note => ("note", finding),
            _ if is_strict => ("error", finding),
            _ => ("warning", finding),
        });
        let faults = self.faults.iter().map(|fault| ("error", fault));
        for (kind, finding) in findings.chain(faults) {
            writeln!(err, "{}", one_line(&format!("{kind}: {finding}")))?;
        }
        match self.unlisted() {
            0 => Ok(()),
            more => writeln!(err, "and {more} more"),
        }
    }
}

/// Puts each document below all before it. Returns the effects of the outcome, too.
fn put_all_below(
    before: &[u8],
    configs: &[(Document, Sources)],
    findings: &mut Vec<Finding>,
) -> Result<(Zeroizing<Vec<u8>>, Vec<Warning>), MergeError> {
    let mut all = (Zeroizing::new(before.to_vec()), Vec::new());
    for (document, sources) in configs {
        let source = |name: Option<&RegistryName>| {
            let of = sources.get(&name.cloned()).or_else(|| sources.get(&None));
            of.cloned().unwrap_or_default()
        };
        let combined = combine(&all.0, document, &source)?;
        findings.extend(combined.findings);
        all = (combined.text, combined.warnings);
    }
    Ok(all)
}

/// How messages call the outcome.
const NEW: &str = "the new document";

/// Completes a measured document as a guest does which has both. Returns the keys that lost, too.
fn completed(
    before: &[u8],
    document: &Document,
) -> Result<(Zeroizing<Vec<u8>>, Vec<String>), MergeError> {
    let base = Document::parse_measured(before).map_err(MergeError::Document)?.document;
    let mut config = base.clone();
    let lost = config.complete(document.clone(), Origin::Measured).map_err(MergeError::Result)?;
    let [own, new] = [base, config].map(|config| config.to_toml().map_err(MergeError::Unwritten));
    let (own, mut new) = (own?, new?);
    let text = match own == new {
        true => before.to_vec(),
        false => std::mem::take(&mut *new).into_bytes(),
    };
    Ok((text.into(), lost))
}

/// Which source wins for a registry and why, as `--json` prints it.
fn verdict(origin: &merge::Origin) -> Value {
    let mut accounts = origin.accounts.iter();
    let winner = accounts.next().map(|one| one.source.as_str());
    let also = accounts.map(|one| json!({"source": one.source, "offered_for": one.offered_for}));
    let losers = origin.losers.iter();
    let losers = losers.map(|loser| json!({"source": loser.source, "why": loser.why}));
    json!({
        "registry": origin.registry,
        // `null` where nothing could be taken.
        "winner": origin.entry.as_ref().map_or(winner, |_| Some("the document")),
        "why": origin.why,
        // Tried after the winner, in this order.
        "also": also.collect::<Vec<_>>(),
        "losers": losers.collect::<Vec<_>>(),
    })
}

/// Whether a document says nothing: it has comments at most.
pub fn says_nothing(document: &str) -> bool {
    let mut lines = document.lines().map(str::trim);
    lines.all(|line| line.is_empty() || line.starts_with('#'))
}

/// Requires that standard input is named once.
pub fn require_one_stdin<'a>(
    files: impl IntoIterator<Item = &'a PathBuf>,
) -> Result<(), UsageError> {
    match files.into_iter().filter(|path| path.as_path() == Path::new("-")).count() {
        0 | 1 => Ok(()),
        _ => Err(UsageError::StandardInputTwice),
    }
}

/// How messages call the file that an argument names.
pub fn label(path: &Path) -> String {
    if path == Path::new("-") {
        return "standard input".into();
    }
    path.to_string_lossy().into_owned()
}

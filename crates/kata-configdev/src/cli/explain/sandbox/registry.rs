//! The registries of a sandbox, each with where its credentials come from.

use std::path::Path;

use credential_sources::merge;
use registry_config::{RegistryHost, RegistryName, is_below};
use serde::Serialize;

use super::super::consequence::Account;
use super::super::{Image, Row};
use crate::providers::{AskedPlugin, Contribution, Line, Outcome, Told};
use crate::sandbox_document::SandboxDocument;
use crate::settings::AskedRegistry;

/// One registry, as `--json` prints it.
#[derive(Serialize)]
pub struct Registry<'a> {
    /// The name of its entry as the document has it; where it has none, the registry that providers
    /// are asked about.
    pub registry: String,
    credentials: Account,
    source: Option<Source<'a>>,
    why: String,
    /// Where the further accounts come from, in the order in which they are tried.
    also: &'a [merge::Account],
    /// What else the winner changes, where it does.
    change: Option<&'static str>,
    losers: &'a [merge::Loser],
    asked: Vec<&'a AskedPlugin>,
    findings: Vec<&'a Line>,
    /// All that there is to tell, as the log of a sandbox has it.
    #[serde(skip)]
    lines: Vec<&'a Line>,
}

/// Whose credentials a registry has.
#[derive(Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
enum Source<'a> {
    /// The document itself.
    Document {
        file: &'a Path,
        /// The line where the entry begins.
        line: Option<usize>,
        /// The entry's name as the document has it.
        entry: String,
    },
    /// An answer of a plugin.
    CredentialProvider { name: &'a str, answer: Option<Outcome> },
}

/// Each entry of the document, then each registry that providers are asked about and that has none.
pub fn all(complete: &SandboxDocument) -> Vec<Registry<'_>> {
    let registries = &complete.document.registries;
    let entries = registries.iter().map(|(name, _)| of(complete, name, Some(name)));
    let others = complete.contribution.registries.iter().filter_map(|asked| {
        let name = asked.name().filter(|name| registries.get(name).is_none())?;
        let below = asked.repositories.as_deref().unwrap_or_default();
        Some(of(complete, &name, holding(complete, &asked.host, below)))
    });
    entries.chain(others).collect()
}

/// The one that says who the puller is to the image's registry.
pub fn of_image<'a>(complete: &'a SandboxDocument, image: &Image) -> Option<Registry<'a>> {
    let Image { host, repository, .. } = image;
    let Contribution { registries, uncovered, .. } = &complete.contribution;
    let missed = uncovered.iter().find_map(|one| one.of_image(host, repository));
    let is_for = |asked: &&AskedRegistry| {
        let mut below = asked.repositories.iter();
        asked.host == *host && below.all(|below| is_below(repository, below))
    };
    let asked = registries.iter().filter(is_for).max_by_key(|asked| &asked.repositories);
    let holder = holding(complete, host, repository);
    let name = match holder {
        Some(own) if own.repositories().is_some() => Some(own.clone()),
        _ => asked.and_then(AskedRegistry::name).or(holder.cloned()),
    };
    let uncovered = missed.as_ref().and_then(|_| AskedRegistry::from(host.clone()).name());
    let found = of(complete, &name.or(uncovered)?, holder);
    Some(match (&found.source, missed) {
        (None, Some(why)) => Registry { why, ..found },
        _ => found,
    })
}

/// Whether the credentials of this entry were offered.
pub fn is_offered(complete: &SandboxDocument, name: &RegistryName) -> bool {
    origin(complete, name).is_some_and(|origin| !origin.accounts.is_empty())
}

fn origin<'a>(complete: &'a SandboxDocument, name: &RegistryName) -> Option<&'a merge::Origin> {
    let shown = name.to_string();
    complete.contribution.origins.iter().find(|origin| origin.registry == shown)
}

/// The entry that holds for some repositories of a host, or for all.
fn holding<'a>(
    complete: &'a SandboxDocument,
    host: &RegistryHost,
    repositories: &str,
) -> Option<&'a RegistryName> {
    let registries = &complete.document.registries;
    let below = registries.repository_entries(host, repositories).next();
    below.or_else(|| registries.matches(host).next()).map(|(name, _)| name)
}

/// What is known of the registry `name`, for which the entry `holder` holds.
fn of<'a>(
    complete: &'a SandboxDocument,
    name: &RegistryName,
    holder: Option<&RegistryName>,
) -> Registry<'a> {
    let SandboxDocument { document, contribution, lines, .. } = complete;
    let origin = origin(complete, name);
    let source = holder.and_then(|holder| source(complete, holder));
    let is_it = |asked: &AskedRegistry| asked.name().as_ref() == Some(name);
    let asked = contribution.registries.iter().find(|asked| is_it(asked));
    let why = match (origin, &source, holder) {
        (Some(origin), ..) => origin.why.clone(),
        (None, Some(_), Some(holder)) if holder != name => {
            format!("the entry \"{}\" holds for it and has credentials", holder.written())
        }
        (None, Some(_), _) => "the document has credentials for it".to_owned(),
        (None, None, _) => {
            let document = match holder == Some(name) {
                true => "the document's entry has no credentials",
                false => "the document has none",
            };
            let providers = if asked.is_some() { "gives it any" } else { "is asked about it" };
            format!("{document}, and no credential provider {providers}")
        }
    };
    let entry = holder.and_then(|holder| document.registries.get(holder));
    let about: Vec<_> = contribution
        .lines
        .iter()
        .filter(|line| RegistryName::parse(&line.registry).as_ref() == Ok(name))
        .collect();
    let is_finding = |line: &&&Line| matches!(line.label, "skipped" | "exposed");
    Registry {
        // As the document has it; of an entry that was added, as the settings do.
        registry: match asked.filter(|_| !lines.contains_key(name)) {
            Some(asked) => asked.to_string(),
            None => name.written(),
        },
        credentials: entry.map_or_else(Account::anonymous, |entry| {
            Account::of(entry, matches!(source, Some(Source::CredentialProvider { .. })))
        }),
        source,
        why,
        also: origin.and_then(|origin| origin.accounts.get(1..)).unwrap_or_default(),
        change: origin.and_then(|origin| origin.change),
        losers: origin.map_or(&[], |origin| &origin.losers),
        asked: contribution.asked.iter().filter(|asked| is_it(&asked.registry)).collect(),
        findings: about.iter().filter(is_finding).copied().collect(),
        lines: about,
    }
}

/// Whose credentials the entry `name` has.
fn source<'a>(complete: &'a SandboxDocument, name: &RegistryName) -> Option<Source<'a>> {
    let mut accounts = origin(complete, name).into_iter().flat_map(|origin| &origin.accounts);
    if let Some(winner) = accounts.next() {
        let mut asked = complete.contribution.asked.iter();
        let answer = asked.find(|asked| {
            asked.source == winner.source && asked.registry.name().as_ref() == Some(name)
        });
        let answer = answer.map(|asked| asked.outcome);
        return Some(Source::CredentialProvider { name: &winner.source, answer });
    }
    let entry = complete.document.registries.get(name)?;
    let has_some = !entry.credentials.is_anonymous() || entry.credentials_uri.is_some();
    has_some.then(|| Source::Document {
        file: complete.own_path().unwrap_or(Path::new("")),
        line: complete.lines.get(name).copied(),
        entry: name.written(),
    })
}

impl Registry<'_> {
    /// Everything.
    pub fn rows(&self) -> Vec<Row> {
        let mut rows = vec![("credentials", self.credentials.text.clone())];
        rows.extend(self.source_rows());
        rows
    }

    /// Whether a credential provider is for it, or was to be.
    pub fn is_asked_about(&self) -> bool {
        let is_provided = matches!(self.source, Some(Source::CredentialProvider { .. }));
        is_provided || !self.asked.is_empty() || !self.lines.is_empty()
    }

    /// Where the credentials come from.
    pub fn source_rows(&self) -> Vec<Row> {
        let source = self.source.as_ref();
        let mut rows = vec![
            ("source", source.map_or_else(|| "nobody".to_owned(), Source::text)),
            ("because", self.why.clone()),
        ];
        rows.extend(self.also.iter().map(|merge::Account { source, offered_for, .. }| {
            let name = offered_for.as_ref();
            let name = name.map_or(String::new(), |name| format!(", as offered for \"{name}\""));
            ("also", format!("{source}{name}; tried after a refusal"))
        }));
        rows.extend(self.asked.iter().map(
            |AskedPlugin { source, repositories, outcome, .. }| {
                let about = repositories.as_ref();
                let about = about.map_or(String::new(), |about| format!(", about {about}"));
                ("asked", format!("{source}{about}: {}", Told::from(*outcome).text))
            },
        ));
        rows.extend(self.lines.iter().map(|line| row(line)));
        rows
    }
}

/// A line as people get it.
pub fn row(line: &Line) -> Row {
    let Line { label, source, text, .. } = line;
    (label, format!("{source}: {text}"))
}

impl Source<'_> {
    fn text(&self) -> String {
        match self {
            Self::Document { file, line, entry } => {
                let line = line.map(|line| format!(":{line}")).unwrap_or_default();
                format!("{}{line}: entry \"{entry}\"", file.display())
            }
            Self::CredentialProvider { name, answer: None } => (*name).to_owned(),
            Self::CredentialProvider { name, answer: Some(answer) } => {
                format!("{name}, {}", Told::from(*answer).text)
            }
        }
    }
}

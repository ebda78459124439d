//! The registries of a sandbox, each with its source.

use std::path::PathBuf;

use credential_sources::merge::{Decision, Further, Winner};
use registry_config::{Document, Match, RegistryHost, RegistryName, is_below};
use serde::Serialize;

use super::super::consequence::Account;
use super::super::{Image, Row};
use super::Item;
use super::place::Places;
use super::source::{AskedPlugin, Source};
use crate::providers::{Contribution, Line, LineKind};
use crate::settings::AskedRegistry;

/// One registry, as `--json` prints it.
#[derive(Serialize)]
pub struct Registry {
    /// The name of its entry as the document has it; where it has none, the registry that providers
    /// are asked about.
    pub registry: String,
    credentials: Account,
    source: Option<Source>,
    why: String,
    /// Where the further accounts come from, in the order in which they are tried.
    also: Vec<Behind>,
    /// What else the winner changes, where it does.
    change: Option<String>,
    losers: Vec<Loser>,
    asked: Vec<AskedPlugin>,
    findings: Vec<Item>,
    /// All that there is to tell, as the log of a sandbox has it.
    #[serde(skip)]
    lines: Vec<Line>,
}

/// A further account.
#[derive(Serialize)]
struct Behind {
    source: String,
    /// The wider name that it was offered for, where that is not the entry's own.
    #[serde(skip_serializing_if = "Option::is_none")]
    offered_for: Option<String>,
}

/// An offer that was not taken.
#[derive(Serialize)]
struct Loser {
    source: String,
    why: String,
    /// Whether something is missing now: not where another source won.
    lost: bool,
}

/// All that is known about the registries of a sandbox.
pub struct Registries<'a> {
    /// The complete document.
    pub document: &'a Document,
    /// The file that it was before.
    pub file: PathBuf,
    /// The lines of that.
    pub places: Places,
    pub contribution: &'a Contribution,
    /// The registries that providers are asked about.
    pub asked: &'a [AskedRegistry],
}

impl Registries<'_> {
    /// Each entry of the document, then each registry that providers are asked about and that has
    /// none.
    pub fn all(&self) -> Vec<Registry> {
        let registries = &self.document.registries;
        let entries = registries.iter().map(|(name, _)| self.of_entry(name));
        let others = self.asked.iter().filter_map(|one| {
            let name = one.name()?;
            let has_entry = registries.iter().any(|(known, _)| *known == name);
            (!has_entry).then(|| self.of_asked(one, &name))
        });
        entries.chain(others).collect()
    }

    /// The one that says who the puller is to the image's registry.
    pub fn of_image(&self, image: &Image) -> Option<Registry> {
        let Image { host, repository, .. } = image;
        let mut uncovered = self.contribution.uncovered.iter();
        let missed = uncovered.find_map(|one| one.of_image(host, repository));
        let found = self.holding(host, repository);
        let found = found.or_else(|| {
            missed.as_ref()?;
            let registry = AskedRegistry::from(host.clone());
            Some(self.of_asked(&registry, &registry.name()?))
        });
        let of_nobody = |mut found: Registry| {
            if let (None, Some(missed)) = (&found.source, missed) {
                found.why = missed;
            }
            found
        };
        found.map(of_nobody)
    }

    fn holding(&self, host: &RegistryHost, repository: &str) -> Option<Registry> {
        let registries = &self.document.registries;
        if let Some((name, _)) = registries.repository_entries(host, repository).next() {
            return Some(self.of_entry(name));
        }
        let is_for = |asked: &&AskedRegistry| {
            let mut below = asked.repositories.iter();
            asked.host == *host && below.all(|below| is_below(repository, below))
        };
        let same = self.asked.iter().filter(is_for).max_by_key(|asked| &asked.repositories);
        let same = same.and_then(|asked| Some((asked, asked.name()?)));
        match (self.document.registries.entry_for(host), same) {
            (Match::Entry { key, .. }, Some((_, name))) if *key == name => Some(self.of_entry(key)),
            (_, Some((asked, name))) => Some(self.of_asked(asked, &name)),
            (Match::Entry { key, .. }, None) => Some(self.of_entry(key)),
            (Match::Defaults, None) => None,
        }
    }

    /// Whether the credentials of this entry were offered.
    pub fn is_offered(&self, name: &RegistryName) -> bool {
        self.decision(name).is_some_and(|decision| matches!(decision.winner, Winner::Offer(_)))
    }

    fn decision(&self, name: &RegistryName) -> Option<&Decision> {
        let shown = name.to_string();
        let mut decisions = self.contribution.decisions.iter();
        decisions.find(|decision| decision.name == shown)
    }

    fn of_entry(&self, name: &RegistryName) -> Registry {
        let decision = self.decision(name);
        let source = self.source(name);
        let why = match (decision, &source) {
            (Some(decision), _) => decision.why.clone(),
            (None, Some(_)) => "the document has credentials for it".to_owned(),
            (None, None) => self.why_nobody(name, "the document's entry has no credentials"),
        };
        self.registry(self.shown(name), name, name, source, why)
    }

    /// The name as the document has it; of an entry that was added, as the settings do.
    fn shown(&self, name: &RegistryName) -> String {
        let written = name.written();
        if self.places.line(&written).is_some() {
            return written;
        }
        let mut asked = self.asked.iter();
        let found = asked.find(|one| one.name().as_ref() == Some(name));
        found.map_or(written, ToString::to_string)
    }

    /// A registry without an entry of its own.
    fn of_asked(&self, asked: &AskedRegistry, name: &RegistryName) -> Registry {
        let decision = self.decision(name);
        let registries = &self.document.registries;
        let below = asked.repositories.as_deref().unwrap_or_default();
        let below = registries.repository_entries(&asked.host, below).next();
        let holder = match (below, registries.entry_for(&asked.host)) {
            (Some((key, _)), _) | (None, Match::Entry { key, .. }) => Some(key),
            (None, Match::Defaults) => None,
        };
        let source = holder.and_then(|holder| self.source(holder));
        let why = match (decision, &source, holder) {
            (Some(decision), ..) => decision.why.clone(),
            (None, Some(_), Some(holder)) => {
                format!("the entry \"{}\" holds for it and has credentials", holder.written())
            }
            _ => self.why_nobody(name, "the document has none"),
        };
        self.registry(asked.to_string(), name, holder.unwrap_or(name), source, why)
    }

    fn registry(
        &self,
        registry: String,
        name: &RegistryName,
        holder: &RegistryName,
        source: Option<Source>,
        why: String,
    ) -> Registry {
        let decision = self.decision(name);
        let Contribution { asked, .. } = self.contribution;
        let lines = self.contribution.lines().into_iter();
        let is_about = |line: &Line| RegistryName::parse(&line.registry).as_ref() == Ok(name);
        let lines: Vec<_> = lines.filter(is_about).collect();
        let of = |kinds: &'static [LineKind]| {
            let lines = lines.iter();
            lines.filter(move |line| kinds.contains(&line.kind))
        };
        let also = decision.map_or(&[][..], |decision| &decision.also);
        Registry {
            registry,
            credentials: self.account(holder),
            source,
            why,
            also: also.iter().map(Behind::from).collect(),
            change: of(&[LineKind::Change]).map(|line| line.text.clone()).next(),
            losers: of(&[LineKind::LeftOut, LineKind::Beaten]).map(Loser::from).collect(),
            asked: asked
                .iter()
                .filter(|asked| asked.registry.name().as_ref() == Some(name))
                .map(AskedPlugin::from)
                .collect(),
            findings: of(&[LineKind::Skipped, LineKind::Exposed]).map(Item::from).collect(),
            lines,
        }
    }

    /// Whose credentials the entry `name` has.
    fn source(&self, name: &RegistryName) -> Option<Source> {
        if let Some(Winner::Offer(source)) = self.decision(name).map(|decision| &decision.winner) {
            let mut asked = self.contribution.asked.iter();
            let answer = asked.find(|asked| {
                asked.source == *source && asked.registry.name().as_ref() == Some(name)
            });
            return Some(Source::CredentialProvider {
                name: source.clone(),
                answer: answer.map(|asked| asked.outcome.into()),
            });
        }
        let mut entries = self.document.registries.iter();
        let (name, entry) = entries.find(|(known, _)| *known == name)?;
        let has_some = !entry.credentials.is_anonymous() || entry.credentials_uri.is_some();
        has_some.then(|| Source::Document {
            file: self.file.clone(),
            line: self.places.line(&name.written()),
            entry: name.written(),
        })
    }

    fn account(&self, name: &RegistryName) -> Account {
        let mut entries = self.document.registries.iter();
        let entry = entries.find(|(known, _)| *known == name);
        entry
            .map_or_else(Account::anonymous, |(_, entry)| Account::of(entry, self.is_offered(name)))
    }

    fn why_nobody(&self, name: &RegistryName, document: &str) -> String {
        let is_asked = self.asked.iter().any(|one| one.name().as_ref() == Some(name));
        let providers = if is_asked {
            "no credential provider gives it any"
        } else {
            "no credential provider is asked about it"
        };
        format!("{document}, and {providers}")
    }
}

impl Registry {
    /// Everything.
    pub fn rows(&self) -> Vec<Row> {
        let mut rows = vec![("credentials", self.credentials.text())];
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
        rows.extend(self.also.iter().map(|one| ("also", one.text())));
        rows.extend(self.asked.iter().map(|asked| ("asked", asked.text())));
        rows.extend(self.lines.iter().map(row));
        rows
    }
}

/// A line as people get it.
pub fn row(line: &Line) -> Row {
    let Line { kind, source, text, .. } = line;
    (kind.label(), format!("{source}: {text}"))
}

impl Behind {
    fn text(&self) -> String {
        let source = &self.source;
        match &self.offered_for {
            Some(name) => format!("{source}, as offered for \"{name}\"; tried after a refusal"),
            None => format!("{source}; tried after a refusal"),
        }
    }
}

impl From<&Further> for Behind {
    fn from(further: &Further) -> Self {
        Self { source: further.source.clone(), offered_for: further.offered_for.clone() }
    }
}

impl From<&Line> for Loser {
    fn from(line: &Line) -> Self {
        Self {
            source: line.source.clone(),
            why: line.text.clone(),
            lost: line.kind == LineKind::LeftOut,
        }
    }
}

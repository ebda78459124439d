//! The document that secrets make together: the administrator's own, with the credentials of
//! docker configurations below what it says, and with decryption keys.

use std::path::{Path, PathBuf};

use credential_sources::decryption_secret::{Imported, import, put_below};
use credential_sources::docker_config::{Input, Widening, offers};
use credential_sources::merge::{Merged, merge};
use credential_sources::{Finding, Loss};
use registry_config::{Document as Parsed, Effect, MAX_DOCUMENT_BYTES, Warning};
use zeroize::Zeroizing;

use crate::decryption_keys;
use crate::docker_config::{self, Fault, SecretContent};
use crate::plan::SecretFile;
use crate::secret::Secret;
use crate::source::Source;
use crate::{Error, arrival};

/// How many warnings and how many notes about docker configurations and keys are logged: a hostile
/// one can have thousands.
const MAX_LOGGED: usize = 64;

/// A set's document, and what there is to say about it.
pub(crate) struct MadeDocument {
    pub(crate) document: SecretFile,
    pub(crate) problems: Vec<Error>,
    pub(crate) warnings: Vec<String>,
    pub(crate) notes: Vec<String>,
}

/// Makes the document of the set `name` from `source`. Where one is there already (`is_kept`), that
/// stays if the secrets are unusable. That of a namespace is called `SET/namespaces/NAMESPACE`.
pub(crate) fn make(name: &str, source: &Source, is_kept: bool) -> MadeDocument {
    let mut making = DocumentMaker {
        name,
        source,
        is_kept,
        problems: Vec::new(),
        warnings: Vec::new(),
        findings: Vec::new(),
        missing: Vec::new(),
    };
    let (own, warnings) = making.own();
    // Also where the document itself is unusable: everything that has to be corrected is told at
    // once.
    let inputs = making.inputs();
    let mut warnings_of_own = warnings.iter();
    if warnings_of_own.any(|warning| warning.effect == Effect::RefusesEveryPull) {
        making.missing.clear();
        return making.finish(own);
    }
    let document = match (own, inputs) {
        (own, _) if source.docker_configs.is_empty() => own,
        (Made::Unusable, _) | (_, None) => Made::Unusable,
        (own, Some(inputs)) => making.put_below(own, &inputs, &warnings),
    };
    let document = making.with_keys(document);
    making.finish(document)
}

/// What the secrets make so far.
enum Made {
    /// None of them has anything yet.
    Nothing,
    /// A valid document.
    Document(Zeroizing<Vec<u8>>),
    /// One of them is not valid or cannot be read.
    Unusable,
}

struct DocumentMaker<'s> {
    name: &'s str,
    source: &'s Source,
    is_kept: bool,
    problems: Vec<Error>,
    warnings: Vec<String>,
    findings: Vec<Finding>,
    /// The secrets that have not come, or have nothing in them.
    missing: Vec<&'s Path>,
}

impl<'s> DocumentMaker<'s> {
    /// The document of the administrator, with what its author may not have meant.
    fn own(&mut self) -> (Made, Vec<Warning>) {
        let key = self.source.key();
        let Some(secret) = &self.source.secret else {
            return (Made::Nothing, Vec::new());
        };
        let text = match Secret::read(secret, key, MAX_DOCUMENT_BYTES) {
            Ok(Secret::Present(text)) => text,
            Ok(Secret::Absent { others }) => {
                self.miss(&others);
                self.missing.push(secret);
                return (Made::Nothing, Vec::new());
            }
            Err(source) => {
                self.problems.push(Error::Secret {
                    set: self.name.into(),
                    place: self.source.place_of(&secret.join(key)),
                    source,
                });
                return (Made::Unusable, Vec::new());
            }
        };
        match Parsed::parse(&text) {
            Ok(checked) => {
                for warning in &checked.warnings {
                    self.warn("document", warning);
                }
                (Made::Document(text), checked.warnings)
            }
            Err(problems) => {
                self.problems.push(Error::Document {
                    set: self.name.into(),
                    problems,
                    kept: self.is_kept,
                });
                (Made::Unusable, Vec::new())
            }
        }
    }

    /// Warns of a secret that has keys, but not the wanted one.
    fn miss(&mut self, others: &[String]) {
        if others.is_empty() {
            return;
        }
        let source = self.source;
        let effect = if source.docker_configs.is_empty() && source.decryption_keys.is_empty() {
            "its sandboxes get no document"
        } else {
            "nothing of it is used"
        };
        self.warnings.push(format!(
            "the secret of the set {} has no key {:?}, but {}; {effect}",
            self.name,
            source.key(),
            others.join(", ")
        ));
    }

    /// The docker configurations in their order; `None` if one is unusable, since the others alone
    /// could mean another winner.
    fn inputs(&mut self) -> Option<Vec<Input>> {
        let mut inputs = Vec::new();
        let mut usable = true;
        for place in &self.source.docker_configs {
            match docker_config::read(place) {
                Ok(SecretContent::Config(path, config)) => {
                    // A placeholder that nobody has filled.
                    if config.entries.is_empty() {
                        self.missing.push(place);
                    }
                    let source = self.source.place_of(&path);
                    let input = Input { source, config };
                    // To install nothing in the place of what works would let the guests pull
                    // anonymously.
                    if let Some(rule) = docker_config::unusable(&input, self.widening()) {
                        usable = false;
                        self.fail(Fault::Unacceptable(path, rule));
                    }
                    inputs.push(input);
                }
                Ok(SecretContent::Absent) => self.missing.push(place),
                Ok(SecretContent::OtherKeys(others)) => {
                    self.missing.push(place);
                    let text = format!(
                        "it has no key .dockerconfigjson or .dockercfg, but {}",
                        others.join(", ")
                    );
                    let place = self.source.place_of(place).to_string();
                    self.findings.push(Finding::new(&place, "", Loss::Lost, text));
                }
                Err(fault) => {
                    usable = false;
                    self.fail(fault);
                }
            }
        }
        usable.then_some(inputs)
    }

    fn fail(&mut self, fault: Fault) {
        let set = self.name.to_owned();
        let place = |path: PathBuf| self.source.place_of(&path);
        self.problems.push(match fault {
            Fault::Unreadable(path, source) => Error::Secret { set, place: place(path), source },
            Fault::Unacceptable(path, rule) => Error::Unusable {
                what: "docker configuration",
                set,
                place: place(path),
                rule,
                kept: self.is_kept,
            },
        });
    }

    fn widening(&self) -> Widening {
        match self.source.allow_widening {
            true => Widening::Allowed,
            false => Widening::Refused,
        }
    }

    /// Puts what the docker configurations offer below the administrator's own document, whose
    /// warnings were told already.
    fn put_below(&mut self, own: Made, inputs: &[Input], told: &[Warning]) -> Made {
        let (offers, findings) = offers(inputs, self.widening());
        self.findings.extend(findings);
        let text: &[u8] = match &own {
            Made::Document(text) => text,
            Made::Nothing | Made::Unusable => &[],
        };
        match merge(text, &offers) {
            Ok(merged) => {
                self.tell_merged(&merged, told);
                // Without entries no different from none, and none is what it stays until a
                // placeholder is filled.
                if matches!(own, Made::Nothing) && merged.text.is_empty() {
                    return Made::Nothing;
                }
                Made::Document(merged.text)
            }
            Err(source) => {
                self.problems.push(Error::Merge {
                    set: self.name.into(),
                    source,
                    kept: self.is_kept,
                });
                Made::Unusable
            }
        }
    }

    /// Adds the keys of the set's secrets. A value that is no key is left out, since the other keys
    /// are as good without it; a secret that cannot be read, or has no other values, makes the
    /// document unusable, since what it has installed is better than a part.
    fn with_keys(&mut self, document: Made) -> Made {
        if self.source.decryption_keys.is_empty() {
            return document;
        }
        let Some(imported) = self.keys() else {
            return Made::Unusable;
        };
        self.findings.extend(imported.findings);
        let text: &[u8] = match &document {
            Made::Unusable => return Made::Unusable,
            Made::Nothing if imported.keys.is_empty() => return Made::Nothing,
            Made::Nothing => &[],
            Made::Document(text) => text,
        };
        match put_below(text, &imported.keys) {
            Ok(complete) => {
                self.findings.extend(complete.findings);
                Made::Document(complete.text)
            }
            Err(source) => {
                self.problems.push(Error::Keys {
                    set: self.name.into(),
                    source,
                    kept: self.is_kept,
                });
                Made::Unusable
            }
        }
    }

    /// The keys of all secrets, in their order; `None` if one is unusable.
    fn keys(&mut self) -> Option<Imported> {
        let mut secrets = Vec::new();
        let mut usable = true;
        for place in &self.source.decryption_keys {
            match decryption_keys::read(place) {
                Ok(Some(content)) => secrets.push((self.source.place_of(place), content)),
                Ok(None) => self.missing.push(place),
                Err((path, source)) => {
                    usable = false;
                    self.fail(Fault::Unreadable(path, source));
                }
            }
        }
        let sources = secrets.iter().map(|(name, content)| content.source(name));
        let mut imported = import(&sources.collect::<Vec<_>>(), &[]);
        // A manifest is not what a secret holds: what is wrong with it is a value that is left out.
        imported.findings.append(&mut imported.faults);
        for (place, _) in &secrets {
            // In a manifest each secret has its name behind the place.
            let is_of_secret = |one: &&Finding| {
                let more = one.source.strip_prefix(place.as_str());
                more.is_some_and(|more| more.is_empty() || more.starts_with(": secret "))
            };
            let mut of_secret = imported.findings.iter().filter(is_of_secret);
            let Some(lost) = of_secret.next() else {
                continue;
            };
            if lost.loss == Loss::Lost && of_secret.all(|one| one.loss == Loss::Lost) {
                usable = false;
                self.problems.push(Error::Unusable {
                    what: "decryption keys",
                    set: self.name.to_owned(),
                    place: place.clone(),
                    rule: format!("nothing in it can be used: {lost}"),
                    kept: self.is_kept,
                });
            }
        }
        usable.then_some(imported)
    }

    /// The names of the secrets that make the document and have not come, or have nothing in them.
    fn needed_and_missing(&self) -> Vec<String> {
        let needed = self.source.needed();
        let missing = needed.filter(|path| self.missing.contains(&path.as_path()));
        missing.map(|path| self.source.name_of(path)).collect()
    }

    fn tell_merged(&mut self, merged: &Merged, told: &[Warning]) {
        let losers = merged.origins.iter().flat_map(|one| &one.losers);
        let count = losers.filter(|loser| loser.has_no_room()).count();
        if count > 0 {
            let set = self.name.into();
            self.problems.push(Error::NoRoom { set, count });
        }
        let findings = merged.origins.iter().flat_map(|one| one.findings("the document"));
        self.findings.extend(findings);
        let is_told = |warning: &&Warning| {
            told.iter().any(|known| known.key == warning.key && known.effect == warning.effect)
        };
        for warning in merged.warnings.iter().filter(|warning| !is_told(warning)).take(MAX_LOGGED) {
            self.warn("combined document", warning);
        }
    }

    fn warn(&mut self, what: &str, warning: &Warning) {
        let line = format!("{what} of the set {}: {warning}", self.name);
        self.warnings.push(line);
    }

    /// What is installed. Where something required has not come, that and nothing else: a part of
    /// the credentials would let the guest ask for the rest anonymously.
    fn finish(mut self, made: Made) -> MadeDocument {
        let missing = self.needed_and_missing();
        let document = match made {
            Made::Unusable if self.is_kept => SecretFile::Unusable,
            Made::Unusable => SecretFile::Made(arrival::unusable()),
            Made::Nothing | Made::Document(_) if self.source.required && !missing.is_empty() => {
                self.problems.push(Error::Missing {
                    set: self.name.to_owned(),
                    what: arrival::sentence(&missing),
                });
                SecretFile::Made(arrival::refusal(&missing))
            }
            Made::Nothing | Made::Document(_) => {
                let missing = self.missing.iter().filter(|path| !self.source.may_be_absent(path));
                let missing: Vec<String> = missing.map(|path| self.source.name_of(path)).collect();
                if !missing.is_empty() {
                    self.warnings.push(arrival::without(&missing, self.name));
                }
                SecretFile::Made(match made {
                    Made::Document(text) => text,
                    _ => arrival::nothing_yet(),
                })
            }
        };
        let about = format!("secrets of the set {}", self.name);
        let (notes, losses): (Vec<_>, Vec<_>) =
            self.findings.iter().partition(|finding| finding.loss == Loss::Note);
        self.warnings.extend(lines(&about, &losses));
        MadeDocument {
            document,
            problems: self.problems,
            warnings: self.warnings,
            notes: lines(&about, &notes),
        }
    }
}

/// The findings as lines for a log, at most [`MAX_LOGGED`] and one that counts the others.
fn lines(about: &str, findings: &[&Finding]) -> Vec<String> {
    let line = |finding: &&Finding| format!("{about}: {finding}");
    let mut lines: Vec<String> = findings.iter().take(MAX_LOGGED).map(line).collect();
    let more = findings.len().saturating_sub(MAX_LOGGED);
    if more > 0 {
        lines.push(format!("{about}: {more} more like these"));
    }
    lines
}

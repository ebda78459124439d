//! `[resources]` of the measured document: where the guest gets the secrets that documents and
//! images refer to.

use std::fmt;
use std::path::PathBuf;

use serde::{Serialize, Serializer};

use crate::limits::{MAX_RESOURCE_SOURCES, MAX_RESOURCES_FROM};
use crate::problem::{Findings, Place};
use crate::resource_source::{parse_path, parse_socket};
use crate::section::{Field, Section};
use crate::{Effect, ResourceSource, ResourceUri, Roots, Rule};

/// The keys of the table, for suggestions.
const KEYS: [&str; 8] = [
    "source",
    "sources",
    "kbs-ca-certs",
    "kbs-token-file",
    "kbs-attester",
    "unwrap",
    "unwrap-always",
    "from",
];

/// Where the guest asks for resources, and as whom. The default is nowhere.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Resources {
    /// The sources in the order in which they are asked, each at most once. All secrets of one pull
    /// come from the one that gave the first.
    pub sources: Vec<ResourceSource>,
    /// The only roots to trust for a key broker; `None` means the web's. Never empty.
    pub kbs_ca_certs: Option<Roots>,
    /// The file with the token that a key broker takes, and the key pair that the token names;
    /// absolute.
    pub kbs_token_file: Option<PathBuf>,
    /// How the guest proves to a key broker what it is.
    pub kbs_attester: Option<AttesterKind>,
    /// The data hubs that unwrap the keys of layers, by their sockets, in the order in which they
    /// are asked; each at most once.
    pub unwrap: Vec<PathBuf>,
    /// Whether they unwrap also what a key of the key broker would.
    pub unwrap_always: bool,
    /// Resources that come from a source of their own, in the document's order.
    pub from: Vec<(ResourceUri, ResourceSource)>,
}

/// A way of proving what a guest is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttesterKind {
    /// The `sample` TEE, which proves nothing: for tests, and brokers that are told to believe it.
    Sample,
    /// The attestation agent of the guest, over ttrpc on this socket: `aa=unix:/PATH`.
    Agent(PathBuf),
}

impl AttesterKind {
    /// The attester of this name.
    ///
    /// # Errors
    ///
    /// [`Rule::Attester`] if there is none.
    pub fn parse(name: &str) -> Result<Self, Rule> {
        match name.split_once('=') {
            None if name == "sample" => Ok(Self::Sample),
            Some(("aa", socket)) => match parse_socket(socket) {
                Ok(socket) => Ok(Self::Agent(socket)),
                Err(_) => Err(Rule::Attester),
            },
            _ => Err(Rule::Attester),
        }
    }
}

impl fmt::Display for AttesterKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Sample => f.write_str("sample"),
            Self::Agent(socket) => write!(f, "aa=unix:{}", socket.display()),
        }
    }
}

impl Serialize for AttesterKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl Resources {
    /// Reads the table to its end; what is broken is reported and left at its default.
    pub(crate) fn read(mut section: Section<'_, '_>, findings: &mut Findings) -> Self {
        let table = section.place().clone();
        let one = take("source", ResourceSource::parse, &mut section, findings);
        let more = take_sources("sources", ResourceSource::parse, &mut section, findings);
        let one = one.and_then(|field| field.value).into_iter();
        let sources: Vec<_> = one.chain(more).collect();
        let unwrap = take_sources("unwrap", parse_hub, &mut section, findings);
        let always = section.take_bool("unwrap-always", findings);
        if let Some(Field { place, value: true }) = &always
            && unwrap.is_empty()
        {
            findings.problem(place, Rule::UnwrapByNobody);
        }
        let roots = Roots::take("kbs-ca-certs", &mut section, findings);
        if let Some(Field { place, value: Some(roots) }) = &roots
            && roots.trusts_nobody()
        {
            findings.problem(place, Rule::NoCertificate);
        }
        let token_file = take("kbs-token-file", parse_path, &mut section, findings);
        let attester = take("kbs-attester", AttesterKind::parse, &mut section, findings);
        let from = section.take_table("from", findings);
        let from = from.map(|table| read_from(table, findings));
        let from = from.unwrap_or_default();
        section.refuse_rest(&KEYS, &Rule::UnknownKey { suggestion: None }, findings);
        let all = sources.iter().chain(from.iter().map(|(_, source)| source));
        if all.into_iter().any(ResourceSource::is_broker) {
            if token_file.is_none() && attester.is_none() {
                findings.warning(&table, Effect::BrokerWithoutProof);
            }
            if let Some(Field { place, value: Some(AttesterKind::Sample) }) = &attester {
                findings.warning(place, Effect::SampleAttester);
            }
        } else {
            let places = [place(&roots), place(&token_file), place(&attester)];
            for place in places.into_iter().flatten() {
                findings.warning(place, Effect::NoBroker);
            }
        }
        Self {
            sources,
            kbs_ca_certs: roots.and_then(|field| field.value),
            kbs_token_file: token_file.and_then(|field| field.value),
            kbs_attester: attester.and_then(|field| field.value),
            unwrap,
            unwrap_always: always.is_some_and(|field| field.value),
            from,
        }
    }
}

fn place<T>(field: &Option<Field<T>>) -> Option<&Place> {
    field.as_ref().map(|field| &field.place)
}

/// Takes a string and reads it; what it breaks is reported.
fn take<T, R: Into<Rule>>(
    key: &str,
    parse: impl FnOnce(&str) -> Result<T, R>,
    section: &mut Section<'_, '_>,
    findings: &mut Findings,
) -> Option<Field<Option<T>>> {
    let Field { place, value } = section.take_string(key, findings)?;
    let value =
        value.and_then(|text| parse(&text).map_err(|rule| findings.problem(&place, rule)).ok());
    Some(Field { place, value })
}

/// `"repository/type/tag" = "SOURCE"`.
fn read_from(
    mut section: Section<'_, '_>,
    findings: &mut Findings,
) -> Vec<(ResourceUri, ResourceSource)> {
    if section.len() > MAX_RESOURCES_FROM {
        findings.problem(section.place(), Rule::TooManyResourcesFrom);
        return Vec::new();
    }
    let mut from = Vec::new();
    for name in section.keys() {
        let Some(Field { place, value }) =
            take(name, ResourceSource::parse, &mut section, findings)
        else {
            continue;
        };
        match ResourceUri::parse(&format!("kbs:///{name}")) {
            Ok(uri) => from.extend(value.map(|source| (uri, source))),
            Err(rule) => findings.problem(&place, rule),
        }
    }
    from
}

/// The socket of a data hub.
fn parse_hub(text: &str) -> Result<PathBuf, Rule> {
    match ResourceSource::parse(text)? {
        ResourceSource::DataHub(socket) => Ok(socket),
        _ => Err(Rule::UnwrapByOther),
    }
}

fn take_sources<T: PartialEq, R: Into<Rule>>(
    key: &str,
    parse: impl Fn(&str) -> Result<T, R>,
    section: &mut Section<'_, '_>,
    findings: &mut Findings,
) -> Vec<T> {
    let Some(Field { place, value }) = section.take_strings(key, None, findings) else {
        return Vec::new();
    };
    if value.len() > MAX_RESOURCE_SOURCES {
        findings.problem(&place, Rule::TooManyResourceSources);
        return Vec::new();
    }
    let mut sources = Vec::with_capacity(value.len());
    for Field { place, value } in value {
        match parse(&value) {
            Err(rule) => findings.problem(&place, rule),
            Ok(source) if sources.contains(&source) => {
                findings.problem(&place, Rule::DuplicateResourceSource);
            }
            Ok(source) => sources.push(source),
        }
    }
    sources
}

//! Files with credentials for image pulls, of any of the kinds that there are, read as one.

use std::collections::BTreeSet;

use super::combine::{destination, reaches};
use super::{Rank, export_of};
use crate::docker_config::{self, ConfigError, DockerConfig, Input, Shape, Widening};
use crate::secret_manifest::{
    self, DOCKER_CONFIG_JSON, MAX_MANIFEST_BYTES, ManifestError, Object, Payload, SecretManifest,
};
use crate::{Finding, Loss, Offer, printable};

/// What stands for every namespace in an export.
const ALL: &str = "*";

/// The most namespaces of one import. Free to change.
const MAX_NAMESPACES: usize = 1024;

/// The longest name of a namespace.
pub const MAX_NAMESPACE_BYTES: usize = 63;

/// A file that was read.
#[derive(Clone, Copy)]
pub struct SourceFile<'f> {
    /// Its name, for people.
    pub name: &'f str,
    /// Its content: a docker configuration of either form, or manifests.
    pub text: &'f [u8],
}

/// What files offer.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Imported {
    /// What is offered, the accounts of a registry in the order in which they are tried.
    pub offers: Vec<Offer>,
    /// What could not be taken over as it stands.
    pub findings: Vec<Finding>,
    /// Secrets that cannot be read. The kubelet makes nothing of a keyring with one of them; the
    /// other secrets of a file are good.
    pub unread: Vec<Finding>,
    /// Files that cannot be read. The offers are not to be used then.
    pub faults: Vec<Finding>,
}

impl std::fmt::Debug for SourceFile<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SourceFile").field("name", &self.name).finish_non_exhaustive()
    }
}

/// Reads files. Of two that say something about one key, the one with the greater [`Rank`] comes
/// first, and the other is tried after it;
/// docker configurations have the rank of a secret without weight and name, and among equals the
/// later file counts. `destination` is the namespace that the ranks are for.
#[must_use]
pub fn import(files: &[SourceFile<'_>], destination: Option<&str>, widening: Widening) -> Imported {
    let mut reading = Reading::default();
    for file in files {
        if let Err(text) = reading.file(*file) {
            reading.fault(file.name, "", &text);
        }
    }
    let configs = std::mem::take(&mut reading.configs);
    let mut imported = reading.finish(configs, destination, widening, &|_| Ok(true));
    reading.told(&mut imported);
    imported
}

/// The manifests of several namespaces. Nothing of one is in what another gets, unless it is
/// exported.
#[derive(Debug)]
pub struct ByNamespace {
    reading: Reading,
    names: BTreeSet<String>,
}

impl ByNamespace {
    /// Reads files of manifests. A name that Kubernetes would refuse is a fault, so that the others
    /// may become the names of files.
    #[must_use]
    pub fn read(files: &[SourceFile<'_>]) -> Self {
        let mut reading = Reading::default();
        for file in files {
            if let Err(text) = reading.file(*file) {
                reading.fault(file.name, "", &text);
            }
        }
        for config in std::mem::take(&mut reading.configs) {
            let text = "it is no manifest of a secret, and so in no namespace";
            reading.fault(&config.source, "", text);
        }
        let (names, illegal): (BTreeSet<String>, BTreeSet<_>) = reading
            .namespaces()
            .into_iter()
            .map(str::to_owned)
            .partition(|name| is_namespace(name));
        for name in illegal {
            let text = "not the name of a namespace: at most 63 of a-z, 0-9 and \"-\", which is \
                neither the first nor the last";
            reading.fault("the manifests", &printable(&name), text);
        }
        if names.len() > MAX_NAMESPACES {
            let text = format!("more than {MAX_NAMESPACES} namespaces");
            reading.fault("the manifests", "", &text);
        }
        Self { reading, names }
    }

    /// The namespaces that secrets are in or exported to.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str).take(MAX_NAMESPACES)
    }

    /// What the secrets of a namespace, and those exported to it, offer.
    #[must_use]
    pub fn import(&self, namespace: &str, widening: Widening) -> Imported {
        let wanted = |secret: &SecretManifest| self.reading.is_for(secret, namespace);
        self.reading.finish(Vec::new(), Some(namespace), widening, &wanted)
    }

    /// What there is to say about the files themselves, without an offer.
    #[must_use]
    pub fn told(&self) -> &Imported {
        &self.reading.imported
    }
}

/// What was read so far.
#[derive(Debug, Default)]
struct Reading {
    imported: Imported,
    configs: Vec<Input>,
    /// The objects of all files, because an export may stand in another one than its secret.
    objects: Vec<Object>,
    /// Which file each object is from.
    origins: Vec<String>,
}

impl Reading {
    fn fault(&mut self, source: &str, key: &str, text: &str) {
        let fault = Finding::new(source, key, Loss::Lost, text);
        self.imported.faults.push(fault);
    }

    /// Puts what there is to say about the files in front of what there is about their content.
    fn told(self, imported: &mut Imported) {
        let Imported { findings, faults, .. } = self.imported;
        imported.findings.splice(0..0, findings);
        imported.faults.splice(0..0, faults);
    }

    fn file(&mut self, file: SourceFile<'_>) -> Result<(), String> {
        let SourceFile { name, text } = file;
        if text.len() > MAX_MANIFEST_BYTES {
            return Err(ManifestError::TooLong.to_string());
        }
        let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
        let Some(first) = text.iter().find(|byte| !byte.is_ascii_whitespace()) else {
            let note = Finding::new(name, "", Loss::Note, "it is empty");
            self.imported.findings.push(note);
            return Ok(());
        };
        if *first != b'{' {
            return self.manifests(name, text);
        }
        let config = match docker_config::shape(text) {
            Ok(Shape::Manifest) => return self.manifests(name, text),
            Ok(Shape::Config) => DockerConfig::parse(text),
            Ok(Shape::Legacy) => DockerConfig::parse_legacy(text),
            // Perhaps YAML that begins with a brace.
            Err(error @ ConfigError::NotJson { .. }) => {
                let is_any =
                    |object: &Object| matches!(object, Object::Other(kind) if kind.is_empty());
                return match secret_manifest::parse(text) {
                    Ok(objects) if !objects.iter().all(is_any) => self.manifests(name, text),
                    _ => Err(error.to_string()),
                };
            }
            Err(error) => Err(error),
        };
        self.configs.push(Input {
            source: name.to_owned(),
            config: config.map_err(|error| error.to_string())?,
        });
        Ok(())
    }

    fn manifests(&mut self, name: &str, text: &[u8]) -> Result<(), String> {
        let objects = secret_manifest::parse(text);
        for object in objects.map_err(|error| error.to_string())? {
            if let Object::Other(kind) = &object {
                let key = printable(kind);
                let text = "an object of another kind, which is not looked at";
                let note = Finding::new(name, &key, Loss::Note, text);
                self.imported.findings.push(note);
            } else {
                self.objects.push(object);
                self.origins.push(name.to_owned());
            }
        }
        Ok(())
    }

    /// What the secrets that are `wanted` offer, with other configurations.
    fn finish(
        &self,
        configs: Vec<Input>,
        destination: Option<&str>,
        widening: Widening,
        wanted: &dyn Fn(&SecretManifest) -> Result<bool, &'static str>,
    ) -> Imported {
        let mut imported = Imported::default();
        let configs = configs.into_iter();
        let mut ranked: Vec<(Rank, Input)> =
            configs.map(|input| (Rank::default(), input)).collect();
        for (object, origin) in self.objects.iter().zip(&self.origins) {
            let Object::Secret(secret) = object else {
                continue;
            };
            let source = format!("{origin}: secret {}", printable(&secret.metadata.full_name()));
            let payload = match wanted(secret) {
                Ok(true) => secret.payload().map_err(|error| error.to_string()),
                Ok(false) => continue,
                Err(rule) => Err(rule.to_owned()),
            };
            match payload {
                Ok(Payload::Config(config)) => {
                    let rank = Rank::of(secret, &self.objects, destination);
                    ranked.push((rank, Input { source, config }));
                }
                Ok(Payload::Ignored { why, loss }) => {
                    let finding = Finding::new(&source, "", loss, why);
                    imported.findings.push(finding);
                }
                Err(error) => {
                    imported.unread.push(Finding::new(&source, "", Loss::Lost, error));
                }
            }
        }
        ranked.sort_by(|(one, _), (other, _)| one.cmp(other));
        let inputs: Vec<Input> = ranked.into_iter().map(|(_, input)| input).collect();
        let (offers, findings) = docker_config::offers(&inputs, widening);
        imported.offers = offers;
        imported.findings.extend(findings);
        imported
    }

    /// The namespaces that secrets are in or exported to.
    fn namespaces(&self) -> BTreeSet<&str> {
        let names = self.objects.iter().flat_map(|object| match object {
            Object::Secret(secret) => vec![secret.metadata.namespace.as_str()],
            Object::Export(export) => export.to_namespaces.iter().map(String::as_str).collect(),
            Object::Namespace(metadata) => vec![metadata.name.as_str()],
            Object::Other(_) => Vec::new(),
        });
        names.filter(|name| *name != ALL).collect()
    }

    /// Whether a secret is in a namespace, or exported to it.
    fn is_for(&self, secret: &SecretManifest, namespace: &str) -> Result<bool, &'static str> {
        if secret.metadata.namespace == namespace {
            return Ok(true);
        }
        let Some(export) = export_of(&secret.metadata, &self.objects) else {
            return Ok(false);
        };
        let reaches = reaches(export, namespace, destination(&self.objects, namespace))?;
        Ok(reaches && secret.kind == DOCKER_CONFIG_JSON)
    }
}

/// Whether Kubernetes would let a namespace have this name (RFC 1123, a label).
#[must_use]
pub fn is_namespace(name: &str) -> bool {
    let is_legal = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    let is_edge = name.starts_with('-') || name.ends_with('-');
    (1..=MAX_NAMESPACE_BYTES).contains(&name.len()) && name.bytes().all(is_legal) && !is_edge
}

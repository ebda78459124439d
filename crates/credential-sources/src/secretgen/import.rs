//! Files with credentials for image pulls, of any of the kinds that there are, read as one.

use super::Rank;
use crate::docker_config::{self, ConfigError, DockerConfig, Input, Shape, Widening};
use crate::secret_manifest::{self, MAX_MANIFEST_BYTES, ManifestError, Object, Payload};
use crate::{Finding, Loss, Offer, printable};

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
    /// What cannot be read at all. As for kubelet, which makes nothing of a keyring with one bad
    /// secret, the offers are not to be used then.
    pub faults: Vec<Finding>,
}

impl std::fmt::Debug for SourceFile<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SourceFile")
            .field("name", &self.name)
            .finish_non_exhaustive()
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
            let fault = Finding::new(file.name, "", Loss::Lost, text);
            reading.imported.faults.push(fault);
        }
    }
    reading.finish(destination, widening)
}

/// What was read so far.
#[derive(Default)]
struct Reading {
    imported: Imported,
    configs: Vec<Input>,
    /// The objects of all files, because an export may stand in another one than its secret.
    objects: Vec<Object>,
    /// Which file each object is from.
    origins: Vec<String>,
}

impl Reading {
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
                return self.manifests(name, text).map_err(|_| error.to_string());
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

    fn finish(mut self, destination: Option<&str>, widening: Widening) -> Imported {
        let configs = std::mem::take(&mut self.configs).into_iter();
        let mut ranked: Vec<(Rank, Input)> =
            configs.map(|input| (Rank::default(), input)).collect();
        for (object, origin) in self.objects.iter().zip(&self.origins) {
            let Object::Secret(secret) = object else {
                continue;
            };
            let source = format!(
                "{origin}: secret {}",
                printable(&secret.metadata.full_name())
            );
            match secret.payload() {
                Ok(Payload::Config(config)) => {
                    let rank = Rank::of(secret, &self.objects, destination);
                    ranked.push((rank, Input { source, config }));
                }
                Ok(Payload::Ignored { why, loss }) => {
                    let finding = Finding::new(&source, "", loss, why);
                    self.imported.findings.push(finding);
                }
                Err(error) => {
                    let fault = Finding::new(&source, "", Loss::Lost, error.to_string());
                    self.imported.faults.push(fault);
                }
            }
        }
        ranked.sort_by(|(one, _), (other, _)| one.cmp(other));
        let inputs: Vec<Input> = ranked.into_iter().map(|(_, input)| input).collect();
        let (offers, findings) = docker_config::offers(&inputs, widening);
        self.imported.offers = offers;
        self.imported.findings.extend(findings);
        self.imported
    }
}

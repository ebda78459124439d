//! A registry in memory: the recorded repositories, and what a client finds there.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use image_policy::Signature;
use image_policy::kept::Placed;
use oci_image::digest::Digest;
use oci_image::named::NamedReference;
use serde_json::Value;

const SIMPLE_SIGNING: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
const BUNDLE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";
const OCI_MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";

pub(crate) fn data(name: &str) -> PathBuf {
    PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../image-policy/tests/data/signatures"))
        .join(name)
}

pub(crate) fn rows(name: &str) -> Vec<Value> {
    read(&data(name))
}

/// Further rows of the same kinds, which are not in the repository, if somebody has some: files of
/// the same names in the folder that the variable names.
pub(crate) fn further_rows(name: &str) -> Vec<Value> {
    let folder = std::env::var_os("FURTHER_VERDICTS").map(PathBuf::from);
    folder.map_or_else(Vec::new, |folder| read(&folder.join(name)))
}

fn read(file: &Path) -> Vec<Value> {
    let text = fs::read_to_string(file).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// Where signatures of a digest are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    /// The tag `sha256-….sig`.
    Tag,
    /// The fallback index of referrers, bundles of it.
    Bundles,
    /// The fallback index of referrers, simple signing of it.
    SimpleReferrers,
}

/// What is seen of the signatures.
#[derive(Clone, Copy)]
pub(crate) enum Seen {
    /// All that there is, as it is.
    All,
    /// Only these layers, by the length of their content and their descriptor.
    Layers(fn(usize, &Value) -> bool),
    /// Manifests and layers whatever type they have.
    AnyType,
    /// As if they were written in another way.
    Spelled(fn(Signature) -> Signature),
}

/// `crates/registry-client/tests/signatures` serves the same over HTTP.
pub(crate) struct Registry {
    /// Tags and digests of each repository.
    pub(crate) repositories: BTreeMap<String, BTreeMap<String, String>>,
    pub(crate) blobs: BTreeMap<String, Vec<u8>>,
}

/// What was found for one digest.
pub(crate) struct Signatures(pub(crate) Digest, pub(crate) Vec<Signature>);

impl Signatures {
    pub(crate) fn placed(&self) -> Vec<Placed> {
        self.1.iter().map(|signature| (self.0.clone(), signature.clone())).collect()
    }
}

impl Registry {
    pub(crate) fn recorded() -> Self {
        let mut repositories = BTreeMap::new();
        for row in rows("repositories.jsonl") {
            let row: BTreeMap<_, _> = serde_json::from_value(row).unwrap();
            repositories.extend(row);
        }
        let blob = |row: Value| {
            let content = match row["text"].as_str() {
                Some(text) => text.as_bytes().to_vec(),
                None => base64(row["base64"].as_str().unwrap()),
            };
            (row["digest"].as_str().unwrap().to_owned(), content)
        };
        Self { repositories, blobs: rows("blobs.jsonl").into_iter().map(blob).collect() }
    }

    /// The repository that serves a name; `registry.test:5000/hub` is Docker Hub's mirror.
    pub(crate) fn path(reference: &NamedReference) -> String {
        if reference.registry().is_docker_hub() {
            return format!("hub/{}", reference.repository());
        }
        reference.repository().to_owned()
    }

    /// What a reference names, by digest: a repository has what its tags name, and what is below
    /// that.
    pub(crate) fn resolve(&self, reference: &NamedReference) -> Option<Digest> {
        let tags = self.repositories.get(&Self::path(reference))?;
        if let Some(digest) = reference.digest() {
            let mut tagged = tags.values().map(|text| Digest::parse(text).unwrap());
            let is_below = |tagged: &Digest| {
                let mut below = self.instances(tagged).into_iter();
                below.any(|(_, instance)| instance == *digest)
            };
            let is_there = tagged.any(|tagged| tagged == *digest || is_below(&tagged));
            return is_there.then(|| digest.clone());
        }
        let digest = tags.get(reference.tag().unwrap_or("latest"))?;
        Some(Digest::parse(digest).unwrap())
    }

    /// The instances of an index, with their architectures; none for a manifest.
    pub(crate) fn instances(&self, digest: &Digest) -> Vec<(String, Digest)> {
        let Some(index) = self.blobs.get(&digest.to_string()) else {
            return Vec::new();
        };
        let index: Value = serde_json::from_slice(index).unwrap_or_default();
        let manifests = index["manifests"].as_array().cloned().unwrap_or_default();
        let instance = |manifest: &Value| {
            let architecture = manifest["platform"]["architecture"].as_str();
            let digest = Digest::parse(manifest["digest"].as_str().unwrap()).unwrap();
            (architecture.unwrap_or_default().to_owned(), digest)
        };
        manifests.iter().map(instance).collect()
    }

    /// The signatures of a digest; an error where a client reads what is no signature manifest.
    pub(crate) fn signatures(
        &self,
        repository: &str,
        digest: &Digest,
        places: &[Place],
    ) -> Result<Signatures, String> {
        self.signatures_seen(repository, digest, places, Seen::All)
    }

    /// The same of what is seen.
    pub(crate) fn signatures_seen(
        &self,
        repository: &str,
        digest: &Digest,
        places: &[Place],
        seen: Seen,
    ) -> Result<Signatures, String> {
        let name = digest.to_string().replace(':', "-");
        let tags = &self.repositories[repository];
        let mut signatures = Vec::new();
        for place in places {
            match place {
                Place::Tag => {
                    let Some(manifest) = tags.get(&format!("{name}.sig")) else {
                        continue;
                    };
                    let manifest = self.json(manifest);
                    if !matches!(seen, Seen::AnyType) && manifest["mediaType"] != OCI_MANIFEST {
                        return Err("no OCI manifest".to_owned());
                    }
                    self.layers(&manifest, SIMPLE_SIGNING, seen, &mut signatures);
                }
                Place::Bundles => self.referrers(tags.get(&name), BUNDLE, seen, &mut signatures),
                Place::SimpleReferrers => {
                    self.referrers(tags.get(&name), SIMPLE_SIGNING, seen, &mut signatures);
                }
            }
        }
        Ok(Signatures(digest.clone(), signatures))
    }

    fn referrers(
        &self,
        index: Option<&String>,
        kind: &str,
        seen: Seen,
        signatures: &mut Vec<Signature>,
    ) {
        let Some(index) = index else { return };
        for entry in self.json(index)["manifests"].as_array().unwrap() {
            let manifest = self.json(entry["digest"].as_str().unwrap());
            self.layers(&manifest, kind, seen, signatures);
        }
    }

    fn layers(&self, manifest: &Value, kind: &str, seen: Seen, signatures: &mut Vec<Signature>) {
        for layer in manifest["layers"].as_array().into_iter().flatten() {
            // Of layers of other types not every content was recorded.
            let Some(content) = self.blobs.get(layer["digest"].as_str().unwrap()) else {
                assert_ne!(layer["mediaType"], kind);
                continue;
            };
            let is_kind = layer["mediaType"] == kind;
            let is_seen = match seen {
                Seen::AnyType => is_kind || kind != BUNDLE,
                Seen::Layers(takes) => is_kind && takes(content.len(), layer),
                Seen::All | Seen::Spelled(_) => is_kind,
            };
            if !is_seen {
                continue;
            }
            let annotation = &layer["annotations"]["dev.cosignproject.cosign/signature"];
            let signature = if kind == BUNDLE {
                Signature::Bundle(content.clone())
            } else {
                Signature::Simple {
                    payload: content.clone(),
                    signature: annotation.as_str().unwrap_or_default().to_owned(),
                }
            };
            signatures.push(match seen {
                Seen::Spelled(spelled) => spelled(signature),
                _ => signature,
            });
        }
    }

    fn json(&self, digest: &str) -> Value {
        serde_json::from_slice(&self.blobs[digest]).unwrap()
    }
}

fn base64(text: &str) -> Vec<u8> {
    use base64::Engine;
    base64::engine::general_purpose::STANDARD.decode(text).unwrap()
}

//! A reference from one document to another, or to a blob.

use std::collections::BTreeMap;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};

use crate::digest::Digest;
use crate::media_type::{CONFIG_TYPES, ENCRYPTED, INDEX_TYPES, MANIFEST_TYPES};
use crate::platform::Platform;

/// The name under which builders say what a manifest says about another one of the same index.
const ATTESTATION: &str = "attestation-manifest";

/// The annotation that has that name.
const REFERENCE_TYPE: &str = "vnd.docker.reference.type";

/// What the annotations that describe a layer's encryption begin with.
const ENCRYPTION: &str = "org.opencontainers.image.enc.";

/// What a document says about another document or a blob. Addresses (`urls`) and data within it are
/// not even read.
#[derive(Clone, Debug, Deserialize)]
pub struct Descriptor {
    /// What it is said to be; empty where the document leaves it out.
    #[serde(rename = "mediaType", default)]
    pub(crate) media_type: String,
    /// The digest of the content.
    pub digest: Digest,
    /// The size of the content, in bytes.
    pub size: u64,
    #[serde(default)]
    pub(crate) platform: Option<Box<Platform>>,
    #[serde(rename = "artifactType", default)]
    artifact_type: Option<String>,
    #[serde(default)]
    annotations: Option<Annotations>,
}

/// The annotations that mean something here.
#[derive(Clone, Debug, Default)]
struct Annotations {
    reference_type: Option<String>,
    encryption: BTreeMap<String, String>,
}

impl Descriptor {
    /// Whether an index lists it as something that may be an image: no attestation, no signature,
    /// no artifact.
    pub(crate) fn may_be_image(&self) -> bool {
        let media_type = self.media_type.as_str();
        let is_attestation = self
            .annotations
            .as_ref()
            .is_some_and(|annotations| annotations.reference_type.as_deref() == Some(ATTESTATION));
        let is_artifact = is_artifact(self.artifact_type.as_deref());
        let is_unknown = self.platform.as_ref().is_some_and(|platform| platform.is_unknown());
        let is_manifest = media_type.is_empty()
            || INDEX_TYPES.contains(&media_type)
            || MANIFEST_TYPES.contains(&media_type);
        is_manifest && !is_attestation && !is_artifact && !is_unknown
    }

    /// What says how to decrypt a layer that is said to be encrypted, by annotation; `None` for a
    /// plain one.
    pub fn encryption(&self) -> Option<&BTreeMap<String, String>> {
        static NOTHING: BTreeMap<String, String> = BTreeMap::new();
        let described = self.annotations.as_ref();
        self.media_type
            .ends_with(ENCRYPTED)
            .then(|| described.map_or(&NOTHING, |annotations| &annotations.encryption))
    }

    /// Whether annotations describe an encryption, whatever its type is.
    pub(crate) fn describes_encryption(&self) -> bool {
        self.annotations.as_ref().is_some_and(|annotations| !annotations.encryption.is_empty())
    }

    /// Its platform, where it says for which one it is.
    pub(crate) fn named_platform(&self) -> Option<&Platform> {
        self.platform.as_deref().filter(|platform| platform.is_named())
    }
}

/// Whether the type of an artifact is that of something else than an image.
pub(crate) fn is_artifact(artifact_type: Option<&str>) -> bool {
    artifact_type.is_some_and(|artifact| !artifact.is_empty() && !CONFIG_TYPES.contains(&artifact))
}

impl<'de> Deserialize<'de> for Annotations {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Names;
        impl<'de> Visitor<'de> for Names {
            type Value = Annotations;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("annotations")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Annotations, A::Error> {
                let mut read = Annotations::default();
                while let Some(name) = map.next_key::<String>()? {
                    if name == REFERENCE_TYPE {
                        read.reference_type = map.next_value()?;
                    } else if name.starts_with(ENCRYPTION) {
                        read.encryption.insert(name, map.next_value()?);
                    } else {
                        map.next_value::<IgnoredAny>()?;
                    }
                }
                Ok(read)
            }
        }
        deserializer.deserialize_map(Names)
    }
}

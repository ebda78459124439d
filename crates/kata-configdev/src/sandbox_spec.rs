//! What the OCI spec of a sandbox says about its pod.

use std::collections::BTreeMap;
use std::io;
use std::path::Path;

use foreign_text::shown;
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};

use crate::host_file::{FileError, HostFile};
use crate::namespace::{Claims, Engine, Namespace, NamespaceFault};

/// The annotation by which a pod names its own document: a path on the node; empty for no disk.
///
/// Not below `io.katacontainers.config.hypervisor.`: there Kata's Go runtime fails a sandbox on
/// keys that its configuration does not enable.
pub const ANNOTATION: &str = "io.katacontainers.config.runtime.imagepuller_config";

/// What the name of every annotation begins with that is meant for this program. Another one is a
/// mistake: a sandbox that ignored it would get another config than its pod's author asked for.
const OURS: &str = "io.katacontainers.config.runtime.imagepuller_";

/// The spec's file name in a bundle. Kata's shims run in the bundle, and QEMU inherits that
/// directory.
pub const FILE_NAME: &str = "config.json";

/// The longest spec that is read. Kubernetes limits all annotations of a pod to 256 KiB; the rest
/// of a sandbox's spec is some ten KiB. Free to change.
pub const MAX_SPEC_BYTES: usize = 8 << 20;

/// Why the spec of a sandbox cannot be used, as a fragment that fits after "failed to".
#[derive(Debug, thiserror::Error)]
pub enum SpecError {
    /// It cannot be read.
    #[error("read the sandbox's {0}")]
    File(FileError),
    /// It is no OCI spec.
    #[error("read the sandbox's {FILE_NAME}: not an OCI spec at line {line}, column {column}")]
    Text {
        /// The line, from 1.
        line: usize,
        /// The column, from 1.
        column: usize,
    },
    /// It has an annotation of this program that does not exist.
    #[error("use the annotation {}: there is none of this name", shown(.0).quoted())]
    UnknownAnnotation(String),
}

impl SpecError {
    /// What the reader can do about it.
    #[must_use]
    pub fn remedy(&self) -> &'static str {
        match self {
            Self::File(error) if error.fault.is_absent() => {
                "name the sandbox's bundle, the directory with the config.json that the container \
                engine writes"
            }
            Self::UnknownAnnotation(_) => {
                "correct or remove it in the pod; docs/configuration.md has the names"
            }
            Self::File(_) | Self::Text { .. } => {
                "the container engine writes this file; look at its log"
            }
        }
    }
}

/// What it means for the wrapper that a sandbox has no spec, so that nobody knows what its pod
/// wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum WithoutSpec {
    /// The same as a spec without the annotation.
    Node,
    /// The same as an empty annotation.
    None,
    /// The sandbox does not start.
    Fail,
}

/// What the spec of a sandbox says about its pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pod {
    /// The value of [`ANNOTATION`], which the pod's author writes; `None` where the spec does not
    /// have it.
    pub document: Option<String>,
    /// What of the pod's namespace is written, by whomever.
    claims: Claims,
}

impl Pod {
    /// A pod whose annotation is `document`, and of which nothing else is known.
    #[must_use]
    pub fn with_document(document: &str) -> Self {
        Self { document: Some(document.into()), ..Self::default() }
    }

    /// The pod's namespace, by the key that only `engine` can have written.
    ///
    /// # Errors
    ///
    /// [`NamespaceFault`].
    pub fn namespace(&self, engine: Engine) -> Result<Namespace, NamespaceFault> {
        self.claims.namespace(engine)
    }
}

/// What of the spec matters here; of the rest no more than the annotations is kept, to judge their
/// names.
#[derive(Deserialize)]
struct Spec {
    #[serde(rename = "ociVersion")]
    version: Option<IgnoredAny>,
    annotations: Option<Annotations>,
}

impl Spec {
    fn pod(self) -> Result<Pod, SpecError> {
        let annotations = self.annotations.unwrap_or_default();
        if let Some(name) = annotations.others.into_keys().find(|name| name.starts_with(OURS)) {
            return Err(SpecError::UnknownAnnotation(name));
        }
        Ok(Pod {
            document: annotations.document,
            claims: Claims {
                namespaces: [annotations.cri_namespace, annotations.pod_namespace],
                marks: [annotations.cri_type, annotations.container_name],
            },
        })
    }
}

/// A key that is there twice is refused: readers do not agree about which one counts.
#[derive(Default, Deserialize)]
struct Annotations {
    #[serde(rename = "io.katacontainers.config.runtime.imagepuller_config")]
    document: Option<String>,
    #[serde(rename = "io.kubernetes.cri.sandbox-namespace")]
    cri_namespace: Option<String>,
    #[serde(rename = "io.kubernetes.cri.container-type")]
    cri_type: Option<String>,
    #[serde(rename = "io.kubernetes.pod.namespace")]
    pod_namespace: Option<String>,
    #[serde(rename = "io.kubernetes.container.name")]
    container_name: Option<String>,
    #[serde(flatten)]
    others: BTreeMap<String, IgnoredAny>,
}

/// Whether there is a spec in `bundle`. One that cannot be looked at is there: reading it gives the
/// better message.
#[must_use]
pub fn exists(bundle: &Path) -> bool {
    !matches!(std::fs::metadata(bundle.join(FILE_NAME)),
        Err(error) if error.kind() == io::ErrorKind::NotFound)
}

/// Whether the file in `bundle` is an OCI spec, and not what another program calls `config.json`.
#[must_use]
pub fn is_oci(bundle: &Path) -> bool {
    read(bundle).is_ok_and(|spec| spec.version.is_some())
}

/// Reads what the spec in `bundle` says about the pod.
///
/// The spec is written by the container engine; what is in it, also by the pod's author.
///
/// # Errors
///
/// [`SpecError`], also where there is no spec.
pub fn pod(bundle: &Path) -> Result<Pod, SpecError> {
    read(bundle)?.pod()
}

/// [`pod`], of the text of a spec.
///
/// # Errors
///
/// [`SpecError::Text`], [`SpecError::UnknownAnnotation`].
pub fn parse_pod(text: &[u8]) -> Result<Pod, SpecError> {
    parse(text)?.pod()
}

fn read(bundle: &Path) -> Result<Spec, SpecError> {
    let path = bundle.join(FILE_NAME);
    let text = HostFile::open(&path)
        .and_then(|file| file.read(MAX_SPEC_BYTES))
        .map_err(|fault| SpecError::File(fault.at(path)))?;
    parse(&text)
}

fn parse(text: &[u8]) -> Result<Spec, SpecError> {
    // The parser's own words may quote the spec, which holds the pod's environment: only the place
    // is passed on.
    serde_json::from_slice(text)
        .map_err(|error| SpecError::Text { line: error.line(), column: error.column() })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_annotation_is_found_or_absent() {
        let cases = [
            (r#"{}"#, None),
            (r#"{"annotations":null}"#, None),
            (r#"{"annotations":{}}"#, None),
            (r#"{"annotations":{"other":"x"},"process":{"env":["A=B"]}}"#, None),
            (
                r#"{"ociVersion":"1.1","annotations":{"a":"b",
                "io.katacontainers.config.runtime.imagepuller_config":"/x"}}"#,
                Some("/x"),
            ),
            (
                r#"{"annotations":{"io.katacontainers.config.runtime.imagepuller_config":""}}"#,
                Some(""),
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(parse_pod(text.as_bytes()).unwrap().document.as_deref(), expected, "{text}");
        }
        assert!(cases[4].0.contains(ANNOTATION));
    }

    /// Go takes the last of several and others the first, so that none is taken.
    #[test]
    fn a_key_of_the_namespace_is_there_once() {
        use crate::namespace::{namespace_key, sandbox_mark};
        for engine in [Engine::Containerd, Engine::CriO] {
            let (key, (mark, value)) = (namespace_key(engine), sandbox_mark(engine));
            let spec = |more: &str| {
                format!(r#"{{"annotations":{{"{mark}":"{value}","{key}":"team-a"{more}}}}}"#)
            };
            let pod = parse_pod(spec("").as_bytes()).unwrap();
            assert_eq!(pod.namespace(engine).unwrap().as_str(), "team-a");
            let escaped = key.replace("io.", "\\u0069o.");
            for twice in [
                spec(&format!(r#","{key}":"team-b""#)),
                spec(&format!(r#","{escaped}":"team-b""#)),
                spec(&format!(r#","{mark}":"{value}""#)),
                spec("").replacen('}', r#"},"annotations":{}"#, 1),
            ] {
                let error = parse_pod(twice.as_bytes()).unwrap_err();
                assert!(matches!(error, SpecError::Text { .. }), "{twice}");
            }
            let number = spec("").replace("\"team-a\"", "7");
            assert!(parse_pod(number.as_bytes()).is_err(), "{number}");
        }
    }

    #[test]
    fn a_spec_that_is_none_is_refused_without_quoting_it() {
        let twice =
            format!(r#"{{"annotations":{{"{ANNOTATION}":"/x","{ANNOTATION}":"hunter2"}}}}"#);
        let number = format!(r#"{{"annotations":{{"{ANNOTATION}":7}}}}"#);
        let deep = format!(r#"{{"annotations":{}"#, "[".repeat(100_000));
        for text in ["", "hunter2", r#"{"annotations":"hunter2"}"#, &twice, &number, &deep, "{}x"] {
            let error = parse(text.as_bytes()).err().unwrap();
            assert!(matches!(error, SpecError::Text { .. }), "{error}");
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
    }

    #[test]
    fn a_spec_is_there_absent_or_unusable() {
        let bundle = tempfile::tempdir().unwrap();
        let fault = || match pod(bundle.path()) {
            Err(SpecError::File(error)) => error.fault,
            other => panic!("{other:?}"),
        };
        assert!(!exists(bundle.path()) && fault().is_absent());
        std::fs::create_dir(bundle.path().join(FILE_NAME)).unwrap();
        assert!(exists(bundle.path()) && !fault().is_absent());
    }
}

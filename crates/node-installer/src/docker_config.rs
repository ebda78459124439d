//! Docker configurations as the kubelet mounts them: secrets of the types
//! `kubernetes.io/dockerconfigjson` and `dockercfg`.
//!
//! A secret that is not there yet and one without content count as a configuration without entries:
//! so a placeholder secret can be filled later.

use std::io;
use std::path::{Path, PathBuf};

use credential_sources::docker_config::{
    ConfigError, DockerConfig, Input, MAX_CONFIG_BYTES, Shape, Widening, offers, shape,
};
use credential_sources::printable;
use zeroize::Zeroizing;

use crate::secret::{Secret, read_file};

/// The keys that hold a docker configuration; where a secret has both, the first counts. The
/// content says which form it has.
const KEYS: [&str; 2] = [".dockerconfigjson", ".dockercfg"];

const MANIFEST: &str = "it is a manifest, not the content of a secret: take the value of its \
    .dockerconfigjson, base64-decoded, or make a document of it by `kata-configdev import \
    docker-config`";

/// What is at one place.
pub(crate) enum SecretContent {
    /// Nothing yet.
    Absent,
    /// A secret without such a key, and the keys that it does have.
    OtherKeys(Vec<String>),
    /// A configuration, and the file that holds it.
    Config(PathBuf, DockerConfig),
}

/// Why a configuration cannot be used.
pub(crate) enum Fault {
    /// It cannot be read.
    Unreadable(PathBuf, io::Error),
    /// It is not what it should be; the broken rule, without a value.
    Unacceptable(PathBuf, String),
}

/// Reads the configuration at `place`, the directory of a secret or a file.
pub(crate) fn read(place: &Path) -> Result<SecretContent, Fault> {
    let (path, text) = if place.is_dir() {
        match read_secret(place)? {
            Ok(found) => found,
            Err(others) if others.is_empty() => return Ok(SecretContent::Absent),
            Err(others) => return Ok(SecretContent::OtherKeys(others)),
        }
    } else {
        let unreadable = |error| Fault::Unreadable(place.into(), error);
        match read_file(place, MAX_CONFIG_BYTES).map_err(unreadable)? {
            Some(text) => (place.to_owned(), text),
            None => return Ok(SecretContent::Absent),
        }
    };
    match parse(&text) {
        Ok(Some(config)) => Ok(SecretContent::Config(path, config)),
        Ok(None) => Ok(SecretContent::Absent),
        Err(rule) => Err(Fault::Unacceptable(path, rule)),
    }
}

/// Why none of the entries of `input` can be used; `None` where one can, or where it has none.
pub(crate) fn unusable(input: &Input, widening: Widening) -> Option<String> {
    let (offers, findings) = offers(std::slice::from_ref(input), widening);
    let worst = findings.iter().max_by_key(|finding| finding.loss)?;
    let is_unusable = offers.is_empty() && !input.config.entries.is_empty();
    is_unusable.then(|| format!("none of its entries can be used: {}: {}", worst.key, worst.text))
}

type Text = (PathBuf, Zeroizing<Vec<u8>>);

/// Reads the first of [`KEYS`] that the secret has; else the answer is the keys that it does have.
fn read_secret(directory: &Path) -> Result<Result<Text, Vec<String>>, Fault> {
    let mut keys = Vec::new();
    for key in KEYS {
        let path = directory.join(key);
        match Secret::read(directory, key, MAX_CONFIG_BYTES) {
            Ok(Secret::Present(text)) => return Ok(Ok((path, text))),
            Ok(Secret::Absent { others }) => keys = others,
            Err(error) => return Err(Fault::Unreadable(path, error)),
        }
    }
    Ok(Err(keys.iter().map(|key| printable(key)).collect()))
}

/// Parses a configuration of either form; `None` where there is no content, which the kubelet
/// ignores too.
fn parse(text: &[u8]) -> Result<Option<DockerConfig>, String> {
    if text.iter().all(u8::is_ascii_whitespace) {
        return Ok(None);
    }
    let is_manifest = || text.split(|byte| *byte == b'\n').any(|line| line.starts_with(b"kind:"));
    let told = |error: ConfigError| match error {
        ConfigError::NotJson { .. } if is_manifest() => MANIFEST.to_owned(),
        error => error.to_string(),
    };
    let config = match shape(text).map_err(told)? {
        Shape::Config => DockerConfig::parse(text),
        Shape::Legacy => DockerConfig::parse_legacy(text),
        Shape::Manifest => return Err(MANIFEST.to_owned()),
    };
    config.map(Some).map_err(told)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_valid_and_broken_ones_are_told_without_their_text() {
        for empty in ["", " \n"] {
            assert!(parse(empty.as_bytes()).unwrap().is_none());
        }
        for none in ["{}", "{}\n", "{\"auths\":{}}", "{\"auths\":null}"] {
            assert!(parse(none.as_bytes()).unwrap().unwrap().entries.is_empty());
        }
        for (one, key) in [
            (r#"{"auths":{"a.corp":{"auth":"dTpw"}}}"#, "a.corp"),
            (r#"{"b.corp":{"auth":"dTpw"}}"#, "b.corp"),
        ] {
            let config = parse(one.as_bytes()).unwrap().unwrap();
            assert!(config.entries.contains_key(key));
        }
        for (text, rule) in [
            ("hunter2", "it is not JSON: line 1"),
            ("{\"hunter2\":", "it is not JSON: line 1"),
            (r#"{"auths":{"a.corp":{"auth":["hunter2"]}}}"#, "of another type"),
            (r#"{"apiVersion":"v1","kind":"Secret","hunter2":{}}"#, "it is a manifest"),
            ("apiVersion: v1\nkind: Secret\nhunter2: x\n", "`kata-configdev import docker-config`"),
            ("eyJodW50ZXIyIjp7fX0=\n", "encoded once too often"),
            ("[\"hunter2\"]", "of another type"),
        ] {
            let error = parse(text.as_bytes()).unwrap_err();
            assert!(error.contains(rule), "{error}");
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}

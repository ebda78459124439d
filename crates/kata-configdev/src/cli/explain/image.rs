//! The image in question: its registry, as the guest's puller would read it.

use std::fmt;

use oci_spec::distribution::Reference;
use puller_config::RegistryHost;
use serde::Serialize;

/// The longest reference that is looked at, as in the guest.
const MAX_REFERENCE_BYTES: usize = 1024;

/// An image's reference, taken apart.
#[derive(Debug, Serialize)]
pub struct Image {
    #[serde(serialize_with = "shown")]
    pub host: RegistryHost,
    repository: String,
    tag: Option<String>,
    digest: Option<String>,
}

fn shown<S: serde::Serializer>(host: &RegistryHost, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(host)
}

impl Image {
    /// Reads `registry.corp:5000/team/app:tag@sha256:...`; the error is the broken rule, and does
    /// not repeat the text.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > MAX_REFERENCE_BYTES {
            return Err(format!("it has more than {MAX_REFERENCE_BYTES} bytes"));
        }
        let reference: Reference = text
            .parse()
            .map_err(|error: oci_spec::distribution::ParseError| error.to_string())?;
        let host = RegistryHost::parse(reference.registry()).map_err(|rule| rule.to_string())?;
        let repository = reference.repository().to_owned();
        // The parser takes "A/b" for a repository of Docker Hub, though no repository has
        // upper-case letters.
        if repository.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return Err("the name of a repository is lower-case".into());
        }
        Ok(Self {
            host,
            repository,
            tag: reference.tag().map(Into::into),
            digest: reference.digest().map(Into::into),
        })
    }
}

impl fmt::Display for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of the registry {}", self.repository, self.host)?;
        match (&self.digest, &self.tag) {
            (Some(digest), _) => write!(f, ", pinned to {digest}"),
            (None, tag) => write!(
                f,
                ", tag {:?} without a digest: the guest pulls by digest only",
                tag.as_deref().unwrap_or("latest")
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_names_are_docker_hubs() {
        for (text, host, repository) in [
            ("alpine", "docker.io", "library/alpine"),
            ("team/app:1", "docker.io", "team/app"),
            ("index.docker.io/alpine", "docker.io", "library/alpine"),
            ("localhost/app", "localhost", "app"),
            ("localhost:5000/app", "localhost:5000", "app"),
            ("192.0.2.1/app", "192.0.2.1", "app"),
            ("Registry.Corp/app", "registry.corp", "app"),
        ] {
            let image = Image::parse(text).unwrap_or_else(|rule| panic!("{text}: {rule}"));
            assert_eq!(
                (image.host.to_string().as_str(), image.repository.as_str()),
                (host, repository),
                "{text}"
            );
        }
    }

    #[test]
    fn what_is_no_reference_is_refused_without_quoting_it() {
        let long = format!("registry.corp/{}", "hunter2/".repeat(200));
        for text in [
            "",
            "https://robot:hunter2@registry.corp/app",
            "robot:hunter2@registry.corp/app",
            "registry.corp/App",
            "App/hunter2",
            "registry..corp/app",
            // No reference has an IPv6 address; the guest cannot read one either.
            "[::1]:5000/app",
            "registry.corp/app@sha256:hunter2",
            "registry.corp/app:hunter2\n",
            &long,
        ] {
            let rule = Image::parse(text).unwrap_err();
            assert!(!rule.contains("hunter2"), "{rule}");
        }
    }
}

//! Which names a scope is for.
//!
//! A scope and the name of an image are compared in the one spelling of [`RegistryHost`]: a host
//! with capitals, with `:443`, with a dot at its end or by another of Docker Hub's names is the
//! same host. containers/image compares texts, so there a name in another spelling walks past its
//! scope.

use oci_image::digest::Digest;
use oci_image::named::{NamedReference, is_repository_path, is_tag};
use registry_config::RegistryHost;

/// What a scope's text stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Scope {
    /// The one spelling, by which it is found.
    pub(crate) spelling: String,
    /// The repository whose tag it names, if it names one.
    pub(crate) tag_of: Option<String>,
}

/// Reads a scope of the transport `docker`.
///
/// # Errors
///
/// Why the text stands for no image, with what to write.
pub(crate) fn read(text: &str) -> Result<Scope, String> {
    let plain = |spelling: String| Scope { spelling, tag_of: None };
    if text.is_empty() {
        return Ok(plain(String::new()));
    }
    if let Some(domain) = text.strip_prefix("*.") {
        return read_wildcard(domain).map(plain);
    }
    if text.contains("://") {
        return Err("has a scheme; write what follows it".to_owned());
    }
    let (host, path) = match text.split_once('/') {
        Some((host, path)) => (host, Some(path)),
        None => (text, None),
    };
    if !host.contains(['.', ':', '[']) && host != "localhost" {
        return Err("begins with no registry; write one, such as docker.io/".to_owned());
    }
    let registry = RegistryHost::parse(host).map_err(|error| format!("names no host: {error}"))?;
    let host = registry.canonical();
    let Some(path) = path else {
        return Ok(plain(host));
    };
    read_path(&registry, path)
}

/// `*.corp`: every host below, at any depth and port.
fn read_wildcard(domain: &str) -> Result<String, String> {
    match RegistryHost::parse(domain) {
        Ok(host) if host.port().is_some() => {
            Err("is a wildcard with a port; write it without".to_owned())
        }
        // Another name of Docker Hub would fold to it, and stand for more.
        Ok(host) if host.is_docker_hub() && !domain.eq_ignore_ascii_case("docker.io") => {
            Err("is a wildcard below a name of Docker Hub, which has no hosts".to_owned())
        }
        Ok(host) if domain.starts_with('[') => Err(format!("is a wildcard of an address, {host}")),
        Ok(host) => Ok(format!("*.{}", host.name())),
        // The end of an IPv4 address, which is no name of a host.
        Err(_) if is_of_numbers(domain) => Ok(format!("*.{domain}")),
        Err(error) => Err(format!("names no domain behind \"*.\": {error}")),
    }
}

fn is_of_numbers(domain: &str) -> bool {
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    domain.split('.').all(is_number)
}

/// What follows the host.
fn read_path(registry: &RegistryHost, path: &str) -> Result<Scope, String> {
    let host = registry.canonical();
    let (name, digest) = match path.split_once('@') {
        Some((name, digest)) => (name, Some(digest)),
        None => (path, None),
    };
    let (repository, tag) = match name.split_once(':') {
        Some((repository, tag)) => (repository, Some(tag)),
        None => (name, None),
    };
    if !is_repository_path(repository) {
        return Err("has no repository or namespace behind the host; write one in small letters, \
                    without \"*\" and without \"/\" at its end: a namespace is for all below it"
            .to_owned());
    }
    let is_image = tag.is_some() || digest.is_some();
    if is_image && registry.is_docker_hub() && !repository.contains('/') {
        return Err("names an image of Docker Hub without its namespace; write \
                    docker.io/library/ before it"
            .to_owned());
    }
    let name = format!("{host}/{repository}");
    let tag_of = tag.map(|_| name.clone());
    let spelling = match (tag, digest) {
        (None, None) => name,
        (Some(tag), None) if is_tag(tag) => format!("{name}:{tag}"),
        (Some(_), None) => return Err("has no tag behind the colon".to_owned()),
        (Some(_), Some(_)) => {
            return Err("has a tag and a digest, and no image has both for containers/image; \
                        write two scopes, one with each"
                .to_owned());
        }
        (None, Some(digest)) => {
            let digest = Digest::parse(digest)
                .map_err(|error| format!("has no digest behind \"@\": {error}"))?;
            format!("{name}@{digest}")
        }
    };
    Ok(Scope { spelling, tag_of })
}

/// The scopes above an image's exact name, from the repository up to every image, in the order of
/// containers/image.
pub(crate) fn above(reference: &NamedReference) -> Vec<String> {
    let host = reference.registry().canonical();
    let mut scopes = Vec::new();
    let mut path = reference.repository();
    loop {
        scopes.push(format!("{host}/{path}"));
        match path.rsplit_once('/') {
            Some((parent, _)) => path = parent,
            None => break,
        }
    }
    scopes.push(host);
    let domain = reference.registry().name();
    let mut rest = domain.as_str();
    while let Some((_, parent)) = rest.split_once('.') {
        scopes.push(format!("*.{parent}"));
        rest = parent;
    }
    scopes.push(String::new());
    scopes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scope_has_one_spelling() {
        for (text, spelling) in [
            ("", ""),
            ("*.Test", "*.test"),
            ("*.0.2.1", "*.0.2.1"),
            ("registry.test:5000", "registry.test:5000"),
            ("Registry.TEST.:443/team", "registry.test/team"),
            ("localhost/app", "localhost/app"),
            ("index.docker.io/library/tiny:1", "docker.io/library/tiny:1"),
            ("docker.io/library", "docker.io/library"),
            ("[::1]:5000/app", "[::1]:5000/app"),
        ] {
            assert_eq!(read(text).unwrap().spelling, spelling, "{text}");
        }
    }

    #[test]
    fn what_stands_for_no_image_says_why() {
        let digest = "0".repeat(64);
        let both = format!("registry.test/app:1@sha256:{digest}");
        for text in [
            "*",
            "*test",
            "a.*.test",
            "*.registry.test:5000",
            ".test",
            "team/deep/app",
            "docker://registry.test:5000/app",
            "//registry.test/app",
            "registry.test/team/",
            "registry.test/team/*",
            "registry.test/Team",
            "registry.test/app:",
            "registry.test/app@sha256:0",
            "docker.io/tiny:1.0",
            both.as_str(),
        ] {
            assert!(read(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_walk_goes_from_the_repository_to_everything() {
        let reference = NamedReference::parse("a.Registry.test:5000/team/deep/app:1.0").unwrap();
        assert_eq!(
            above(&reference),
            [
                "a.registry.test:5000/team/deep/app",
                "a.registry.test:5000/team/deep",
                "a.registry.test:5000/team",
                "a.registry.test:5000",
                "*.registry.test",
                "*.test",
                "",
            ]
        );
    }
}

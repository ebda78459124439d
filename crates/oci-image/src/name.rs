//! The grammar of image names: `[REGISTRY/]REPOSITORY[:TAG][@DIGEST]`, with a reason for whatever
//! does not follow it.
//!
//! The grammar is the one that Docker and containerd share, and IPv6 addresses in brackets besides.
//! Reasons never quote the text: a name that somebody wrote with a password in it must not end up
//! in an event.

use registry_config::RegistryHost;

use crate::digest::Digest;
use crate::reference::InvalidReference;

/// The longest reference that is looked at: a host, a repository of 255 bytes, a tag of 128 and a
/// digest fit well.
pub const MAX_REFERENCE_BYTES: usize = 1024;

/// The longest repository (the rule of Docker's registry, which others took over).
const MAX_REPOSITORY_BYTES: usize = 255;

/// The longest tag (OCI distribution specification, "Pulling manifests").
const MAX_TAG_BYTES: usize = 128;

/// The namespace of Docker Hub whose images are written without any.
const DOCKER_HUB_NAMESPACE: &str = "library";

/// A reference taken apart, each part according to the grammar.
pub(crate) struct Name {
    pub registry: RegistryHost,
    pub repository: String,
    pub tag: Option<String>,
    pub digest: Option<Digest>,
}

impl Name {
    pub(crate) fn parse(text: &str) -> Result<Self, InvalidReference> {
        check_whole(text)?;
        let (name, digest) = match text.split_once('@') {
            // Whatever comes before the "@" of a login is not a name, and what follows it is no
            // digest.
            Some((_, rest)) if rest.contains('/') => return Err(InvalidReference::UserInfo),
            Some((name, digest)) => (name, Some(Digest::parse(digest)?)),
            None => (text, None),
        };
        let (registry, rest) = split_registry(name)?;
        let (repository, tag) = match rest.split_once(':') {
            Some((repository, tag)) => (repository, Some(check_tag(tag)?.to_owned())),
            None => (rest, None),
        };
        check_repository(repository)?;
        let repository = if registry.is_docker_hub() && !repository.contains('/') {
            format!("{DOCKER_HUB_NAMESPACE}/{repository}")
        } else {
            repository.to_owned()
        };
        if repository.len() > MAX_REPOSITORY_BYTES {
            return Err(InvalidReference::RepositoryTooLong { length: repository.len() });
        }
        Ok(Self { registry, repository, tag, digest })
    }
}

/// The mistakes that are worth their own words, before the grammar calls them something else.
fn check_whole(text: &str) -> Result<(), InvalidReference> {
    if text.is_empty() {
        return Err(InvalidReference::Empty);
    }
    if text.len() > MAX_REFERENCE_BYTES {
        return Err(InvalidReference::TooLong { length: text.len() });
    }
    if text.chars().any(char::is_whitespace) {
        return Err(InvalidReference::Space);
    }
    if text.contains("://") {
        return Err(InvalidReference::Scheme);
    }
    Ok(())
}

/// Splits the registry off. Only what has a dot, a colon or brackets is one, and `localhost`; other
/// names are Docker Hub's.
fn split_registry(name: &str) -> Result<(RegistryHost, &str), InvalidReference> {
    if let Some((first, rest)) = name.split_once('/') {
        if first.contains(['.', ':', '[', ']']) || first == "localhost" {
            let registry = RegistryHost::parse(first)?;
            // Without that dot the rest may not be a registry's name any more, and the reference
            // would mean another image.
            if first.ends_with('.') || first.contains(".:") {
                return Err(InvalidReference::TrailingDot);
            }
            return Ok((registry, rest));
        }
        if first.bytes().any(|byte| byte.is_ascii_uppercase()) {
            return Err(InvalidReference::UppercaseRegistry);
        }
    } else if name.starts_with('[') {
        return Err(InvalidReference::NoRepository);
    }
    Ok((RegistryHost::parse("docker.io")?, name))
}

/// Components of letters and digits, joined by a dot, one or two underscores, or hyphens; slashes
/// between components.
fn check_repository(repository: &str) -> Result<(), InvalidReference> {
    if repository.is_empty() {
        return Err(InvalidReference::NoRepository);
    }
    if repository.bytes().any(|byte| byte.is_ascii_uppercase()) {
        return Err(InvalidReference::Uppercase);
    }
    if is_path(repository) { Ok(()) } else { Err(InvalidReference::Repository) }
}

/// Whether a text is the path of a repository, or of a namespace above one.
pub(crate) fn is_path(text: &str) -> bool {
    text.split('/').all(is_component)
}

fn is_component(component: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let bytes = component.as_bytes();
    let ends_in_words =
        bytes.first().copied().is_some_and(is_word) && bytes.last().copied().is_some_and(is_word);
    ends_in_words
        && component
            .split(|letter: char| letter.is_ascii_lowercase() || letter.is_ascii_digit())
            .all(|joint| {
                matches!(joint, "" | "." | "_" | "__") || joint.bytes().all(|byte| byte == b'-')
            })
}

pub(crate) fn check_tag(tag: &str) -> Result<&str, InvalidReference> {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    let is_tag = tag.len() <= MAX_TAG_BYTES
        && tag.bytes().next().is_some_and(is_word)
        && tag.bytes().all(|byte| is_word(byte) || byte == b'.' || byte == b'-');
    if is_tag { Ok(tag) } else { Err(InvalidReference::Tag) }
}

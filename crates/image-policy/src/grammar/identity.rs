//! `signedIdentity`: what a signature must name.

use oci_image::named::is_repository_path;
use puller_config::RegistryHost;

use crate::identity::{Identity, SignedName};
use crate::json_node::{InvalidPolicy, Node};

pub(super) fn read(node: &Node<'_, '_>) -> Result<Identity, InvalidPolicy> {
    let plain = |identity| node.members(&["type"]).map(|_| identity);
    match node.peek("type") {
        Some("matchExact") => plain(Identity::Exact),
        Some("matchRepoDigestOrExact") => plain(Identity::RepoDigestOrExact),
        Some("matchRepository") => plain(Identity::Repository),
        Some("digestOnly") => plain(Identity::DigestOnly),
        Some("exactReference") => {
            let node = node.members(&["type", "dockerReference"])?;
            let node = node.need("dockerReference")?;
            let reference = reference(&node)?;
            if reference.is_bare() {
                return Err(node.refuse("has neither tag nor digest; exactRepository needs none"));
            }
            Ok(Identity::ExactReference(reference))
        }
        Some("exactRepository") => {
            let members = node.members(&["type", "dockerRepository"])?;
            let repository = reference(&members.need("dockerRepository")?)?;
            Ok(Identity::ExactRepository(repository.repository().to_owned()))
        }
        Some("remapIdentity") => {
            let members = node.members(&["type", "prefix", "signedPrefix"])?;
            Ok(Identity::Remap {
                prefix: prefix(&members.need("prefix")?)?,
                signed_prefix: prefix(&members.need("signedPrefix")?)?,
            })
        }
        _ => Err(node.refuse(
            "has no type that is known: matchExact, matchRepoDigestOrExact, matchRepository, \
            exactReference, exactRepository, remapIdentity, digestOnly",
        )),
    }
}

fn reference(node: &Node<'_, '_>) -> Result<SignedName, InvalidPolicy> {
    SignedName::parse(node.text()?).map_err(|error| node.refuse(format!("is no name: {error}")))
}

/// A host, or a host and the beginning of a repository, in the grammar of containers/image.
///
/// What is right by the grammar and no image can begin with, such as a port that there is not, is
/// taken as it is written, and is the beginning of no name.
fn prefix(node: &Node<'_, '_>) -> Result<String, InvalidPolicy> {
    let text = node.text()?;
    let (host, path) = match text.split_once('/') {
        Some((host, path)) => (host, Some(path)),
        None => (text, None),
    };
    if !is_host(host) {
        return Err(node.refuse("begins with no host"));
    }
    if path.is_some_and(|path| !is_repository_path(path)) {
        return Err(node.refuse(
            "is no beginning of a repository's name: whole segments without \"/\" at the end",
        ));
    }
    let canonical = RegistryHost::parse(host).map(|host| host.canonical());
    let host = canonical.unwrap_or_else(|_| host.to_owned());
    Ok(path.map_or_else(|| host.clone(), |path| format!("{host}/{path}")))
}

/// Names joined by dots, or an address in brackets, with a port of any digits.
fn is_host(text: &str) -> bool {
    let (name, rest) = match text.strip_prefix('[') {
        Some(rest) => match rest.split_once(']') {
            Some((address, rest)) => (address, rest),
            None => return false,
        },
        None => text.split_at(text.find(':').unwrap_or(text.len())),
    };
    let is_port = match rest.strip_prefix(':') {
        Some(port) => !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()),
        None => rest.is_empty(),
    };
    let is_name = if text.starts_with('[') {
        let is_part = |byte: u8| byte.is_ascii_hexdigit() || byte == b':';
        !name.is_empty() && name.bytes().all(is_part)
    } else {
        name.split('.').all(is_label)
    };
    is_name && is_port
}

fn is_label(label: &str) -> bool {
    let is_part = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-';
    !label.is_empty()
        && !label.starts_with('-')
        && !label.ends_with('-')
        && label.bytes().all(is_part)
}

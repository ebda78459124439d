//! `signedIdentity`: what a signature must name.

use oci_image::named::{NamedReference, is_repository_path};
use puller_config::RegistryHost;

use crate::identity::Identity;
use crate::json_node::{InvalidPolicy, Node};
use crate::policy::Dialect;

/// What a missing `signedIdentity` of `sigstoreSigned` means.
pub(super) fn default(dialect: Dialect) -> Identity {
    match dialect {
        Dialect::Containers => Identity::RepoDigestOrExact,
        Dialect::Coco => Identity::Repository,
    }
}

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
            if reference.tag().is_none() && reference.digest().is_none() {
                return Err(node.refuse("has neither tag nor digest; exactRepository needs none"));
            }
            Ok(Identity::ExactReference(reference))
        }
        Some("exactRepository") => {
            let members = node.members(&["type", "dockerRepository"])?;
            let repository = reference(&members.need("dockerRepository")?)?;
            Ok(Identity::ExactRepository(repository.name()))
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

fn reference(node: &Node<'_, '_>) -> Result<NamedReference, InvalidPolicy> {
    NamedReference::parse(node.text()?).map_err(|error| node.refuse(format!("is no name: {error}")))
}

/// A host, or a host and the beginning of a repository.
fn prefix(node: &Node<'_, '_>) -> Result<String, InvalidPolicy> {
    let text = node.text()?;
    let (host, path) = match text.split_once('/') {
        Some((host, path)) => (host, Some(path)),
        None => (text, None),
    };
    let host = RegistryHost::parse(host)
        .map_err(|error| node.refuse(format!("begins with no host: {error}")))?
        .canonical();
    match path {
        None => Ok(host),
        Some(path) if is_repository_path(path) => Ok(format!("{host}/{path}")),
        Some(_) => Err(node.refuse(
            "is no beginning of a repository's name: whole segments without \"/\" at the end",
        )),
    }
}

//! `signedIdentity`: what a signature must name.

use crate::identity::{Identity, ImageName};
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
            Ok(Identity::ExactRepository(repository.name))
        }
        Some("remapIdentity") => Err(node.refuse(
            "is a remapIdentity, which is not supported; sign the image again, under the name that \
            guests pull",
        )),
        _ => Err(node.refuse(
            "has no type that is known: matchExact, matchRepoDigestOrExact, matchRepository, \
            exactReference, exactRepository, digestOnly",
        )),
    }
}

fn reference(node: &Node<'_, '_>) -> Result<ImageName, InvalidPolicy> {
    ImageName::parse(node.text()?).map_err(|error| node.refuse(format!("is no name: {error}")))
}

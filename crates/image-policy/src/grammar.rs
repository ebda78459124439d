//! The grammar of containers-policy.json(5), read strictly.
//!
//! What containers/image refuses is refused here: unknown members, empty lists, also under a scope
//! or transport that has nothing to do with any image. What it takes and never fulfils is taken
//! too, and refuses the images that it is for. A scope that no image can have is refused, where
//! containers/image passes over it: it may be the one that was meant to reject.

mod identity;
mod requirement;
mod transport;

use std::collections::{BTreeMap, BTreeSet};

use foreign_text::json::{self, Duplicates, Limits, MAX_DEPTH};
use foreign_text::position::Lines;

use crate::identity::Identity;
use crate::json_node::{InvalidPolicy, Node};
use crate::key::PublicKey;
use crate::policy::{
    Entry, KeyPlace, MAX_POLICY_BYTES, MAX_POLICY_KEYS, MAX_POLICY_VALUES, Policy, Requirement,
    Signed,
};
use crate::remark::Remark;
use crate::scope::{self, Scope};

/// The transport that images of registries have.
const DOCKER: &str = "docker";

/// Reads a policy. A missing `signedIdentity` means what is given, or `matchRepository` where the
/// keys say that Confidential Containers are meant.
pub(crate) fn read(text: &[u8], default_identity: Identity) -> Result<Policy, InvalidPolicy> {
    let limits = Limits { bytes: MAX_POLICY_BYTES, values: MAX_POLICY_VALUES, depth: MAX_DEPTH };
    let value = json::read(text, limits, Duplicates::Refused);
    let value = value.map_err(|error| InvalidPolicy(error.to_string()))?;
    let lines = Lines::of(text);
    let root = Node::root(&value, &lines);
    let read = |default_identity| Reader { default_identity, ..Reader::default() }.policy(&root);
    let policy = read(default_identity)?;
    match has_keys_of_kbs_only(&policy) {
        true => read(Identity::Repository),
        false => Ok(policy),
    }
}

/// Whether every key is a resource of Confidential Containers' key broker, so that its owner wrote
/// the policy for a guest of that project.
fn has_keys_of_kbs_only(policy: &Policy) -> bool {
    let scopes = policy.scopes.values().flat_map(|entry| &entry.requirements);
    let mut keys = policy.default.iter().chain(scopes).flat_map(Requirement::keys);
    keys.all(|key| matches!(key, KeyPlace::Path(path) if path.starts_with("kbs:")))
}

/// Of what is for every image, and asks for nothing.
const OPEN: &str = "accepts anything that no other scope is for, so the host runs what it likes \
    under any other name; write [{\"type\": \"reject\"}]";

/// Of a scope that asks for nothing; not of a digest, whose content the owner knows.
const ACCEPTS: &str = "accepts anything: name, digest and mirror are the host's to write, so the \
    host runs what it likes under this scope; write the scope of the digest, or ask for a \
    signature";

fn is_open(requirements: &[Requirement]) -> bool {
    requirements.iter().all(|one| *one == Requirement::Accept)
}

/// The namespace that a scope is for, where it may be meant as the short name of an image.
fn hub_namespace(spelling: &str) -> Option<&str> {
    let name = spelling.strip_prefix("docker.io/")?;
    (!name.contains('/') && name != "library").then_some(name)
}

#[derive(Default)]
struct Reader {
    /// The meaning of a missing `signedIdentity`.
    default_identity: Identity,
    remarks: Vec<Remark>,
    scopes: BTreeMap<String, Entry>,
    /// The scopes that no image can have, and why: a wider scope, or the default, would decide for
    /// the images that they are meant for.
    of_no_image: Vec<Remark>,
    /// How many keys there are.
    keys: usize,
    /// The scopes of tags that demand nothing, by their repository, with a remark for each.
    open_tags: Vec<(String, Remark)>,
    /// The repositories with a tag whose scope demands something.
    demanding_tags: BTreeSet<String>,
}

impl Reader {
    fn policy(mut self, root: &Node<'_, '_>) -> Result<Policy, InvalidPolicy> {
        let members = root.members(&["default", "transports"])?;
        let default = members.need("default")?;
        let requirements = self.requirements(&default)?;
        if is_open(&requirements) {
            self.remark(&default, OPEN);
        }
        if let Some(transports) = members.get("transports") {
            for (name, transport) in transports.named()? {
                self.transport(name, &transport)?;
            }
        }
        if !self.of_no_image.is_empty() {
            let scopes: Vec<_> = self.of_no_image.iter().map(ToString::to_string).collect();
            return Err(InvalidPolicy(format!(
                "it has scopes that no image can have, so that a wider one would decide: {}",
                scopes.join("; and ")
            )));
        }
        self.remark_open_tags(&requirements);
        Ok(Policy { default: requirements, scopes: self.scopes, remarks: self.remarks })
    }

    fn remark(&mut self, node: &Node<'_, '_>, words: impl Into<String>) {
        self.remarks.push(node.remark(words));
    }

    fn transport(&mut self, name: &str, transport: &Node<'_, '_>) -> Result<(), InvalidPolicy> {
        if name != DOCKER {
            self.remark(transport, "is for no image of a registry, so nothing here asks it");
            let remarks = self.remarks.len();
            for (text, scope) in transport.named()? {
                transport::check_scope(name, text).map_err(|why| scope.refuse(why))?;
                self.requirements(&scope)?;
            }
            self.remarks.truncate(remarks);
            return Ok(());
        }
        for (text, node) in transport.named()? {
            let requirements = self.requirements(&node)?;
            match scope::read(text) {
                Ok(scope) => self.scope(scope, text, requirements, &node)?,
                Err(reason) => self.of_no_image.push(node.remark(reason)),
            }
        }
        Ok(())
    }

    fn scope(
        &mut self,
        scope: Scope,
        written: &str,
        requirements: Vec<Requirement>,
        node: &Node<'_, '_>,
    ) -> Result<(), InvalidPolicy> {
        let is_open = is_open(&requirements);
        match scope.tag_of {
            Some(repository) if is_open => {
                self.open_tags.push((repository, node.remark(ACCEPTS)));
            }
            Some(repository) => _ = self.demanding_tags.insert(repository),
            None if is_open && written.is_empty() => self.remark(node, OPEN),
            None if is_open && !written.contains('@') => self.remark(node, ACCEPTS),
            None => {}
        }
        if let Some(name) = hub_namespace(&scope.spelling) {
            let words = format!(
                "is for the images of a namespace of Docker Hub, docker.io/{name}/...; the \
                official image {name} is docker.io/library/{name}, and of a namespace name each \
                repository"
            );
            self.remark(node, words);
        }
        let written = written.to_owned();
        match self.scopes.insert(scope.spelling, Entry { written, requirements }) {
            None => Ok(()),
            Some(_) => Err(node.refuse("is there twice, in two spellings; keep one of them")),
        }
    }

    /// A tag that asks for nothing accepts anything, or counts for nothing where something is asked
    /// for without it.
    fn remark_open_tags(&mut self, default: &[Requirement]) {
        for (repository, remark) in std::mem::take(&mut self.open_tags) {
            let what = if self.demanding_tags.contains(&repository) {
                "the other tags of its repository decide"
            } else if !is_open(self.above(&repository, default)) {
                "the scopes above decide"
            } else {
                // Nothing above is asked for either; at a terminal the tag's scope decides.
                self.remarks.push(remark);
                continue;
            };
            let words = format!(
                "lets no image run but what [pins] has under this tag: guests pull by digest, and \
                it is the host that writes the tag before it, so {what}; name the digest in the \
                scope, pin the tag, or ask for a signature"
            );
            self.remarks.push(Remark { words, ..remark });
        }
    }

    /// What is asked for of an image of the repository that no scope of a tag is for; scopes with
    /// wildcards are not looked at.
    fn above<'r>(&'r self, repository: &str, default: &'r [Requirement]) -> &'r [Requirement] {
        let above = repository.rmatch_indices('/');
        let above = above.map(|(at, _)| &repository[..at]);
        let mut all = [repository].into_iter().chain(above).chain([""]);
        let entry = all.find_map(|scope| self.scopes.get(scope));
        entry.map_or(default, |entry| entry.requirements.as_slice())
    }

    /// A list that has at least one requirement.
    fn requirements(&mut self, list: &Node<'_, '_>) -> Result<Vec<Requirement>, InvalidPolicy> {
        let items = list.items()?;
        if items.is_empty() {
            return Err(list.refuse(
                "has no requirement; write {\"type\": \"reject\"} or \
                {\"type\": \"insecureAcceptAnything\"}, if that is meant",
            ));
        }
        items.iter().map(|item| self.requirement(item)).collect()
    }

    fn requirement(&mut self, node: &Node<'_, '_>) -> Result<Requirement, InvalidPolicy> {
        let requirement = requirement::read(node, &self.default_identity)?;
        match &requirement {
            Requirement::Unsupported(what) => {
                let words = format!("refuses every image: {} {}", what.name(), what.reason());
                self.remark(node, words);
            }
            Requirement::Signed(signed) => {
                self.keys += signed.keys.len();
                if self.keys > MAX_POLICY_KEYS {
                    return Err(node.refuse(format!(
                        "has more keys, with those before it, than the {MAX_POLICY_KEYS} that a \
                        policy may have"
                    )));
                }
                self.remark_keys(node, signed);
                self.remark_identity(node, signed);
            }
            _ => {}
        }
        Ok(requirement)
    }

    fn remark_keys(&mut self, node: &Node<'_, '_>, signed: &Signed) {
        let unusable = signed.keys.iter().find_map(|key| match key {
            KeyPlace::Inline(bytes) => PublicKey::parse(bytes).err(),
            KeyPlace::Path(_) => None,
        });
        if let Some(why) = unusable {
            self.remark(node, format!("refuses every image: a key of its data {why}"));
        }
    }

    fn remark_identity(&mut self, node: &Node<'_, '_>, signed: &Signed) {
        if signed.is_default_identity {
            let words = match signed.identity {
                Identity::Repository => {
                    "has no signedIdentity, which means matchRepository here, as in every policy \
                    of cdh.toml and wherever all keys are kbs: URIs; elsewhere it means \
                    matchRepoDigestOrExact, so write it down"
                }
                _ => {
                    "has no signedIdentity, which means matchRepoDigestOrExact: that refuses what \
                    `cosign sign` writes, a repository without tag; write matchRepository for such \
                    signatures"
                }
            };
            self.remark(node, words);
        }
        if signed.identity.takes_bundles() {
            self.remark(
                node,
                "takes every image that the key has ever signed for any repository, for \
                digestOnly compares no name",
            );
        }
    }
}

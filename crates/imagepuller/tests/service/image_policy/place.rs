//! A registry with images, two keys to sign them with, and a guest whose owner has a policy.

use std::fs;
use std::path::PathBuf;

use confidential_fixtures::encrypted::{Key, KeyKind};
use confidential_fixtures::signed::{SimpleSignature, signature_layout, signature_tag};
use serde_json::{Value, json};
use vm_harness::archive::Tar;
use vm_harness::layout::{self, Compression, Layout};

use crate::support::{Puller, Site};

/// A registry with an image, and a guest.
pub struct Place {
    pub site: Site,
    /// The team's key; its public half is the file `team.pub` of the measured directory.
    pub team: Key,
    /// Somebody's key, `other.pub`.
    pub other: Key,
    pub puller: Puller,
}

impl Place {
    /// With the image pushed as `team/app:1`, not signed, and no policy.
    pub fn start() -> Self {
        let site = Site::with(|path| image(path, "first"));
        site.push(&site.layout);
        let team = Key::generate(&site.scratch, "team", KeyKind::P256).unwrap();
        let other = Key::generate(&site.scratch, "other", KeyKind::P384).unwrap();
        let document = site.document("localhost");
        let puller = Puller::start(&site.scratch, Some(&document));
        let place = Self { site, team, other, puller };
        for key in [&place.team, &place.other] {
            let name = key.public().file_name().unwrap();
            fs::copy(key.public(), place.measured_file(name.to_str().unwrap())).unwrap();
        }
        place
    }

    /// A file of the directory of the measured document.
    pub fn measured_file(&self, name: &str) -> PathBuf {
        self.puller.document().with_file_name(name)
    }

    /// Puts the measured document in place.
    pub fn measured(&self, text: &str) {
        self.puller.measure(text);
    }

    /// A measured document with this policy in its text, and more of `[image-policy]`.
    pub fn policy(&self, policy: &Value, more: &str) {
        self.measured(&document(policy, more));
    }

    /// The registry as references name it.
    pub fn host(&self) -> String {
        format!("localhost:{}", self.site.registry.port())
    }

    /// A repository of it.
    pub fn name(&self, repository: &str) -> String {
        format!("{}/{repository}", self.host())
    }

    /// Another image, pushed under this name; gives its digest.
    pub fn push(&self, name: &str, content: &str) -> String {
        let directory = self.site.scratch.path().join(format!("layout-{content}"));
        let layout = image(&directory, content);
        self.push_layout(&layout, name);
        layout.manifest
    }

    pub fn push_layout(&self, layout: &Layout, name: &str) {
        let registry = &self.site.registry;
        let pushed = registry.push_as(&self.site.scratch, &layout.path, name);
        pushed.unwrap();
    }

    /// Signs content as `reference`, and puts the signature, alone, into a repository.
    pub fn sign(&self, key: &Key, digest: &str, reference: &str, repository: &str) {
        let signature = SimpleSignature::new(key, digest, reference).unwrap();
        self.put(&[signature], digest, repository);
    }

    /// Puts signatures into a repository, in the place of those that were there.
    pub fn put(&self, signatures: &[SimpleSignature], digest: &str, repository: &str) {
        let directory = tempfile::tempdir_in(self.site.scratch.path()).unwrap();
        let layout = signature_layout(directory.path(), signatures).unwrap();
        let name = format!("{repository}:{}", signature_tag(digest));
        let registry = &self.site.registry;
        let pushed = registry.push_as(&self.site.scratch, &layout, &name);
        pushed.unwrap();
    }

    /// How often the registry was asked for a layer of the first image.
    pub fn layers_asked(&self, repository: &str) -> usize {
        let asked = |layer: &String| {
            let request = format!("GET /v2/{repository}/blobs/{layer}");
            self.site.registry.statuses(&request).len()
        };
        self.site.layout.layers.iter().map(asked).sum()
    }
}

/// What nothing signs but this key, for a repository and all below it.
pub fn signed_by(key: &str, identity: &str) -> Value {
    json!({"type": "sigstoreSigned", "keyPath": key, "signedIdentity": {"type": identity}})
}

/// A policy that rejects all but what its scopes say.
pub fn policy(scopes: &[(&str, Value)]) -> Value {
    let scopes: serde_json::Map<_, _> = scopes
        .iter()
        .map(|(scope, requirement)| ((*scope).to_owned(), json!([requirement])))
        .collect();
    json!({"default": [{"type": "reject"}], "transports": {"docker": scopes}})
}

/// A measured document with a policy in its text.
pub fn document(policy: &Value, more: &str) -> String {
    format!("[image-policy]\ntext = '''\n{policy}\n'''\n{more}")
}

/// A small image with one file.
fn image(directory: &std::path::Path, content: &str) -> Layout {
    let layer = Tar::default().file("content", content).bytes();
    layout::of_archives(directory, vec![(layer, Compression::Gzip)]).unwrap()
}

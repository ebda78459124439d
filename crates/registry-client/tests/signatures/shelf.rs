//! A registry without TLS that has what a test puts into it, in the repository `team/app`.

use std::collections::BTreeMap;

use image_policy::Signature;
use image_policy::places::Listed;
use oci_image::digest::{Digest, Unverified};
use registry_client::{Error, Patience};
use serde_json::{Value, json};
use test_http::{Answer, End, Request, Server};

use crate::support::{self, open, plain, run};

pub(crate) const SIMPLE: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
pub(crate) const BUNDLE: &str = "application/vnd.dev.sigstore.bundle.v0.3+json";
pub(crate) const MANIFEST: &str = "application/vnd.oci.image.manifest.v1+json";
pub(crate) const INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// Addresses below the repository, and what is there.
#[derive(Clone, Default)]
pub(crate) struct Shelf(BTreeMap<String, Answer>);

pub(crate) fn digest_of(content: &[u8]) -> Digest {
    Unverified::new(content.to_vec()).name_by_content().0
}

/// The tag under which cosign keeps what it signed.
pub(crate) fn signature_tag() -> String {
    format!("manifests/{}.sig", support::digest().file_name())
}

/// The index of referrers where there is no API for them.
pub(crate) fn fallback_tag() -> String {
    format!("manifests/{}", support::digest().file_name())
}

/// The API for referrers.
pub(crate) fn referrers() -> String {
    format!("referrers/{}", support::digest())
}

pub(crate) fn flood(length: Option<usize>) -> Answer {
    let length = length.map_or(String::new(), |length| format!("Content-Length: {length}\r\n"));
    Answer {
        bytes: format!("HTTP/1.1 200 OK\r\n{length}Connection: close\r\n\r\n").into(),
        end: End::Flood,
    }
}

pub(crate) fn manifest(layers: &[Value]) -> String {
    json!({"schemaVersion": 2, "mediaType": MANIFEST, "layers": layers}).to_string()
}

pub(crate) fn index(digests: &[Digest]) -> String {
    let entry = |digest: &Digest| json!({"digest": digest.to_string(), "mediaType": MANIFEST});
    let entries: Vec<_> = digests.iter().map(entry).collect();
    json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": entries}).to_string()
}

impl Shelf {
    /// Puts an answer there.
    pub(crate) fn at(mut self, path: impl Into<String>, answer: impl Into<Answer>) -> Self {
        self.0.insert(path.into(), answer.into());
        self
    }

    pub(crate) fn text(self, path: impl Into<String>, text: &str) -> Self {
        self.at(path, Answer::new(200, &[], text))
    }

    /// Puts the payload of a signature there, and gives its layer.
    pub(crate) fn simple(self, payload: &str) -> (Self, Value) {
        let digest = digest_of(payload.as_bytes()).to_string();
        let layer = json!({
            "mediaType": SIMPLE, "digest": digest, "size": 0,
            "annotations": {"dev.cosignproject.cosign/signature": format!("of {payload}")},
        });
        (self.text(format!("blobs/{digest}"), payload), layer)
    }

    /// Signs the tag's way, with these payloads.
    pub(crate) fn signed(mut self, payloads: &[&str]) -> Self {
        let mut layers = Vec::new();
        for payload in payloads {
            let layer;
            (self, layer) = self.simple(payload);
            layers.push(layer);
        }
        self.text(signature_tag(), &manifest(&layers))
    }

    /// Puts a manifest there that holds a bundle, and gives its digest.
    pub(crate) fn bundle(self, bundle: &str) -> (Self, Digest) {
        let blob = digest_of(bundle.as_bytes()).to_string();
        let layer = json!({"mediaType": BUNDLE, "digest": blob, "size": 0});
        let manifest = manifest(&[layer]);
        let digest = digest_of(manifest.as_bytes());
        let shelf = self.text(format!("blobs/{blob}"), bundle);
        (shelf.text(format!("manifests/{digest}"), &manifest), digest)
    }

    /// Signs with bundles that a list of referrers names, which is there.
    pub(crate) fn referred(mut self, list: impl Into<String>, bundles: &[&str]) -> Self {
        let mut digests = Vec::new();
        for bundle in bundles {
            let digest;
            (self, digest) = self.bundle(bundle);
            digests.push(digest);
        }
        self.text(list, &index(&digests))
    }

    pub(crate) fn answer(&self, request: &Request) -> Answer {
        let path = request.target.strip_prefix("/v2/team/app/");
        let answer = path.and_then(|path| self.0.get(path));
        answer.cloned().unwrap_or_else(|| Answer::new(404, &[], ""))
    }

    pub(crate) fn serve(self) -> Server {
        Server::start(None, move |request| self.answer(request))
    }

    /// What is found there by who waits for little, in words.
    pub(crate) fn find(self) -> Result<Vec<String>, String> {
        find(&self.serve(), &support::hasty())
    }
}

pub(crate) fn signatures(server: &Server, patience: &Patience) -> Result<Listed<Signature>, Error> {
    run(async {
        let host = format!("localhost:{}", server.port);
        let registry = open(&plain(server.port), &host, patience)?;
        registry.signatures(&support::digest()).await
    })
}

/// What is found, in words: the payloads, and bundles with that word before.
pub(crate) fn find(server: &Server, patience: &Patience) -> Result<Vec<String>, String> {
    let found = signatures(server, patience).map_err(|error| support::text(&error))?;
    let words = |signature: Signature| match signature {
        Signature::Simple { payload, signature } => {
            let payload = String::from_utf8(payload).unwrap();
            assert_eq!(signature, format!("of {payload}"));
            payload
        }
        Signature::Bundle(bundle) => format!("bundle {}", String::from_utf8(bundle).unwrap()),
        _ => unreachable!("no other form is known"),
    };
    Ok(found.kept.into_iter().map(words).collect())
}

/// Which addresses below the repository were asked for, in order of their names.
pub(crate) fn asked(server: &Server) -> Vec<String> {
    let requests = server.requests();
    let paths = requests.iter().filter_map(|request| {
        let path = request.target.strip_prefix("/v2/team/app/");
        path.map(str::to_owned)
    });
    let mut paths: Vec<_> = paths.collect();
    paths.sort();
    paths
}

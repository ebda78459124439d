//! The recorded repositories behind HTTP, in the shape in which the tables of verdicts ask for
//! them.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use image_policy::Signature;
use oci_image::digest::Digest;
use oci_image::named::NamedReference;
use oci_image::reference::ImageReference;
use registry_client::Documents;
use registry_client::registry::Registry as Client;
use serde_json::{Value, json};
use test_http::{Answer, Server};

use crate::signatures::recorded;
pub(crate) use crate::signatures::recorded::{Place, Seen, Signatures, data, further_rows, rows};
use crate::signatures::shelf::{BUNDLE, INDEX};
use crate::support::{hasty, plain, run};

/// Every place that was recorded.
pub(crate) const EVERYWHERE: [Place; 3] = [Place::Tag, Place::Bundles, Place::SimpleReferrers];

/// What is fetched for a digest, in the words of an error where nothing is.
type Fetched = Result<Vec<Signature>, String>;

/// A registry that shows only some places of the recorded ones: what a program did not look at is
/// not there for a row of its own.
pub(crate) struct Registry {
    recorded: Arc<recorded::Registry>,
    server: Server,
    folder: tempfile::TempDir,
    /// Many rows are about the same image.
    fetched: RefCell<BTreeMap<(String, Digest), Fetched>>,
}

impl Registry {
    pub(crate) fn recorded() -> Self {
        let recorded = Arc::new(recorded::Registry::recorded());
        let serves = recorded.clone();
        let server = Server::start(None, move |request| {
            let answer = serve(&serves, &request.target);
            answer.unwrap_or_else(|| Answer::new(404, &[], ""))
        });
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("document.toml"), plain(server.port)).unwrap();
        Self { recorded, server, folder, fetched: RefCell::default() }
    }

    pub(crate) fn path(reference: &NamedReference) -> String {
        recorded::Registry::path(reference)
    }

    pub(crate) fn resolve(&self, reference: &NamedReference) -> Option<Digest> {
        self.recorded.resolve(reference)
    }

    pub(crate) fn instances(&self, digest: &Digest) -> Vec<(String, Digest)> {
        self.recorded.instances(digest)
    }

    /// The signatures of a digest at these places, over HTTP and without an API for referrers.
    pub(crate) fn signatures(
        &self,
        repository: &str,
        digest: &Digest,
        places: &[Place],
    ) -> Result<Signatures, String> {
        let signatures = self.fetch(repository, digest, places, false)?;
        Ok(Signatures(digest.clone(), signatures))
    }

    /// The same of what is seen: fetched where that is all of it.
    pub(crate) fn signatures_seen(
        &self,
        repository: &str,
        digest: &Digest,
        places: &[Place],
        seen: Seen,
    ) -> Result<Signatures, String> {
        match seen {
            Seen::All => self.signatures(repository, digest, places),
            other => self.recorded.signatures_seen(repository, digest, places, other),
        }
    }

    /// The same, of a registry with or without that API.
    pub(crate) fn fetch(
        &self,
        repository: &str,
        digest: &Digest,
        places: &[Place],
        has_api: bool,
    ) -> Fetched {
        let shows = |place| if places.contains(place) { "y" } else { "n" };
        let shown: String = EVERYWHERE.iter().map(shows).collect();
        let api = if has_api { "y" } else { "n" };
        let name = format!("{shown}{api}/{repository}");
        let key = (name.clone(), digest.clone());
        let mut fetched = self.fetched.borrow_mut();
        let fetch = || self.ask(&name, digest);
        fetched.entry(key).or_insert_with(fetch).clone()
    }

    fn ask(&self, name: &str, digest: &Digest) -> Fetched {
        let image = format!("localhost:{}/{name}@{digest}", self.server.port);
        let image = ImageReference::parse(&image).unwrap();
        let documents = Documents {
            any_address: true,
            ..Documents::of(self.folder.path().join("document.toml"))
        };
        let settings = documents.load().unwrap();
        let plan = settings.plan(image.registry(), image.repository()).unwrap();
        let mut route = plan.fill(None, None).unwrap();
        let source = route.sources.remove(0);
        let client = Client::new(source, image.repository(), &route.settings, &hasty());
        let found = run(client.signatures(digest));
        found.map(|found| found.kept).map_err(|error| error.to_string())
    }
}

/// Answers `/v2/SHOWN/REPOSITORY/KIND/NAME`, where `SHOWN` says for each place, and for the API for
/// referrers, whether it is there.
fn serve(recorded: &recorded::Registry, target: &str) -> Option<Answer> {
    let (shown, path) = target.strip_prefix("/v2/")?.split_once('/')?;
    let (path, name) = path.rsplit_once('/')?;
    let (repository, kind) = path.rsplit_once('/')?;
    let [tag, bundles, simple, api] = shown.as_bytes() else {
        return None;
    };
    let is_shown = |shown: &u8| *shown == b'y';
    let tags = recorded.repositories.get(repository)?;
    let referrers = |name: &str| {
        let index = recorded.blobs.get(tags.get(name)?)?;
        let index = listed(recorded, index, is_shown(bundles), is_shown(simple));
        Some(Answer::new(200, &[("Content-Type", INDEX)], index))
    };
    match kind {
        "referrers" if is_shown(api) => {
            let none = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": []});
            let none = Answer::new(200, &[("Content-Type", INDEX)], none.to_string());
            Some(referrers(&name.replace(':', "-")).unwrap_or(none))
        }
        "manifests" if name.starts_with("sha256-") && !name.ends_with(".sig") => {
            referrers(name).filter(|_| !is_shown(api))
        }
        "manifests" if name.starts_with("sha256-") && !is_shown(tag) => None,
        "manifests" | "blobs" => {
            let digest = tags.get(name).map_or(name, String::as_str);
            let content = recorded.blobs.get(digest)?;
            Some(Answer::new(200, &[], content))
        }
        _ => None,
    }
}

/// An index of referrers with bundles, with others, or both.
fn listed(recorded: &recorded::Registry, index: &[u8], bundles: bool, simple: bool) -> String {
    let mut index: Value = serde_json::from_slice(index).unwrap();
    let entries = index["manifests"].as_array_mut().unwrap();
    entries.retain(|entry| {
        let manifest = &recorded.blobs[entry["digest"].as_str().unwrap()];
        let manifest: Value = serde_json::from_slice(manifest).unwrap();
        let mut layers = manifest["layers"].as_array().into_iter().flatten();
        let is_bundle = layers.any(|layer| layer["mediaType"] == BUNDLE);
        if is_bundle { bundles } else { simple }
    });
    index.to_string()
}

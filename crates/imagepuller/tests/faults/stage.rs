//! Playing rows: registries, a store, a pull, and a look at everything afterwards.

use std::fs;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use fault_registry::{Content, FaultRegistry, Image, Layer, Script, Tls};
use imagepuller::error::chain;
use imagepuller::pull::{Options, Puller};
use layer_store::store::Store;
use test_http::pki::{Authority, Identity};
use vm_harness::Scratch;

use crate::place::Place;
use crate::row::Row;
use crate::seen::{Seen, check_other, check_requests, ensure};
use crate::support::{self, PASSWORD, USER, entry};
use crate::watch::{Growth, lock, log};

/// How much larger this process may get in a row; everything the registries have is a few hundred
/// KiB.
const MAX_GROWTH_KIB: u64 = 48 << 10;

/// What a file of the image holds: it does not get smaller by compression.
pub fn noise(length: usize, seed: u32) -> Vec<u8> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 24) as u8
    };
    (0..length).map(|_| next()).collect()
}

/// The usual image: two layers of one file each.
pub fn usual_image() -> Image {
    let layer = |name, seed| Layer::gzip(&[(name, &noise(60_000, seed))]).unwrap();
    Image::new(vec![layer("first", 1), layer("second", 2)])
}

/// Four layers, of which each is smaller than the one before it, so that they are asked for in this
/// order.
pub fn four_layers() -> Image {
    let layer = |at: u32| {
        let content = noise(60_000 - 10_000 * at as usize, at);
        Layer::gzip(&[("file", &content)]).unwrap()
    };
    Image::new((0..4).map(layer).collect())
}

/// One test at a time, for memory is counted for the whole process.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    lock(&ALONE)
}

/// Plays the rows of a table one after another. They are made when it is their turn: some hold
/// bombs, and making these once let the memory grow in a row of another test.
pub fn play(rows: impl FnOnce() -> Vec<Row>) {
    vm_harness::needs_root!();
    let _alone = alone();
    let rows = rows();
    let stage = Stage::new();
    let only = std::env::var("FAULT_ROW").ok();
    let mut failures = Vec::new();
    for row in rows {
        if only.as_deref().is_some_and(|only| only != row.name) {
            continue;
        }
        let started = Instant::now();
        let failed = stage.play(&row);
        eprintln!("{} ms: {}", started.elapsed().as_millis(), row.name);
        failures.extend(failed.err().map(|error| format!("{}: {error}", row.name)));
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

/// What all rows share.
pub struct Stage {
    scratch: Scratch,
    authority: Authority,
    identity: Identity,
    runtime: tokio::runtime::Runtime,
}

/// The registries of one row.
pub struct Cast {
    registry: FaultRegistry,
    other: Option<FaultRegistry>,
    pub image: String,
    pub document: String,
}

impl Cast {
    /// Whether the first registry was asked as the row says.
    pub fn check_requests(&self, row: &Row) -> Result<(), String> {
        check_requests(row, &self.registry.requests())
    }
}

impl Stage {
    pub fn new() -> Self {
        let authority = Authority::new("faults").unwrap();
        let identity = authority.sign(&["localhost"]).unwrap();
        Self {
            scratch: Scratch::new().unwrap(),
            authority,
            identity,
            runtime: tokio::runtime::Runtime::new().unwrap(),
        }
    }

    /// Where things are put while it stands.
    pub fn scratch(&self) -> &Scratch {
        &self.scratch
    }

    /// Plays a row; says what did not hold.
    fn play(&self, row: &Row) -> Result<(), String> {
        let cast = self.cast(row);
        let place = Place::new(&self.scratch);
        fs::write(place.path("document"), &cast.document).unwrap();
        lock(log()).clear();
        let growth = Growth::watch();
        let result = self.runtime.block_on(async {
            let options = Options { patience: row.patience, ..Options::default() };
            let store = Arc::new(Store::open(&place.path("store")).unwrap());
            let documents = support::documents(place.path("document"));
            let puller = Arc::new(Puller::new(store, documents, options));
            let bundle = place.path("bundle").display().to_string();
            puller.pull(&cast.image, &bundle, row.patience.budget).await
        });
        let growth = growth.kib();
        let seen =
            Seen { error: result.err(), log: String::from_utf8_lossy(&lock(log())).into_owned() };
        if let Some(error) = &seen.error {
            eprintln!("{}", chain(error));
        }
        seen.check_outcome(row)?;
        cast.check_requests(row)?;
        seen.check_secrets()?;
        place.check(seen.error.is_none(), row.image.is_none())?;
        if let (Some(other), Some(registry)) = (&row.other, &cast.other) {
            check_other(other, &registry.requests())?;
        }
        ensure!(growth < MAX_GROWTH_KIB, "memory grew by {growth} KiB");
        Ok(())
    }

    /// Starts the registries of a row, and writes the document that opens them.
    pub fn cast(&self, row: &Row) -> Cast {
        let mut content = Content::default();
        let image = row.image.clone().unwrap_or_else(usual_image);
        let manifest = image.publish(&mut content);
        let index = serde_json::json!({
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.index.v1+json",
            "manifests": [{
                "mediaType": "application/vnd.oci.image.manifest.v1+json",
                "digest": manifest,
                "size": content.size(&manifest).unwrap(),
                "platform": {"os": "linux", "architecture": "amd64"},
            }],
        });
        let digest = content.add_manifest(index.to_string().into_bytes());
        let other = row.other.as_ref().map(|other| {
            let tls = (!other.is_plain).then(|| self.tls(row));
            start(content.clone(), other.script.clone(), tls.as_ref())
        });
        let other_base = other.as_ref().map_or("", FaultRegistry::base);
        let script = row.script.clone().name("other", other_base);
        let registry = start(content, script, Some(&self.tls(row)));
        let port = |registry: &FaultRegistry| registry.address().port();
        let mirrored = row.other.as_ref().is_some_and(|other| other.is_mirrored);
        let roots = self.authority.certificate();
        let asked = match &other {
            Some(other) if mirrored => port(other),
            _ => port(&registry),
        };
        let mut document = entry(&format!("localhost:{asked}"), USER, PASSWORD, roots);
        if mirrored {
            let mirror = format!("localhost:{}", port(&registry));
            document.push_str(&format!("mirror = \"https://{mirror}\"\nmirror-fallback = true\n"));
            document.push_str(&entry(&mirror, USER, PASSWORD, roots));
        }
        // Hosts that are redirected to are trusted by the source's own roots.
        Cast { registry, other, image: format!("localhost:{asked}/team/app@{digest}"), document }
    }

    fn tls(&self, row: &Row) -> Tls<'_> {
        Tls { identity: &self.identity, name: "localhost", http: row.http }
    }
}

fn start(content: Content, script: Script, tls: Option<&Tls<'_>>) -> FaultRegistry {
    FaultRegistry::start(content, script, tls).unwrap()
}

//! What a policy costs a pull. Nothing is asserted but that the pulls do what they should.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use fault_registry::{Action, Content, Script, What};
use serde_json::{Value, json};
use vm_harness::Scratch;

use super::place::{document, signed_by};
use super::recorded::{RECORDED, repository};
use crate::support::{Puller, misbehaving};

const ONE: &str = "sha256:f7ff70f91006e54ed820c234f5392b780d2cbbde0ef52c7dba4fb49c79fcb71a";

/// How long the registry thinks before each answer: what a pull waits for is turns, and these then
/// show whatever else the machine does.
const TURN: Duration = Duration::from_millis(50);

/// How often each is measured.
const ROUNDS: usize = 9;

/// One way to pull.
struct Way {
    words: &'static str,
    puller: Puller,
    /// Kept, because it serves.
    _registry: fault_registry::FaultRegistry,
    image: String,
    is_stored: bool,
    runs: bool,
    times: Vec<Duration>,
}

impl Way {
    fn new(
        scratch: &Scratch,
        words: &'static str,
        (name, content): (&str, Content),
        policy: Option<&Value>,
        runs: bool,
    ) -> Self {
        let pause = u64::try_from(TURN.as_millis()).unwrap();
        let slow = Script::new().always(What::Any, [Action::Wait(pause)]);
        let (registry, entry) = misbehaving(content, slow);
        let mirror = format!("https://localhost:{}", registry.address().port());
        let configuration =
            format!("[registries.\"registry.test\"]\nmirror = \"{mirror}\"\n{entry}");
        let puller = Puller::start(scratch, Some(&configuration));
        let there = |name: &str| puller.document().with_file_name(name);
        if let Some(policy) = policy {
            puller.measure(&document(policy, ""));
            for key in ["cosign-a.pub", "skopeo-s.pub"] {
                let recorded = PathBuf::from(RECORDED).join("keys").join(key);
                fs::copy(recorded, there(key)).unwrap();
            }
        }
        Self {
            words,
            puller,
            _registry: registry,
            image: format!("registry.test:5000/{name}@{ONE}"),
            is_stored: false,
            runs,
            times: Vec::new(),
        }
    }

    /// The image is in the store with what was kept.
    fn stored(self) -> Self {
        Self { is_stored: true, ..self }
    }

    fn pull(&mut self, round: usize) {
        if !self.is_stored {
            self.puller.forget_documents();
        }
        let begin = Instant::now();
        let output = self.puller.request(&self.image, &format!("bundle-{round}"));
        let took = begin.elapsed();
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.success(), self.runs, "{}: {error}", self.words);
        // The first one opens connections and fills the store.
        if round > 0 {
            self.times.push(took);
        }
    }
}

/// Ten thousand signatures by another key, in one manifest.
fn many(name: &str) -> Content {
    let mut content = repository(name);
    let layers = (0..10_000).map(|number: usize| {
        let payload = format!("{{\"number\":{number}}}").into_bytes();
        let size = payload.len();
        let kind = "application/vnd.dev.cosign.simplesigning.v1+json";
        let digest = content.add(What::Unknown, kind, payload);
        json!({
            "mediaType": kind, "digest": digest, "size": size,
            "annotations": {"dev.cosignproject.cosign/signature": "MAYCAQECAQE="},
        })
    });
    let kind = "application/vnd.oci.image.manifest.v1+json";
    let layers: Vec<_> = layers.collect();
    let manifest = json!({"schemaVersion": 2, "mediaType": kind, "layers": layers});
    let digest = content.add(What::Unknown, kind, manifest.to_string().into_bytes());
    content.tag(&format!("{}.sig", ONE.replace(':', "-")), &digest);
    content
}

#[test]
#[ignore = "a measurement: docs/performance.md"]
fn privileged_what_a_policy_costs() {
    vm_harness::needs_root!();
    let scratch = Scratch::new().unwrap();
    let by = |key: &str, identity: &str| json!({"default": [signed_by(key, identity)]});
    let signed = by("skopeo-s.pub", "matchRepository");
    let bundle = by("cosign-a.pub", "digestOnly");
    let open = json!({"default": [{"type": "insecureAcceptAnything"}]});
    let simple = "team/skopeo-p256";
    let of = |name| (name, repository(name));
    let of_bundle = "team/cosign3-bundle";
    let mut ways = [
        Way::new(&scratch, "no policy", of(simple), None, true),
        Way::new(&scratch, "asks for nothing", of(simple), Some(&open), true),
        Way::new(&scratch, "signed, by the tag", of(simple), Some(&signed), true),
        Way::new(&scratch, "signed, by a bundle", of(of_bundle), Some(&bundle), true),
        Way::new(&scratch, "no policy, stored", of(simple), None, true).stored(),
        Way::new(&scratch, "signed, stored", of(simple), Some(&signed), true).stored(),
        Way::new(
            &scratch,
            "10,000 signatures by others",
            (simple, many(simple)),
            Some(&signed),
            false,
        ),
    ];
    for round in 0..=ROUNDS {
        for way in &mut ways {
            way.pull(round);
        }
    }
    for way in &mut ways {
        way.times.sort();
        let median = way.times[ROUNDS / 2];
        println!(
            "{:30} {:7.0} ms {:6.1} turns",
            way.words,
            median.as_secs_f64() * 1000.0,
            median.as_secs_f64() / TURN.as_secs_f64()
        );
    }
}

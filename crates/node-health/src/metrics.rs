//! What a pass counted, and its text for a collector (OpenMetrics).
//!
//! No label holds a secret, nor anything that a secret could be guessed from: documents are told
//! apart by when they changed, not by a digest.

use std::collections::BTreeMap;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::{Registry, Unit};

/// What begins the names of all metrics.
const PREFIX: &str = "kata_configdev";

/// The most series of each metric, far more than a node has sets and registries: what is
/// written below `/run` by others must not fill a collector.
const MAX_SERIES: usize = 4096;

/// The numbers of a node.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Numbers {
    /// How many passes were made.
    pub passes: u64,
    /// How many problems the last one found.
    pub problems: usize,
    /// By name.
    pub sets: BTreeMap<String, SetNumbers>,
    /// Sandboxes whose state is known, by set and by what their disk holds.
    pub sandboxes: BTreeMap<(String, &'static str), u64>,
    /// Disks of sandboxes that were changed.
    pub updated: u64,
    /// Attempts to change one that failed.
    pub update_failures: u64,
    /// Sandboxes whose leavings were removed.
    pub swept: u64,
    /// Sandboxes that the wrapper refused a short time ago, by cause.
    pub refused: BTreeMap<&'static str, u64>,
    /// By set and plugin.
    pub providers: BTreeMap<(String, String), ProviderNumbers>,
    /// When the first root of a registry expires, by set and registry, in seconds since 1970.
    pub root_expiry: BTreeMap<(String, String), i64>,
}

/// The numbers of a set.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SetNumbers {
    /// What its document is: `document`, `nothing`, `node-error`, `absent`, and
    /// `by-namespace` where no sandbox gets one of the set's own.
    pub document: &'static str,
    /// When it last changed, in seconds since 1970.
    pub changed: Option<f64>,
    /// Whether the wrapper is switched on, as its settings on the node say.
    pub enabled: bool,
}

/// What a plugin did.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProviderNumbers {
    /// How often it was run and answered.
    pub answers: u64,
    /// How often it was run and did not.
    pub failures: u64,
    /// How long it took the last time.
    pub took: Duration,
}

type Labels = Vec<(&'static str, String)>;
type Seconds = Gauge<f64, AtomicU64>;

impl Numbers {
    /// The text for a collector.
    #[must_use]
    pub fn text(&self, ready: bool) -> String {
        let mut registry = Registry::with_prefix(PREFIX);
        self.of_node(&mut registry, ready);
        self.of_sets(&mut registry);
        self.of_sandboxes(&mut registry);
        self.of_providers(&mut registry);
        let mut text = String::new();
        // Writing to a text cannot fail.
        let _ = encode(&mut text, &registry);
        text
    }

    fn of_node(&self, registry: &mut Registry, ready: bool) {
        let help = "Whether the node is as it should be";
        one(registry, "ready", help, i64::from(ready));
        let help = "What the last pass found wrong";
        one(registry, "problems", help, number(self.problems as u64));
        count(registry, "passes", "Passes over the node", self.passes);
        let refused = Family::<Labels, Gauge>::default();
        for (cause, sandboxes) in &self.refused {
            let labels = vec![("cause", (*cause).to_owned())];
            refused.get_or_create(&labels).set(number(*sandboxes));
        }
        let help = "Sandboxes that the wrapper refused in the last 15 minutes";
        registry.register("refused_sandboxes", help, refused);
    }

    fn of_sets(&self, registry: &mut Registry) {
        let sets = || self.sets.iter().take(MAX_SERIES);
        let of = |set: &String| vec![("set", set.clone())];
        let documents = Family::<Labels, Gauge>::default();
        let enabled = Family::<Labels, Gauge>::default();
        let changed = Family::<Labels, Seconds>::default();
        for (name, set) in sets() {
            let kind = [of(name), vec![("document", set.document.into())]].concat();
            documents.get_or_create(&kind).set(1);
            enabled.get_or_create(&of(name)).set(i64::from(set.enabled));
            if let Some(seconds) = set.changed {
                changed.get_or_create(&of(name)).set(seconds);
            }
        }
        registry.register("set", "The sets, and what their documents are", documents);
        let help = "Whether the wrapper of the set is on, as its settings on the node say";
        registry.register("set_enabled", help, enabled);
        let name = "document_changed_timestamp";
        let help = "When the document of the set last changed on this node";
        registry.register_with_unit(name, help, Unit::Seconds, changed);
        let expiry = Family::<Labels, Gauge>::default();
        for ((set, host), seconds) in self.root_expiry.iter().take(MAX_SERIES) {
            let labels = [of(set), vec![("registry", host.clone())]].concat();
            expiry.get_or_create(&labels).set(*seconds);
        }
        let help = "When the first root that the document has for a registry expires";
        registry.register_with_unit("root_expiry_timestamp", help, Unit::Seconds, expiry);
    }

    fn of_sandboxes(&self, registry: &mut Registry) {
        let family = Family::<Labels, Gauge>::default();
        for ((set, state), sandboxes) in self.sandboxes.iter().take(MAX_SERIES) {
            let labels = vec![("set", set.clone()), ("document", (*state).to_owned())];
            family.get_or_create(&labels).set(number(*sandboxes));
        }
        let help = "Living sandboxes, by what their disks hold";
        registry.register("sandboxes", help, family);
        let help = "Disks of living sandboxes that were changed";
        count(registry, "sandbox_updates", help, self.updated);
        let help = "Attempts to change one that failed";
        count(registry, "sandbox_update_failures", help, self.update_failures);
        let help = "Sandboxes that are gone and whose files were removed";
        count(registry, "swept_sandboxes", help, self.swept);
    }

    fn of_providers(&self, registry: &mut Registry) {
        let took = Family::<Labels, Seconds>::default();
        let providers = || self.providers.iter().take(MAX_SERIES);
        let labels = |(set, plugin): &(String, String)| {
            vec![("set", set.clone()), ("provider", plugin.clone())]
        };
        for (key, provider) in providers() {
            took.get_or_create(&labels(key)).set(provider.took.as_secs_f64());
        }
        let help = "How long the set's credential providers took, all at once, when this one was asked last";
        registry.register_with_unit("provider_duration", help, Unit::Seconds, took);
        let answers = providers().map(|(key, found)| (labels(key), found.answers));
        counts(registry, "provider_answers", "Answers of the credential provider", answers);
        let failures = providers().map(|(key, found)| (labels(key), found.failures));
        let help = "Times that the credential provider gave no answer";
        counts(registry, "provider_failures", help, failures);
    }
}

fn one(registry: &mut Registry, name: &str, help: &str, value: i64) {
    let gauge: Gauge = Gauge::default();
    gauge.set(value);
    registry.register(name, help, gauge);
}

fn count(registry: &mut Registry, name: &str, help: &str, value: u64) {
    let counter: Counter = Counter::default();
    counter.inc_by(value);
    registry.register(name, help, counter);
}

fn counts(
    registry: &mut Registry,
    name: &str,
    help: &str,
    values: impl Iterator<Item = (Labels, u64)>,
) {
    let family = Family::<Labels, Counter>::default();
    for (labels, value) in values.take(MAX_SERIES) {
        family.get_or_create(&labels).inc_by(value);
    }
    registry.register(name, help, family);
}

fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_its_line() {
        let key = |one: &str, other: &str| (one.to_owned(), other.to_owned());
        let set = SetNumbers { document: "node-error", changed: Some(1.5), enabled: true };
        let numbers = Numbers {
            passes: 3,
            problems: 2,
            sets: [("default".into(), set)].into(),
            sandboxes: [(("default".into(), "current"), 7)].into(),
            updated: 4,
            update_failures: 1,
            swept: 5,
            refused: [("a \"quoted\"\ncause", 6)].into(),
            providers: [(
                key("default", "ecr"),
                ProviderNumbers { answers: 8, failures: 9, took: Duration::from_millis(250) },
            )]
            .into(),
            root_expiry: [(key("default", "a.corp"), 1_800_000_000)].into(),
        };
        let text = numbers.text(true);
        for line in [
            "ready 1",
            "problems 2",
            "passes_total 3",
            "refused_sandboxes{cause=\"a \\\"quoted\\\"\\ncause\"} 6",
            "set{set=\"default\",document=\"node-error\"} 1",
            "set_enabled{set=\"default\"} 1",
            "document_changed_timestamp_seconds{set=\"default\"} 1.5",
            "root_expiry_timestamp_seconds{set=\"default\",registry=\"a.corp\"} 1800000000",
            "sandboxes{set=\"default\",document=\"current\"} 7",
            "sandbox_updates_total 4",
            "sandbox_update_failures_total 1",
            "swept_sandboxes_total 5",
            "provider_duration_seconds{set=\"default\",provider=\"ecr\"} 0.25",
            "provider_answers_total{set=\"default\",provider=\"ecr\"} 8",
            "provider_failures_total{set=\"default\",provider=\"ecr\"} 9",
        ] {
            let line = format!("\nkata_configdev_{line}\n");
            assert!(text.contains(&line), "{line} in {text}");
        }
        assert!(text.ends_with("# EOF\n"));
    }
}

//! Whether a pod's annotations reach Kata, which the container engine decides.

use foreign_text::shown;

use super::engine::Engine;
use super::finding::{Finding, Severity};
use super::set::Set;

/// Whether the engine hands annotations on where the settings let pods use one.
pub fn check(engine: &Engine, set: &Set<'_>, findings: &mut Vec<Finding>) {
    let Some(settings) = set.settings() else {
        return;
    };
    let severity = match settings.annotation_allow.is_empty() {
        true => Severity::Note,
        false => Severity::Warning,
    };
    for handler in &set.handlers {
        for runtime in engine.of(handler).filter(|one| !one.passes_annotations) {
            let name = shown(&runtime.name);
            let message = format!(
                "the runtime {name} has no pod_annotations for io.katacontainers.*, so that such \
                an annotation of a pod has no effect, and no error says so; write \
                pod_annotations = [\"io.katacontainers.*\"] into its table and restart containerd"
            );
            let id = "annotations-not-passed";
            findings.push(Finding::new(id, severity, &runtime.source, message));
        }
        let knows_some = !engine.directories().is_empty();
        if knows_some && engine.of(handler).next().is_none() {
            let message = "no runtime of containerd or CRI-O that was found has a configuration \
                here, so that pods may be started by another one; see ConfigPath of the runtime";
            let path = &handler.directory;
            findings.push(Finding::new(
                "handler-unused",
                Severity::Note,
                path,
                message,
            ));
        }
    }
}

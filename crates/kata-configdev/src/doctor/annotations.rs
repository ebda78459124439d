//! Whether a pod's annotations reach Kata, which the container engine decides.

use foreign_text::shown;

use super::engine::{Engine, Runtime};
use super::finding::{Finding, Severity};
use super::set::Set;

/// Whose containerd has its configuration written for it at each start, what the path has in it,
/// and the template beside it that is the administrator's: of containerd 2, of containerd 1.
const GENERATED: [(&str, &str); 2] = [("k3s", "/rancher/k3s/"), ("RKE2", "/rancher/rke2/")];
const TEMPLATES: [&str; 2] = ["config-v3.toml.tmpl", "config.toml.tmpl"];

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
        let runtimes = engine.of(handler);
        let lossy = runtimes.filter(|runtime| runtime.loses_annotation);
        findings.extend(lossy.map(|runtime| not_passed(runtime, severity)));
        let knows_some = !engine.directories().is_empty();
        if knows_some && engine.of(handler).next().is_none() {
            let message = "no runtime of containerd or CRI-O that was found has a configuration \
                here, so that pods may be started by another one; see ConfigPath of the runtime";
            let path = &handler.directory;
            findings.push(Finding::new("handler-unused", Severity::Note, path, message));
        }
    }
}

/// That the runtime keeps annotations from Kata.
fn not_passed(runtime: &Runtime, severity: Severity) -> Finding {
    let name = shown(&runtime.name);
    let message = format!(
        "the runtime {name} has no pod_annotations for io.katacontainers.*, so that such an \
        annotation of a pod has no effect, and no error says so; write pod_annotations = \
        [\"io.katacontainers.*\"] into its table{} and restart containerd",
        template(&runtime.source)
    );
    let id = "annotations-not-passed";
    Finding::new(id, severity, &runtime.source, message).at_line(runtime.line)
}

/// Where the table is to be changed instead, as a phrase, where the file itself is written anew.
fn template(source: &str) -> String {
    let mut generated = GENERATED.into_iter();
    let Some((who, _)) = generated.find(|(_, path)| source.contains(path)) else {
        return String::new();
    };
    let [two, one] = TEMPLATES;
    format!(
        " in {two} beside this file ({one} with containerd 1), because {who} writes this file anew,"
    )
}

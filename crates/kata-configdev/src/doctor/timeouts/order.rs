//! Whether the limits are in an order that makes sense: the kubelet the most patient, Kata long
//! enough for a pull, and nobody below it shorter.

use std::time::Duration;

use super::kata::MONITOR_OF_RUST;
use super::{Ends, PROVIDERS_DEADLINE, Timeout};
use crate::doctor::finding::{Finding, Severity};
use crate::doctor::handlers::Handler;
use crate::doctor::set::Set;

/// What Kata has by itself, which is too short for images of any size.
const TOO_SHORT: Duration = Duration::from_secs(60);

/// Says which limit of a handler ends pulls too early. What is not known of the kubelet's is not
/// compared.
pub(super) fn check(
    kubelet: Option<&Timeout>,
    limits: &[Timeout],
    handler: &Handler,
    set: &Set<'_>,
    findings: &mut Vec<Finding>,
) {
    for runtime in limits.iter().filter(|limit| limit.key == "create_container_timeout") {
        if runtime.limit <= TOO_SHORT {
            let message = format!(
                "create_container_timeout is {} s, in which a container has to be there with its \
                whole image pulled in the guest; raise it, or set it for a pod by the annotation \
                io.katacontainers.config.runtime.create_container_timeout",
                runtime.limit.as_secs_f64()
            );
            findings.push(at(runtime, handler, "timeout-create-short", Severity::Warning, message));
        }
        if let Some(kubelet) = kubelet.filter(|kubelet| kubelet.limit < runtime.limit) {
            let message = format!(
                "create_container_timeout is {} s, but the kubelet gives up after {} s \
                (runtimeRequestTimeout) and shows DeadlineExceeded, although the pull goes on; \
                raise runtimeRequestTimeout beyond it",
                runtime.limit.as_secs_f64(),
                kubelet.limit.as_secs_f64()
            );
            let severity = Severity::Warning;
            findings.push(at(runtime, handler, "timeout-kubelet-first", severity, message));
        }
        let others = limits.iter().filter(|other| {
            other.ends == Ends::Pull && other.who != runtime.who && other.limit < runtime.limit
        });
        for other in others {
            let message = format!(
                "{} of {} is {} s and ends pulls before create_container_timeout, {} s; raise it",
                other.key,
                other.who,
                other.limit.as_secs_f64(),
                runtime.limit.as_secs_f64()
            );
            findings.push(at(other, handler, "timeout-pull-first", Severity::Warning, message));
        }
    }
    findings.extend(providers(handler, set));
}

/// The wrapper waits for credential providers while the runtime waits for QEMU.
fn providers(handler: &Handler, set: &Set<'_>) -> Option<Finding> {
    let asked = &set.settings()?.credential_providers;
    let is_rust = handler.standing.mains.iter().any(|main| main.is_rust);
    let message = format!(
        "{PROVIDERS_DEADLINE} is {}, but runtime-rs waits {} s for QEMU, which starts only behind \
        them; lower it",
        asked.deadline.as_secs(),
        MONITOR_OF_RUST.as_secs()
    );
    let is_late = is_rust && asked.is_wanted() && asked.deadline >= MONITOR_OF_RUST;
    is_late.then(|| {
        let path = &set.settings_file;
        Finding::new("timeout-providers-first", Severity::Warning, path, message)
    })
}

fn at(
    limit: &Timeout,
    handler: &Handler,
    id: &'static str,
    severity: Severity,
    message: String,
) -> Finding {
    match &limit.path {
        Some(path) => Finding::new(id, severity, path, message).at_line(limit.line),
        None => Finding::new(id, severity, &handler.directory, message),
    }
}

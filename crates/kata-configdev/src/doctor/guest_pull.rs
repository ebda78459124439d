//! Whether images are pulled in the guest, and what has to fit to that.

use foreign_text::shown;
use node_installer::kata::Value;
use node_installer::kata::standing::Main;

use super::engine::Engine;
use super::finding::{Finding, Severity};
use super::handlers::Handler;
use super::set::Set;

/// The kernel parameter without which the agent starts the image's own data hub.
const COMPONENTS: &str = "agent.guest_components_procs=";

/// The values with which it leaves our puller its socket.
const LEAVING: [&str; 2] = ["none", "attestation-agent"];

/// Whether the handlers of `set` have images pulled in the guest as the settings say, and whether
/// the guest's agent leaves that to the puller.
pub fn check(engine: &Engine, set: &Set<'_>, findings: &mut Vec<Finding>) {
    let Some(settings) = set.settings().filter(|settings| settings.enabled) else {
        return;
    };
    for handler in &set.handlers {
        let mains = || handler.standing.mains.iter().filter(|main| main.starts_qemu);
        let is_left = engine.of(handler).any(|runtime| runtime.pulls_in_guest);
        let is_forced = mains().all(|main| main.guest_pull.is_some());
        let is_known = engine.of(handler).next().is_some();
        if is_left || is_forced {
            findings.extend(mains().filter_map(components));
            if !settings.guest_pull && mains().any(|main| main.is_rust) {
                findings.push(unset(set));
            }
        } else if is_known {
            findings.push(nowhere(handler, set, settings.guest_pull));
        }
        if let Some(keys_in) = set.keys_in.as_ref().filter(|_| !is_left) {
            let forced = mains().filter_map(|main| main.guest_pull.as_ref());
            findings.extend(forced.take(1).map(|place| {
                let message = format!(
                    "the document has keys of encrypted images, but with this key the host pulls \
                    each image too, and fails without keys of its own: failed to get stream \
                    processor; use nydus-snapshotter for them, see docs/confidential.md (keys are \
                    in {})",
                    shown(keys_in.as_os_str().as_encoded_bytes())
                );
                let id = "guest-pull-encrypted";
                Finding::new(id, Severity::Warning, &place.path, message).at_line(place.line)
            }));
        }
    }
}

fn unset(set: &Set<'_>) -> Finding {
    let message = "guests pull here, but guest-pull is not set, so that with runtime-rs a refused \
        sandbox ends after 50 seconds without a cause; write guest-pull = true";
    Finding::new("guest-pull-unset", Severity::Note, &set.settings_file, message)
}

fn nowhere(handler: &Handler, set: &Set<'_>, says_so: bool) -> Finding {
    if says_so {
        let message = "guest-pull = true, but no handler or runtime has images pulled in the \
            guest, so that nobody may read a refusal on a disk and pods run without their \
            document; take it out, or set guest pull up";
        let path = &set.settings_file;
        return Finding::new("guest-pull-differs", Severity::Warning, path, message);
    }
    let message = "nothing says that images are pulled in the guest: neither Kata's \
        experimental_force_guest_pull nor the snapshotter nydus, so that nobody reads the \
        configuration disk; see docs/start/node.md, \"Before you start\"";
    let path = &handler.directory;
    Finding::new("guest-pull-nowhere", Severity::Warning, path, message)
}

/// Whether the agent would start a data hub of its own.
fn components(main: &Main) -> Option<Finding> {
    let place = main.value("hypervisor", "kernel_params");
    let said = place.and_then(|place| match &place.value {
        Value::Text(text) => {
            text.split_whitespace().rev().find_map(|word| word.strip_prefix(COMPONENTS))
        }
        _ => None,
    });
    if said.is_some_and(|said| LEAVING.contains(&said)) {
        return None;
    }
    let (path, line) = place.map_or((&main.path, 0), |place| (&place.path, place.line));
    let message = "kernel_params has neither agent.guest_components_procs=none nor \
        =attestation-agent, so that the agent may start the image's own data hub in the puller's \
        place, or find none and die; add it (docs/guest.md, \"Which set-up\")";
    let finding = Finding::new("guest-components", Severity::Warning, path, message);
    Some(finding.at_line(line))
}

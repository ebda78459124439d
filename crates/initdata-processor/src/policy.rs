//! The policy that stands in `/run/measured-cfg` when initdata was refused, or brings none.
//!
//! Kata's agent asks `data.agent_policy.<request>` before it serves a request, denies where the
//! answer is not `true`, and hands what the policy printed to the runtime, from where it reaches
//! the pod's events.

use config_image::MAX_DOCUMENT_BYTES;
use foreign_text::bounded::read_path;

use crate::error::{Error, refused, sentence};
use crate::journal::{Journal, line};
use crate::paths::Paths;
use crate::settings::Settings;

/// The file's name; the agent is told to read its policy from here.
pub const FILE: &str = "policy.rego";

/// The longest reason in the policy; longer ones are cut.
///
/// With every character escaped and the text around it a line stays below 1024 columns, which older
/// versions of the agent's policy engine refuse to exceed.
pub const MAX_REASON_BYTES: usize = 448;

/// Room for any such policy, so that it does not move while it grows.
const MAX_POLICY_BYTES: usize = 6 << 10;

/// Every request that the agent checks, and `AllowRequestsFailingPolicy`, which would turn a denial
/// into a warning.
///
/// A request that a later agent adds is undefined in the policy, which the agent takes as a denial
/// too.
pub const REQUESTS: &[&str] = &[
    "AddARPNeighborsRequest",
    "AddSwapPathRequest",
    "AddSwapRequest",
    "AllowRequestsFailingPolicy",
    "CloseStdinRequest",
    "CopyFileRequest",
    "CreateContainerRequest",
    "CreateSandboxRequest",
    "DestroySandboxRequest",
    "ExecProcessRequest",
    "GetDiagnosticDataRequest",
    "GetIPTablesRequest",
    "GetMetricsRequest",
    "GetOOMEventRequest",
    "GuestDetailsRequest",
    "ListInterfacesRequest",
    "ListRoutesRequest",
    "MemAgentCompactConfig",
    "MemAgentMemcgConfig",
    "MemHotplugByProbeRequest",
    "OnlineCPUMemRequest",
    "PauseContainerRequest",
    "PullImageRequest",
    "ReadContainerTerminationMessage",
    "ReadStreamRequest",
    "RemoveContainerRequest",
    "RemoveStaleVirtiofsShareMountsRequest",
    "ReseedRandomDevRequest",
    "ResizeVolumeRequest",
    "ResumeContainerRequest",
    "SetGuestDateTimeRequest",
    "SetIPTablesRequest",
    "SetPolicyRequest",
    "SignalProcessRequest",
    "StartContainerRequest",
    "StartTracingRequest",
    "StatsContainerRequest",
    "StopTracingRequest",
    "TtyWinResizeRequest",
    "UpdateContainerRequest",
    "UpdateEphemeralMountsRequest",
    "UpdateInterfaceRequest",
    "UpdateRoutesRequest",
    "VolumeStatsRequest",
    "WaitProcessRequest",
    "WriteStreamRequest",
];

/// A policy that denies every request and says why.
///
/// `reason` may quote a hostile disk: it is put on one line, cut and escaped, so it cannot end the
/// string it is in.
#[must_use]
pub fn policy(reason: &str) -> String {
    let reason = quoted(reason, MAX_REASON_BYTES);
    let mut text = String::with_capacity(MAX_POLICY_BYTES);
    let mut put = |parts: &[&str]| parts.iter().for_each(|part| text.push_str(part));
    put(&[
        "# Written by initdata-processor: nothing may run in this guest, for the reason below.\n\
         package agent_policy\n\n\
         import future.keywords.if\n\n\
         reason := ",
        &reason,
        "\n\n",
    ]);
    for request in REQUESTS {
        put(&["default ", request, " := false\n"]);
    }
    put(&["\n# The same answer again, with the reason for the agent to pass on.\n"]);
    for request in REQUESTS {
        put(&[request, " := false if { print(reason) }\n"]);
    }
    text
}

/// A Rego and JSON string that holds `text`, of which it has at most `max_bytes`.
fn quoted(text: &str, max_bytes: usize) -> String {
    let text = line(text, max_bytes);
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{escaped}\"")
}

/// What is put in place where initdata brings no policy: the image's own, which is part of the
/// guest image and as measured as this program.
///
/// So there is a policy in `/run/measured-cfg` after every run, and the agent can always be told to
/// read it: an agent that finds no file there ends, and takes the guest with it.
#[derive(Debug)]
pub struct DefaultPolicy(Result<String, Error>);

impl DefaultPolicy {
    /// Reads the image's policy, at most as long as one in initdata. Before the sandbox, which has
    /// no room for it.
    #[must_use]
    pub fn load(paths: &Paths, settings: &Settings) -> Self {
        let path = &settings.default_policy;
        let below = path.strip_prefix("/").unwrap_or(path);
        let text = read_path(paths.root.join(below), MAX_DOCUMENT_BYTES)
            .map_err(|error| error.to_string())
            // The agent ends on such a file.
            .and_then(|bytes| {
                String::from_utf8(bytes.to_vec()).map_err(|_| "it is not UTF-8".to_owned())
            });
        Self(text.map_err(|why| {
            refused(format!(
                "find a policy: initdata brings no policy.rego, and the image's default policy {} \
                 cannot be used (there must be one of the two)",
                path.display()
            ))
            .because(why)
        }))
    }

    /// The policy; one that denies everything, with the reason, if the image has none to use. Says
    /// which.
    pub fn text(&self, journal: &mut Journal<'_>) -> String {
        match &self.0 {
            Ok(text) => {
                journal.info("the image's default policy in place: initdata brings none");
                text.clone()
            }
            Err(error) => {
                let reason = sentence(error);
                let text = "deny-all policy in place, for agents that know policies: ";
                journal.warn(format_args!("{text}{reason}"));
                policy(&reason)
            }
        }
    }
}

#[cfg(test)]
#[path = "policy/tests.rs"]
mod tests;

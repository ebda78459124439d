//! The policy that stands in `/run/measured-cfg` when initdata was refused, or no policy is there.
//!
//! Kata's agent asks `data.agent_policy.<request>` before it serves a request, denies where the
//! answer is not `true`, and hands what the policy printed to the runtime, from where it reaches
//! the pod's events.

use crate::line::line;

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
pub(crate) fn quoted(text: &str, max_bytes: usize) -> String {
    let text = line(text, max_bytes);
    let escaped = text.replace('\\', "\\\\").replace('"', "\\\"");
    format!("\"{escaped}\"")
}

#[cfg(test)]
#[path = "deny/tests.rs"]
mod tests;

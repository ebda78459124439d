//! The agent's own configuration: the verified initdata's, where it has one, or the image's.

use anyhow::{Context, Result};
use end_to_end::side_by_side;
use vm_harness::site::sample_initdata;
use vm_harness::{Evidence, Report, Scenario};

use crate::systemd::overlay::{Overlay, workspace};
use crate::systemd::property;

/// What an owner writes. The time-out has the form that the agent reads.
const AGENT_TOML: &str = r#""agent.toml" = '''
log_level = "debug"
debug_console = true
image_pull_timeout = { secs = 600, nanos = 0 }
guest_components_procs = "none"
policy_file = "/etc/another.rego"
'''
"#;

/// As the file `kata-agent` of an image, which takes arguments.
const AGENT: &str = "#!/bin/sh\n. /job/mark\n. /job/configuration\n. /job/agent\n";

/// Boots with the drop-in, and with `more` in the initdata.
fn boot(more: &str) -> Result<Report> {
    let file = |name: &str| std::fs::read(workspace().join(name)).context(name.to_owned());
    let mut overlay = Overlay::installed()?;
    let drop_in = String::from_utf8(file("deploy/guest/optional/agent-config.conf")?)?;
    // The test goes on to its end without the agent.
    let lasts = "[Unit]\nFailureAction=none\n[Service]\nFailureAction=none\n";
    overlay.drop_in("kata-agent.service", &format!("{lasts}{drop_in}"))?;
    overlay.file("usr/bin/kata-agent", 0o755, AGENT.as_bytes())?;
    let configuration = file("qemu-fixtures/agents/configuration")?;
    overlay.file("job/configuration", 0o644, &configuration)?;
    let initdata = sample_initdata() + more;
    overlay.boot(Scenario {
        evidence: Evidence::snp(&initdata),
        initdata: Some(initdata),
        kernel_parameters: ["agent.log=warn", "agent.guest_components_procs=none"]
            .map(str::to_owned)
            .into(),
        ..Scenario::bare("")
    })
}

const POLICY: &str = "/run/measured-cfg/policy.rego";

#[test]
fn the_verified_configuration_of_the_agent_takes_the_kernels_place() -> Result<()> {
    let measured = "/run/measured-cfg/agent.toml: debug none true";
    let cases = [
        ("an entry", (AGENT_TOML, Some(measured))),
        ("no entry", ("", Some("kernel: warn none false"))),
        // As the agent, which ends where it cannot read its configuration.
        ("an entry that is wrong", ("\"agent.toml\" = 'image_pull_timeout = 600'\n", None)),
    ];
    side_by_side(&cases, |(entry, configured)| {
        let report = boot(entry)?;
        // Initdata's policy counts, wherever the file says that another one is.
        let configured = configured.map(|configured| format!("{configured} {POLICY}"));
        assert_eq!(report.value("configured"), configured.as_deref());
        assert_eq!(report.value("agent").is_some(), configured.is_some());
        if configured.is_none() {
            let status = property(&report, "kata-agent.service", "ExecMainStatus")?;
            assert_eq!(status, "101", "{}", report.console);
        }
        Ok(())
    })
}

//! A stock agent, which asks for images on the data hub's socket: the hub and the attestation agent
//! are units.

use anyhow::Result;
use end_to_end::{assert_tells, site};
use sha2::{Digest as _, Sha256};
use vm_harness::site::sample_initdata;
use vm_harness::{Evidence, Scenario};

use crate::systemd::overlay::{Overlay, workspace};

const HUB: &str = "usr/local/bin/confidential-data-hub";
const ATTESTATION_AGENT: &str = "usr/local/bin/attestation-agent";

/// An owner's configuration of the hub, which does not know of any set-up.
const CDH: &str =
    "\"cdh.toml\" = \"\"\"\n[kbc]\nname = \"cc_kbc\"\nurl = \"https://kbs.corp\"\n\"\"\"\n";

#[test]
fn a_stock_agents_pulls_and_its_guest_components_survive_a_restart() -> Result<()> {
    let fixture = |name: &str| std::fs::read(workspace().join("qemu-fixtures/systemd").join(name));
    let site = site()?;
    let mut overlay = Overlay::installed()?;
    overlay.file("job/again", 0o644, &fixture("stock")?)?;
    let component = fixture("component")?;
    overlay.file(ATTESTATION_AGENT, 0o755, &component)?;
    overlay.units("stock-agent")?;
    overlay.units("coco")?;
    overlay.file(HUB, 0o755, &component)?;
    let initdata = sample_initdata() + CDH;
    let report = overlay.boot(Scenario {
        kernel_parameters: vec!["agent.guest_components_procs=none".to_owned()],
        evidence: Evidence::snp(&initdata),
        initdata: Some(initdata.clone()),
        ..site.scenario()
    })?;

    let run = "/run/confidential-containers";
    let started = format!(
        "--attestation_sock unix://{run}/attestation-agent/attestation-agent.sock \
        --initdata-toml {run}/initdata/initdata.toml -c {run}/initdata/aa.toml"
    );
    assert_eq!(report.value("attestation-agent"), Some(&*started));
    let digest = Sha256::digest(&initdata);
    let accepted: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    assert_eq!(report.value("accepted"), Some(&*accepted));
    let started = format!("-c {run}/upstream-cdh.toml");
    assert_eq!(report.value("confidential-data-hub"), Some(&*started));
    let configuration: Vec<_> = report.values("confidential-data-hub-configuration").collect();
    let moved = format!("socket = \"unix://{run}/upstream-cdh.sock\"");
    assert_tells(&configuration.join("\n"), &[&*moved, "url = \"https://kbs.corp\""]);

    assert_eq!(report.value("hub-socket"), Some("socket 600 0:0"));
    assert_eq!(report.values("pull").collect::<Vec<_>>(), ["exit 0"; 3]);
    assert_eq!(report.values("mount").collect::<Vec<_>>(), ["1"; 3]);
    assert_eq!(report.value("restarts"), Some("1"));
    assert_eq!(report.value("failed"), None, "a unit failed");
    Ok(())
}

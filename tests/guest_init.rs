//! A guest without systemd: `deploy/guest/init-example` as its first program, which becomes the
//! agent.

use std::fs;
use std::path::Path;

use anyhow::{Result, ensure};
use end_to_end::{assert_no_secret, assert_tells, run, site};
use vm_harness::site::sample_initdata;
use vm_harness::{Evidence, Report, Scenario, demo};

/// From the tests' own init, which loaded drivers and set up the network, to the example, with
/// nothing mounted but `/dev`.
const JOB: &str = r#"
mkdir -p /usr/bin
mv /job/kata-agent /usr/bin/kata-agent
chmod 755 /usr/bin/kata-agent
[ -z "$TEE" ] || insmod /modules/tee_fixture.ko $TEE
[ ! -f /job/processor ] || { rm /bin/initdata-processor; mv /job/processor /bin/initdata-processor; chmod 755 /bin/initdata-processor; }
[ ! -f /job/policy ] || { mkdir -p /etc/kata-opa; mv /job/policy /etc/kata-opa/default-policy.rego; }
umount /run /sys /proc
exec /bin/busybox sh /job/init-example
"#;

fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here)
}

/// Boots with `more` in `/job`, where a name may be one of the usual files'.
fn boot(scenario: Scenario, more: &[(&str, &str)]) -> Result<Report> {
    let root = root();
    let fixture = |name: &str| fs::read_to_string(root.join("qemu-fixtures/systemd").join(name));
    let example = fs::read(root.join("deploy/guest/init-example"))?;
    let agent = format!("#!/bin/busybox sh\n{}", fixture("agent")?);
    let mut files = vec![
        ("job/init-example".to_owned(), example),
        ("job/kata-agent".to_owned(), agent.into_bytes()),
        ("job/mark".to_owned(), fixture("mark")?.into_bytes()),
    ];
    for (name, text) in more {
        files.push((format!("job/{name}"), text.as_bytes().to_vec()));
    }
    run(&Scenario { job: Some(JOB.to_owned()), files, ..scenario })
}

#[test]
fn the_agent_finds_policy_and_puller() -> Result<()> {
    let site = site()?;
    // A stock agent asks elsewhere.
    let again = "socket=/run/confidential-containers/cdh.sock; pull \"$BUNDLE-hub\"\n";
    let report = boot(site.scenario(), &[("again", again)])?;
    assert_no_secret(&site, &report.console);
    assert_eq!(report.value("agent"), Some("started 1"), "as PID 1");
    let found: Vec<_> = report.values("config").collect();
    for line in
        ["644 0:0 /run/measured-cfg/policy.rego", "600 0:0 /run/insecure-cfg/imagepuller.toml"]
    {
        assert!(found.contains(&line), "{line} is missing: {found:?}");
    }
    let rule = "AllowRequestsFailingPolicy := true";
    assert!(report.values("policy").any(|line| line.contains(rule)));
    assert_eq!(report.value("socket"), Some("socket 600 0:0"));
    assert_eq!(report.value("watcher"), Some("600 0:0"), "nobody can be asked");
    let pulls: Vec<_> = report.values("pull").collect();
    assert_eq!(pulls, ["exit 0"; 2], "{}", report.console);
    assert_eq!(report.values("mount").collect::<Vec<_>>(), ["1"; 2]);
    assert_eq!(demo::files(&report)?, site.layout.files);
    Ok(())
}

#[test]
fn without_initdata_the_agent_finds_the_images_policy() -> Result<()> {
    let scenario = Scenario { evidence: Evidence::Snp([0; 32]), ..Scenario::bare("") };
    let policy = "package agent_policy # the image's\n";
    let report = boot(scenario, &[("policy", policy)])?;
    let found: Vec<_> = report.values("policy").collect();
    assert_eq!(found, [policy.trim_end()], "{}", report.console);
    assert!(report.value("socket").is_some(), "the agent goes on");
    Ok(())
}

/// What an image's builder chooses in the example: the agent's configuration from initdata.
#[test]
fn the_examples_choice() -> Result<()> {
    let example = fs::read_to_string(root().join("deploy/guest/init-example"))?;
    let chosen =
        example.replace("\nagent_config=\n", "\nagent_config=/run/measured-cfg/agent.toml\n");
    ensure!(chosen != example, "the example has no choice");
    let fixture = |name: &str| fs::read_to_string(root().join("qemu-fixtures").join(name));
    let agent = format!(
        "#!/bin/busybox sh\n. /job/mark\n{}\n{}",
        fixture("agents/configuration")?,
        fixture("systemd/agent")?
    );
    let site = site()?;
    let initdata = sample_initdata() + "\"agent.toml\" = 'log_level = \"debug\"'\n";
    let scenario = Scenario {
        evidence: Evidence::None,
        initdata: Some(initdata),
        kernel_parameters: vec!["configdev.allow_unverified_initdata=1".to_owned()],
        ..site.scenario()
    };
    let files = [("init-example", &*chosen), ("kata-agent", &agent)];
    let report = boot(scenario, &files)?;
    // What the file does not say is the agent's default, whatever the kernel's parameters say.
    assert_eq!(
        report.value("configured"),
        Some(
            "/run/measured-cfg/agent.toml: debug api-server-rest false \
            /run/measured-cfg/policy.rego"
        )
    );
    assert_eq!(report.value("pull"), Some("exit 0"), "{}", report.console);
    Ok(())
}

#[test]
fn an_agent_without_the_policy_does_not_start_after_a_refusal() -> Result<()> {
    let example = fs::read_to_string(root().join("deploy/guest/init-example"))?;
    let without = example.replace("export KATA_AGENT_POLICY_FILE=", ": ");
    ensure!(without != example, "the example does not set the variable");
    // Nothing allows initdata that nobody verifies.
    let scenario = Scenario { initdata: Some(sample_initdata()), ..Scenario::bare("") };
    let ended = boot(scenario, &[("init-example", &without)]);
    let console = ended.map_or_else(|error| error.to_string(), |report| report.console);
    assert_tells(&console, &["initdata was refused, so there will be no"]);
    assert!(!console.contains("agent started"), "{console}");
    Ok(())
}

#[test]
fn a_processor_that_fails_means_no_agent() -> Result<()> {
    let failing = "#!/bin/busybox sh\nexit 70\n";
    // The guest ends without the mark that a finished job leaves.
    let ended = boot(Scenario::bare(""), &[("processor", failing)]);
    ensure!(ended.is_err(), "the agent ran: {:?}", ended.ok());
    let console = ended.map_or_else(|error| error.to_string(), |report| report.console);
    assert_tells(&console, &["did not finish its job"]);
    assert_tells(&console, &["initdata-processor ended with 70", "no agent"]);
    assert!(!console.contains("agent started"), "{console}");
    Ok(())
}

//! A docker config that people have already opens the registry for a guest, and only the registry
//! that it names.

use std::process::Command;

use anyhow::{Result, ensure};
use end_to_end::{assert_no_secret, assert_tells, further_pulls, refusal, run, site};
use vm_harness::site::REGISTRY_NAME;
use vm_harness::{Program, Scenario, Scratch, Site};

/// What the import makes of a docker config with `key`, below a document that knows only the CA.
fn import(site: &Site, key: &str) -> Result<String> {
    let node = Scratch::new()?;
    let config = node.write(
        "config.json",
        format!(
            "{{\"auths\":{{\"{key}\":{{\"auth\":\"{}\"}}}},\"credsStore\":\"desktop\"}}",
            Site::auth(&site.password)
        ),
    )?;
    let base = node.write(
        "base.toml",
        format!(
            "[registries.\".corp\"]\nca-certs = '''\n{}'''\n",
            site.authority.certificate()
        ),
    )?;
    let output = Command::new(Program::KataConfigdev.path()?)
        .args(["import", "docker-config", "--into"])
        .args([base, config])
        .output()?;
    let told = String::from_utf8(output.stderr)?;
    ensure!(output.status.success(), "the import failed: {told}");
    assert_no_secret(site, &told);
    assert_tells(&told, &["credsStore"]);
    Ok(String::from_utf8(output.stdout)?)
}

/// Three imports in one guest: keys for the registry, for the image's own repositories, and for
/// others, which must not open the whole registry.
#[test]
fn a_docker_config_opens_the_registry_that_it_names() -> Result<()> {
    let site = site()?;
    let registry = format!("{REGISTRY_NAME}:{}", site.registry.port());
    let document = import(&site, &format!("https://{registry}/v1/"))?;
    let own = import(&site, &format!("{registry}/team"))?;
    let others = import(&site, &format!("{registry}/others"))?;
    let image = site.image();
    let report = run(&Scenario {
        document: Some(others),
        files: further_pulls(&[(Some(&document), &image), (Some(&own), &image)]),
        ..site.scenario()
    })?;
    assert_tells(&refusal(&report)?, &[REGISTRY_NAME, "401"]);
    assert_eq!(report.value("pull1"), Some("exit 0"), "{}", report.console);
    assert_eq!(report.value("mount1"), Some("1"));
    assert_eq!(report.value("pull2"), Some("exit 0"), "{}", report.console);
    assert_no_secret(&site, &report.console);
    Ok(())
}

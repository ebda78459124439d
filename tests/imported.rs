//! A docker config that people have already opens the registry for a guest, and only the registry
//! that it names.

use std::process::Command;

use anyhow::{Result, ensure};
use end_to_end::{assert_no_secret, assert_tells, refusal, run, site};
use vm_harness::site::REGISTRY_NAME;
use vm_harness::{Program, Scenario, Scratch, Site};

/// What the import makes of a docker config with `key`, below a document that knows only the CA;
/// and what it told.
fn import(site: &Site, key: &str) -> Result<(String, String)> {
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
    Ok((String::from_utf8(output.stdout)?, told))
}

#[test]
fn a_docker_config_gets_the_image_pulled_in_the_guest() -> Result<()> {
    let site = site()?;
    let key = format!("https://{REGISTRY_NAME}:{}/v1/", site.registry.port());
    let (document, _) = import(&site, &key)?;
    let report = run(&Scenario {
        document: Some(document),
        ..site.scenario()
    })?;
    assert_eq!(report.value("pull"), Some("exit 0"), "{}", report.console);
    assert_eq!(report.value("answer"), Some(site.layout.manifest.as_str()));
    assert_no_secret(&site, &report.console);
    Ok(())
}

#[test]
fn a_key_for_one_repository_does_not_open_the_registry() -> Result<()> {
    let site = site()?;
    let key = format!("{REGISTRY_NAME}:{}/team", site.registry.port());
    let (document, told) = import(&site, &key)?;
    assert_tells(&told, &["/team", "would be wider"]);
    assert_no_secret(&site, &document);
    let report = run(&Scenario {
        document: Some(document),
        ..site.scenario()
    })?;
    assert_tells(&refusal(&report)?, &[REGISTRY_NAME, "401"]);
    Ok(())
}

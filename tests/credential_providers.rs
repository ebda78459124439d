//! The node's kubelet plugins know the registry's password of the hour, the node's document only
//! its CA.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use anyhow::Result;
use end_to_end::{assert_no_secret, assert_tells, refusal, run, side_by_side, site};
use vm_harness::site::{REGISTRY_NAME, USERNAME};
use vm_harness::{Scenario, Scratch, Site};

/// A sandbox on a node whose plugin answers `password`, in the way of a cloud's: for the registry's
/// host, not to be kept.
fn scenario(site: &Site, node: &Scratch, password: &str) -> Result<Scenario> {
    let registry = format!("{REGISTRY_NAME}:{}", site.registry.port());
    let answer = node.write(
        "answer.json",
        format!(
            "{{\"kind\":\"CredentialProviderResponse\",\"apiVersion\":\"credentialprovider.kubelet.k8s.io/v1\",\
             \"cacheKeyType\":\"Registry\",\"cacheDuration\":\"0s\",\
             \"auth\":{{\"{registry}\":{{\"username\":\"{USERNAME}\",\"password\":\"{password}\"}}}}}}"
        ),
    )?;
    let config = node.write(
        "providers.yaml",
        format!(
            "apiVersion: kubelet.config.k8s.io/v1\nkind: CredentialProviderConfig\nproviders:\n- \
            name: cloud-credential-provider\n  \
             matchImages: [\"*.corp:{}\"]\n  defaultCacheDuration: 12h\n  apiVersion: \
             credentialprovider.kubelet.k8s.io/v1\n  \
             args: [get-credentials]\n",
            site.registry.port()
        ),
    )?;
    let plugins = node.path().join("bin");
    fs::create_dir(&plugins)?;
    let plugin = node.write(
        "bin/cloud-credential-provider",
        format!(
            "#!/bin/sh\nread question\ncase $1$question in\n\
             get-credentials*'\"image\":\"{registry}/probe\"}}') exec cat {};;\nesac\nexit 1\n",
            answer.display()
        ),
    )?;
    fs::set_permissions(plugin, PermissionsExt::from_mode(0o755))?;
    Ok(Scenario {
        document: Some(format!(
            "[registries.\".corp\"]\nca-certs = '''\n{}'''\n",
            site.authority.certificate()
        )),
        settings: format!(
            "[credential-providers]\nconfig = {config:?}\nbin-dir = {plugins:?}\nregistries = \
            [\"{registry}\"]\ndeadline-secs = 60\n"
        ),
        ..site.scenario()
    })
}

#[test]
fn a_plugins_password_decides() -> Result<()> {
    let site = site()?;
    let over = "the-password-of-an-hour-ago";
    let cases = [("right", site.password.as_str()), ("over", over)];
    side_by_side(&cases, |password| {
        let report = run(&scenario(&site, &Scratch::new()?, password)?)?;
        assert_no_secret(&site, &report.console);
        if *password == over {
            let error = refusal(&report)?;
            assert_tells(&error, &[REGISTRY_NAME, "401", "password"]);
            let shows = |secret: &str| report.console.contains(secret);
            assert!(!shows(over) && !shows(&Site::auth(over)));
            return Ok(());
        }
        assert_eq!(report.value("pull"), Some("exit 0"), "{}", report.console);
        assert_eq!(report.value("answer"), Some(site.layout.manifest.as_str()));
        assert_eq!(report.value("mount"), Some("1"));
        Ok(())
    })
}

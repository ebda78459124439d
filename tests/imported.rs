//! A docker config that people have already opens the registry for a guest, and only the registry
//! that it names.

use std::process::Command;

use anyhow::{Result, ensure};
use end_to_end::{HostPull, assert_no_secret, assert_tells, further_pulls, refusal, run, site};
use test_http::pki::Authority;
use vm_harness::site::{REGISTRY_NAME, USERNAME};
use vm_harness::{Program, Registry, Scenario, Scratch, Site, layout};

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
        format!("[registries.\".corp\"]\nca-certs = '''\n{}'''\n", site.authority.certificate()),
    )?;
    let output = Command::new(Program::KataConfigdev.path()?)
        .args(["import", "docker-config", "--output", "-", "--into"])
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

/// Two pull secrets of a pod, one with the old password and one with the new, as `kubectl get
/// secret` shows them.
fn secrets(host: &str, passwords: &[(&str, &str)]) -> String {
    let secret = |(name, password): &(&str, &str)| {
        format!(
            "---\napiVersion: v1\nkind: Secret\nmetadata: {{name: {name}, namespace: team}}\n\
             type: kubernetes.io/dockerconfigjson\nstringData:\n  .dockerconfigjson: |\n    \
             {{\"auths\":{{\"{host}\":{{\"auth\":\"{}\"}}}}}}\n",
            Site::auth(password)
        )
    };
    passwords.iter().map(secret).collect()
}

/// A registry switches from one password to the other. Only one of two secrets was taken, so pulls
/// failed either before that or after it. The registry is a real one, with htpasswd.
#[test]
fn privileged_a_password_changes_and_no_pull_fails() -> Result<()> {
    if !vm_harness::is_root("privileged_a_password_changes_and_no_pull_fails") {
        return Ok(());
    }
    let scratch = Scratch::new()?;
    let authority = Authority::new("corp private CA")?;
    let (old, new) = ("hunter2-old", "hunter2-new");
    let registry = Registry::start(&scratch, &authority, &["localhost"], USERNAME, old)?;
    let layout = layout::sample(&scratch.path().join("layout"))?;
    registry.push(&scratch, &layout.path, "team/app")?;
    let host = format!("localhost:{}", registry.port());
    let image = format!("{host}/team/app@{}", layout.manifest);
    let document = |passwords: &[(&str, &str)]| -> Result<String> {
        let manifests = scratch.write("secrets.yaml", secrets(&host, passwords))?;
        let roots = authority.certificate();
        let base = format!("[registries.\".\"]\nca-certs = '''\n{roots}'''\n");
        let base = scratch.write("base.toml", base)?;
        let output = Command::new(Program::KataConfigdev.path()?)
            .args(["import", "docker-config", "--strict", "--output", "-", "--into"])
            .args([base, manifests])
            .output()?;
        let told = String::from_utf8(output.stderr)?;
        ensure!(output.status.success(), "the import failed: {told}");
        ensure!(!told.contains("hunter2"), "{told}");
        Ok(String::from_utf8(output.stdout)?)
    };
    let both = document(&[("pull-a", old), ("pull-b", new)])?;
    let swapped = document(&[("pull-a", new), ("pull-b", old)])?;
    let only = [("pull-a", old)];
    let pulled = |document: &str| HostPull::new(document)?.run(&image);
    for document in [&both, &swapped] {
        pulled(document)?.files()?;
    }
    registry.change_password(&scratch, USERNAME, new)?;
    for document in [&both, &swapped] {
        let outcome = pulled(document)?;
        outcome.files()?;
        ensure!(!outcome.said.contains("hunter2"), "{}", outcome.said);
    }
    let refused = pulled(&document(&only)?)?;
    assert_tells(refused.refusal()?, &["401"]);
    Ok(())
}

/// A proxy cache is a project in the path of containerd's host, and the account stands in a header.
/// The host was left out, with the account, and the image came from Docker Hub itself. The registry
/// is a real one, which has the image in that project only.
#[test]
fn privileged_a_project_in_the_path_of_a_mirror_is_pulled_from() -> Result<()> {
    if !vm_harness::is_root("privileged_a_project_in_the_path_of_a_mirror_is_pulled_from") {
        return Ok(());
    }
    let scratch = Scratch::new()?;
    let authority = Authority::new("corp private CA")?;
    let password = "hunter2-hub";
    let registry = Registry::start(&scratch, &authority, &["localhost"], USERNAME, password)?;
    let layout = layout::sample(&scratch.path().join("layout"))?;
    registry.push(&scratch, &layout.path, "hub/library/nginx")?;
    let image = format!("docker.io/library/nginx@{}", layout.manifest);
    let ca = scratch.write("ca.pem", authority.certificate())?;
    let pulled = |header: &str| {
        let hosts = format!(
            "server = \"https://localhost:{}/v2/hub\"\noverride_path = true\nca = \"{}\"\n{header}",
            registry.port(),
            ca.display()
        );
        let directory = scratch.path().join("certs.d/docker.io");
        std::fs::create_dir_all(&directory)?;
        std::fs::write(directory.join("hosts.toml"), hosts)?;
        let output = Command::new(Program::KataConfigdev.path()?)
            .args(["import", "certs.d"])
            .arg(scratch.path().join("certs.d"))
            .output()?;
        let told = String::from_utf8(output.stderr)?;
        ensure!(output.status.success(), "the import failed: {told}");
        ensure!(!told.contains("hunter2"), "{told}");
        HostPull::new(&String::from_utf8(output.stdout)?)?.run(&image)
    };
    let auth = Site::auth(password);
    pulled(&format!("header = {{Authorization = \"Basic {auth}\"}}\n"))?.files()?;
    let anonymous = pulled("")?;
    assert_tells(anonymous.refusal()?, &["401"]);
    Ok(())
}

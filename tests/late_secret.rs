//! A pod that is older than its secret, on a node that the agent looks after: the secret comes, its
//! password is corrected, it is deleted and comes back, and the guest's next pull follows each
//! time, in one VM that nobody touches.

use std::cell::Cell;
use std::fs;
use std::time::Duration;

use anyhow::{Context, Result};
use end_to_end::{SERVED_PULLS, TRIES, assert_no_secret, assert_tells, mount, site};
use vm_harness::process::bound_command;
use vm_harness::site::{REGISTRY_NAME, USERNAME};
use vm_harness::{Background, Guest, Program, Scenario, Scratch, Site, despite_crash, has_mark};

const WAITS: &str = "the secret kata/registries has not arrived on this node";

/// After [`SERVED_PULLS`] and [`TRIES`].
const JOB: &str = r#"
fails early 'has not arrived'
fails wrong 'refused the credentials'
works pulled
fails deleted 'has not arrived'
works back
kill -0 $service && mark service "the same"
"#;

/// What the host does when the guest has said the word before.
#[derive(Clone, Copy)]
enum Step {
    /// The agent starts, with what the kubelet mounts: a placeholder that nobody filled, then with
    /// a wrong password.
    Wrong,
    Right,
    Deleted,
}

const STEPS: [(&str, Step); 4] = [
    ("early", Step::Wrong),
    ("wrong", Step::Right),
    ("pulled", Step::Deleted),
    ("deleted", Step::Right),
];

#[test]
fn the_next_pull_follows_the_secret_without_a_restart() -> Result<()> {
    let site = site()?;
    despite_crash(|| late(&site))
}

fn late(site: &Site) -> Result<()> {
    let scratch = Scratch::new()?;
    let place = |name: &str| scratch.path().join(name);
    for name in ["run", "kata"] {
        fs::create_dir(place(name))?;
    }
    let (own, registries) = (place("own"), place("registries"));
    let installed = place("prefix/default/etc/host-config/imagepuller.toml");
    // As the node is after a reboot: settings are there, documents in memory are not.
    let scenario = Scenario {
        document: None,
        settings: format!(
            "document = {installed:?}\nmissing-document = {WAITS:?}\ntransport = \"file\"\n\
             run-root = {:?}\n",
            place("run")
        ),
        job: Some(format!("{SERVED_PULLS}{TRIES}{JOB}")),
        ..site.scenario()
    };
    let qemu = &scenario.qemu;
    let kata = format!("[hypervisor.qemu]\npath = {qemu:?}\n");
    fs::write(place("kata/configuration.toml"), kata)?;
    let configuration = scratch.write(
        "agent.toml",
        format!(
            "host = \"/\"\nprefix = {:?}\nwrapper = {:?}\nsandboxes = true\n[sets.default]\n\
             secret = {own:?}\ndocker-configs = [{registries:?}]\nrequired = true\n\
             secret-names = {{ {registries:?} = \"kata/registries\" }}\nhandlers = [{:?}]\n\
             settings-file = \"{}/default/etc/kata-configdev/config.toml\"\n\
             settings = {{ qemu = {qemu:?}, run-root = {:?} }}\n",
            place("prefix"),
            Program::KataConfigdevQemu.path()?,
            place("kata"),
            place("prefix").display(),
            place("run"),
        ),
    )?;
    // The document of the set's own: whom to trust. The other secret has the password.
    let trust = format!(
        "[registries.\"{REGISTRY_NAME}.\"]\nca-certs = '''\n{}'''\n",
        site.authority.certificate()
    );
    let docker = |password: &str| {
        format!("{{\"auths\":{{\"{REGISTRY_NAME}\":{{\"auth\":\"{}\"}}}}}}", Site::auth(password))
    };
    let key = ".dockerconfigjson";
    let agent = Cell::new(None);
    let act = |step: Step| -> Result<()> {
        match step {
            Step::Wrong => {
                mount(&own, "imagepuller.toml", &trust)?;
                mount(&registries, key, "{}")?;
                let mut command = bound_command(Program::KataConfigdev.path()?);
                command.args(["node-agent", "--config"]).arg(&configuration);
                let mut started = Background::spawn("agent", command, &scratch)?;
                // It has seen the placeholder before there is a password.
                let sees = |log: &str| log.contains(WAITS).then_some(());
                started.wait_for(Duration::from_secs(60), sees)?;
                agent.set(Some(started));
                mount(&registries, key, &docker("mistyped"))
            }
            Step::Right => {
                site.registry.change_password(site.scratch(), USERNAME, &site.password)?;
                mount(&registries, key, &docker(&site.password))
            }
            // The guest asks for another one when the one that it has does not do any more.
            Step::Deleted => {
                fs::remove_file(registries.join(key))?;
                site.registry.change_password(site.scratch(), USERNAME, "another")
            }
        }
    };
    let mut done = Vec::new();
    let report = Guest::boot(&scenario)?.finish(|console| {
        if let Some((word, step)) = STEPS.get(done.len())
            && has_mark(console, word)
        {
            done.push(act(*step));
        }
    })?;
    let steps = done.len();
    done.into_iter().collect::<Result<Vec<()>>>()?;
    let log = fs::read_to_string(place("agent.log")).context("the agent never started")?;
    let told = |name: &str| report.value(name).unwrap_or_default();
    println!("{log}");
    assert_eq!(steps, STEPS.len(), "{log}\n{}", report.console);
    for name in ["early", "deleted"] {
        let said = format!("the node says: {WAITS}");
        assert_tells(told(name), &["nothing is pulled", &said]);
    }
    assert_tells(told("wrong"), &[REGISTRY_NAME, "refused the credentials"]);
    for name in ["pulled", "back"] {
        assert_eq!(told(name), site.layout.manifest, "{}", report.console);
    }
    assert_eq!(told("service"), "the same");
    // The secrets are on no console and in no log.
    for text in [&log, &report.console] {
        assert_no_secret(site, text);
        assert!(!text.contains("mistyped") && !text.contains(&Site::auth("mistyped")));
    }
    Ok(())
}

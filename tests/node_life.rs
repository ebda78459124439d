//! The life of a node, told as a story: the release comes, a sandbox that is older than its secret,
//! a changed password, another release, a broken secret, and a removal that gets there in two goes.
//!
//! The node is a directory. The agent runs as its pod does, in a container whose `/host` has what
//! the kubelet mounts. The sandbox is a VM, started as the handler's configuration says.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

pub mod node;
pub mod pod;

use std::fs;

use anyhow::{Context, Result};
use end_to_end::{SERVED_PULLS, TRIES, assert_no_secret, assert_tells, site};
use node::{DROP_IN, HANDLERS, Node, news, show};
use pod::{DOCUMENTS, PREFIX, Pod, stop};
use vm_harness::site::{REGISTRY_NAME, USERNAME};
use vm_harness::{Guest, Scenario, Scratch, Site, count_marks, despite_crash, has_mark, is_root};

const WAITS: &str = "the secret kata-system/team-registries has not arrived on this node";

/// After [`SERVED_PULLS`] and [`TRIES`].
const JOB: &str = r#"
fails early 'has not arrived'
works pulled
fails old 'refused the credentials'
works new
while pull && [ $number -lt 3000 ]; do mark kept "$(cat /tmp/answer)"; usleep 200000; done
fails deleted 'has not arrived'
kill -0 $service && mark service "the same"
"#;

/// The kubelet's directories, which stay: `deploy/README.md`, "Remove".
const STAYS: [&str; 7] = [
    "etc/kata-configdev",
    "opt/kata-configdev",
    "run/kata-configdev",
    DOCUMENTS,
    "run/kata-containers",
    "run/kata-containers/shared",
    "run/kata-containers/shared/initdata",
];

/// The password of another release.
const OF_OTHERS: &str = "s3cret-of-team-b";

const DOCKER: &str = "/docker-configs/default/0";
const KEY: &str = ".dockerconfigjson";

#[test]
fn a_node_from_the_first_pod_to_the_last() -> Result<()> {
    if !is_root("the life of a node") {
        return Ok(());
    }
    let site = site()?;
    despite_crash(|| life(&site))
}

fn docker(password: &str) -> String {
    let auth = Site::auth(password);
    format!("{{\"auths\":{{\"{REGISTRY_NAME}\":{{\"auth\":\"{auth}\"}}}}}}")
}

fn life(site: &Site) -> Result<()> {
    let scratch = Scratch::new()?;
    let node = Node::new(&scratch)?;
    let home = site.scratch();
    site.registry.change_password(home, USERNAME, &site.password)?;
    let before = node.find()?;
    show("before", &before);

    println!("The release comes. Of its secrets only the document is there, without a password.");
    let mut pod = Pod::new(&scratch, &node, "kata-system/kata")?;
    let trust = format!(
        "[registries.\"{REGISTRY_NAME}.\"]\nca-certs = '''\n{}'''\n",
        site.authority.certificate()
    );
    pod.mount_secret("/secrets/default", "imagepuller.toml", &trust)?;
    pod.mount_secret(DOCKER, KEY, "{}")?;
    let agent = pod.start()?;
    let why = pod.not_ready()?.context("it is ready without its secret")?;
    println!("  not ready: {why}");
    assert_tells(&why, &[WAITS]);
    show("installed", &node.find()?);

    let log = sandbox(site, &node, &pod)?;
    println!("The sandbox has ended, and so has the agent.");
    let log = log + &stop(agent)?;
    println!("{}", node.shown(&log));
    for text in [site.password.clone(), new_password(site), OF_OTHERS.into()] {
        assert!(!log.contains(&text) && !log.contains(&Site::auth(&text)));
    }

    println!("The release goes, while the directory of one handler is not mounted.");
    pod.unmounted = vec![HANDLERS[1]];
    let (code, log) = pod.run(&["uninstall"])?;
    println!("{}", node.shown(&log));
    let last = node.shown(log.lines().last().unwrap_or_default());
    assert_eq!(code, Some(69), "{log}");
    let kept = ["default/bin/kata-configdev-qemu", "default/etc/kata-configdev/config.toml"];
    let drop_in = format!("{}/{DROP_IN}", HANDLERS[1]);
    let starts = format!("/{drop_in} still starts the wrapper");
    assert_tells(&last, &["failed to remove ", &starts]);
    for file in kept {
        assert_tells(&last, &[&format!("/{PREFIX}/{file}")]);
    }
    let found = node.find()?;
    show("after the first removal", &found);
    let files = found.iter().filter(|(_, (_, file))| file.is_some());
    let files = files.filter(|(name, state)| before.get(*name) != Some(*state));
    let files: Vec<&str> = files.map(|(name, _)| name.as_str()).collect();
    let mut expected = kept.map(|file| format!("{PREFIX}/{file}")).to_vec();
    expected.extend([format!("{PREFIX}/installed.json"), drop_in]);
    expected.sort();
    assert_eq!(files, expected);

    println!("The directory is mounted again.");
    pod.unmounted.clear();
    let (code, log) = pod.run(&["uninstall"])?;
    println!("{}", node.shown(&log));
    assert_eq!(code, Some(0), "{log}");
    let after = node.find()?;
    show("after", &after);
    assert_eq!(news(&after, &before), [].into(), "something of Kata's is gone");
    let expected = STAYS.into_iter().collect();
    assert_eq!(news(&before, &after), expected);
    Ok(())
}

fn new_password(site: &Site) -> String {
    format!("{}-new", site.password)
}

/// The life of a sandbox, and what happens meanwhile; gives what other releases' pods logged.
fn sandbox(site: &Site, node: &Node, pod: &Pod<'_>) -> Result<String> {
    let hypervisor = node.hypervisor(HANDLERS[0])?;
    println!("A sandbox starts: {}", node.shown(&hypervisor.display().to_string()));
    let scenario = Scenario {
        wrapper: Some(hypervisor),
        job: Some(format!("{SERVED_PULLS}{TRIES}{JOB}")),
        ..site.scenario()
    };
    let document = node.path(DOCUMENTS).join("default/imagepuller.toml");
    let mut other_log = String::new();
    let (mut done, mut kept) = (0, 0);
    let mut act = |console: &str| -> Result<()> {
        match done {
            0 if has_mark(console, "early") => {
                println!("The secret comes.");
                pod.mount_secret(DOCKER, KEY, &docker(&site.password))?;
                pod.wait_for(None)?;
            }
            1 if has_mark(console, "pulled") => {
                println!("The registry takes a new password only.");
                let password = new_password(site);
                let home = site.scratch();
                site.registry.change_password(home, USERNAME, &password)?;
            }
            2 if has_mark(console, "old") => {
                println!("The secret has it too.");
                pod.mount_secret(DOCKER, KEY, &docker(&new_password(site)))?;
            }
            3 if has_mark(console, "new") => {
                other_log = second_release(node, pod)?;
                println!("The secret is no JSON any more.");
                let text = fs::read(&document)?;
                pod.mount_secret(DOCKER, KEY, "{\"auths\":")?;
                pod.wait_for(Some("accept the docker configuration of the set default"))?;
                println!("  not ready: {}", pod.not_ready()?.unwrap_or_default());
                assert_eq!(fs::read(&document)?, text, "the document changed");
            }
            4 => kept = count_marks(console, "kept"),
            // The pull before the last one may have begun before the secret was broken.
            5 if count_marks(console, "kept") >= kept + 2 => {
                println!("The secret is deleted, and what it held does not do any more.");
                pod.remove_secret(DOCKER, KEY)?;
                site.registry.change_password(site.scratch(), USERNAME, "another")?;
            }
            _ => return Ok(()),
        }
        done += 1;
        Ok(())
    };
    let mut outcome = Ok(());
    let report = Guest::boot(&scenario)?.finish(|console| {
        if outcome.is_ok() {
            outcome = act(console);
        }
    })?;
    outcome?;
    let told = |name: &str| report.value(name).unwrap_or_default();
    for name in ["early", "pulled", "old", "new", "kept", "deleted"] {
        println!("  {name}: {}", told(name));
    }
    assert_eq!(done, 6, "{}", report.console);
    let said = format!("the node says: {WAITS}");
    for name in ["early", "deleted"] {
        assert_tells(told(name), &["nothing is pulled", &said]);
    }
    assert_tells(told("old"), &[REGISTRY_NAME, "refused the credentials"]);
    let pulled = ["pulled", "new", "kept"].map(|name| report.values(name));
    for answer in pulled.into_iter().flatten() {
        assert_eq!(answer, site.layout.manifest, "{}", report.console);
    }
    assert_eq!(told("service"), "the same");
    assert_no_secret(site, &report.console);
    Ok(other_log)
}

/// Another release whose values name the prefix of the first one.
fn second_release(node: &Node, pod: &Pod<'_>) -> Result<String> {
    println!("A second release comes to the same prefix.");
    pod.wait_for(None)?;
    let other = Pod::new(pod.scratch(), node, "team-b/kata")?;
    other.mount_secret(DOCKER, KEY, &docker(OF_OTHERS))?;
    let found = node.find()?;
    let (code, log) = other.run(&["install"])?;
    println!("  {}", node.shown(&log));
    assert_eq!(code, Some(69), "{log}");
    assert_tells(&log, &["what is installed there belongs to kata-system/kata"]);
    assert_eq!(node.find()?, found, "it changed something");
    pod.wait_for(None)?;
    Ok(log)
}

//! The jobs of `docs/smoke.md`: their commands, run as each system runs them.
//!
//! Only three programs are stand-ins: curl copies from a folder, apt-get installs the package by
//! making its program reachable, and that program is started with more time than a CI needs.

use std::ffi::OsString;
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use end_to_end::assert_tells;
use serde_json::Value;
use vm_harness::fixture::Fixture;
use vm_harness::{Scratch, program};

use crate::smoke::image::Image;
use crate::smoke::{TIMEOUT, failed};

/// The page.
const PAGE: &str = include_str!("../../docs/smoke.md");

/// The package that the jobs install.
const PACKAGE: &str = "kata-configdev-smoke_0.1.0_amd64.deb";

/// Copies what a job downloads; its name is the last part of the URL.
const CURL: &str = r#"#!/bin/sh
set -eu
for word in "$@"; do
    case $word in
        --fail | --location | --remote-name) ;;
        "$PACKAGES"/*) cp "$PUBLISHED/${word##*/}" . ;;
        *) echo "curl: what is $word?" >&2; exit 2 ;;
    esac
done
"#;

/// Installs what Debian has by doing nothing, and the package by its program.
const APT_GET: &str = r#"#!/bin/sh
set -eu
[ "$*" != update ] || exit 0
[ "$1 $2 $3" = "install --yes --no-install-recommends" ] || { echo "apt-get: $*?" >&2; exit 2; }
shift 3
for package in "$@"; do
    case $package in
        ca-certificates | curl) ;;
        ./kata-configdev-smoke_*.deb)
            [ -f "$package" ] || { echo "apt-get: no $package" >&2; exit 100; }
            cp "$PUBLISHED/program" "$INSTALLED/configdev-smoke" ;;
        *) echo "apt-get: nothing is called $package" >&2; exit 100 ;;
    esac
done
"#;

/// The block of YAML behind this heading.
fn job(heading: &str) -> Result<Value> {
    let behind = PAGE.split_once(&format!("\n{heading}"));
    let (_, behind) = behind.with_context(|| format!("no {heading} on the page"))?;
    let (_, block) = behind.split_once("```yaml\n").context("no YAML")?;
    let (block, _) = block.split_once("```").context("no end of the YAML")?;
    Ok(serde_saphyr::from_str(block)?)
}

/// The texts of a list.
fn texts(list: &Value) -> Vec<String> {
    let items = list.as_array().into_iter().flatten();
    let texts = items.filter_map(|item| item.as_str().map(ToOwned::to_owned));
    texts.collect()
}

/// A folder as a job finds it: the image, and programs that stand for the network.
struct Machine {
    scratch: Scratch,
}

impl Machine {
    fn new() -> Result<Self> {
        let scratch = Scratch::new()?;
        let path = |name: &str| scratch.path().join(name);
        for folder in ["work", "published", "stand-ins", "installed"] {
            fs::create_dir(path(folder))?;
        }
        let image = Image::good()?.with_policy();
        fs::rename(image.write(&scratch)?, path("work/guest.img"))?;
        fs::copy(&Fixture::find()?.kernel, path("work/vmlinuz"))?;
        fs::write(path("published").join(PACKAGE), "a package")?;
        let real = program("configdev-smoke")?;
        let real = format!("#!/bin/sh\nexec '{}' \"$@\" --timeout {TIMEOUT}\n", real.display());
        for (name, text) in
            [("stand-ins/curl", CURL), ("stand-ins/apt-get", APT_GET), ("published/program", &real)]
        {
            fs::write(path(name), text)?;
            fs::set_permissions(path(name), Permissions::from_mode(0o755))?;
        }
        let sums =
            Command::new("sha256sum").arg(PACKAGE).current_dir(path("published")).output()?;
        ensure!(sums.status.success(), "sha256sum: {}", sums.status);
        let other = "0".repeat(64) + "  another-file\n";
        let sums = String::from_utf8(sums.stdout)? + &other;
        fs::write(path("published/SHA256SUMS"), sums)?;
        Ok(Self { scratch })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// Runs a script in the job's folder, with its variables.
    fn run(&self, shell: &[&str], script: &str, variables: &[(String, String)]) -> Result<String> {
        let script = self.scratch.write("script", script)?;
        let mut path = OsString::from(self.path("stand-ins"));
        path.push(":");
        path.push(self.path("installed"));
        path.push(":/usr/sbin:/usr/bin:/sbin:/bin");
        let output = Command::new(shell[0])
            .args(&shell[1..])
            .arg(script)
            .env_clear()
            .env("PATH", path)
            .env("HOME", self.scratch.path())
            .env("PUBLISHED", self.path("published"))
            .env("INSTALLED", self.path("installed"))
            .envs(variables.iter().cloned())
            .current_dir(self.path("work"))
            .output()?;
        let text = [&output.stdout[..], &output.stderr].concat();
        let text = String::from_utf8_lossy(&text).into_owned();
        println!("{text}");
        ensure!(output.status.success(), "{}: {text}", output.status);
        assert_eq!(failed(&text), [""; 0]);
        Ok(text)
    }

    fn read(&self, name: &str) -> Result<String> {
        let path = Path::new("work").join(name);
        fs::read_to_string(self.path(&path.to_string_lossy())).with_context(|| name.to_owned())
    }
}

/// The variables of a mapping.
fn mapping(variables: &Value) -> Vec<(String, String)> {
    let pairs = variables.as_object().into_iter().flatten();
    let pairs = pairs.map(|(name, value)| (name.clone(), value.as_str().unwrap_or("").to_owned()));
    pairs.collect()
}

#[test]
fn the_job_for_github_actions_tries_each_state() -> Result<()> {
    let job = &job("GitHub Actions:")?["jobs"]["smoke"];
    let machine = Machine::new()?;
    let mut said = String::new();
    let steps = job["steps"].as_array().context("no steps")?;
    for step in steps.iter().filter_map(|step| step["run"].as_str()) {
        // A step without `shell`.
        said += &machine.run(&["bash", "-e"], step, &mapping(&job["env"]))?;
    }
    for words in [
        "that of initdata",
        "deny-all, with the reason",
        "mounted as overlay",
        "ready, go: as expected",
        "refused, go: as expected",
        "anonymous, go: as expected",
    ] {
        assert_tells(&said, &[words]);
    }
    for state in ["ready", "refused", "anonymous"] {
        let suite = machine.read(&format!("smoke-{state}.xml"))?;
        assert_tells(&suite, &["failures=\"0\"", "name=\"pull\""]);
    }
    Ok(())
}

#[test]
fn the_job_for_gitlab_takes_the_rust_runtimes_command_line() -> Result<()> {
    let job = &job("GitLab, with")?["smoke"];
    let machine = Machine::new()?;
    // Its runner puts both lists into one script, which ends with the first command that fails.
    let commands = [texts(&job["before_script"]), texts(&job["script"])].concat();
    let script = commands.join("\n") + "\n";
    let shell = ["bash", "-eo", "pipefail"];
    let said = machine.run(&shell, &script, &mapping(&job["variables"]))?;
    assert_tells(&said, &["mounted as overlay", "ready, rs: as expected"]);
    let report = job["artifacts"]["reports"]["junit"].as_str();
    let suite = machine.read(report.context("no report")?)?;
    assert_tells(&suite, &["failures=\"0\"", "name=\"pull\""]);
    Ok(())
}

#[test]
fn the_task_for_tekton_leaves_a_report() -> Result<()> {
    let task = job("Tekton:")?;
    let machine = Machine::new()?;
    for step in task["spec"]["steps"].as_array().context("no steps")? {
        let name = |pair: &Value| pair["name"].as_str().unwrap_or_default().to_owned();
        let value = |pair: &Value| pair["value"].as_str().unwrap_or_default().to_owned();
        let pairs = step["env"].as_array().into_iter().flatten();
        let variables: Vec<_> = pairs.map(|pair| (name(pair), value(pair))).collect();
        let script = step["script"].as_str().context("no script")?;
        // A script without a first line of its own.
        machine.run(&["sh", "-e"], script, &variables)?;
    }
    assert_tells(&machine.read("smoke.xml")?, &["failures=\"0\"", "name=\"pull\""]);
    Ok(())
}

/// A package that is not what the sums say is not installed.
#[test]
fn a_job_ends_with_a_package_of_another_sum() -> Result<()> {
    let job = &job("GitHub Actions:")?["jobs"]["smoke"];
    let machine = Machine::new()?;
    fs::write(machine.path("published").join(PACKAGE), "another package")?;
    let steps = job["steps"].as_array().context("no steps")?;
    let step = steps.iter().find_map(|step| step["run"].as_str());
    let outcome = machine.run(&["bash", "-e"], step.context("no step")?, &mapping(&job["env"]));
    let error = format!("{:#}", outcome.unwrap_err());
    assert_tells(&error, &["FAILED"]);
    assert!(!machine.path("installed/configdev-smoke").exists());
    Ok(())
}

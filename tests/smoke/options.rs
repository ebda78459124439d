//! What a caller may give besides an image, and the limits on a guest.

use std::fs;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use end_to_end::assert_tells;
use rustix::process::{Pid, Signal, geteuid, kill_process};
use vm_harness::fixture::Fixture;
use vm_harness::{Scratch, program};

use crate::smoke::image::Image;
use crate::smoke::{TIMEOUT, failed};

/// Initdata whose policy can be told from all others.
const INITDATA: &str = r#"version = "0.1.0"
algorithm = "sha384"

[data]
"policy.rego" = '''
# the caller's policy
package agent_policy
'''
"#;

/// The program as a user without rights on this machine, with its temporary files in `folder`.
fn without_rights(folder: &Path) -> Result<Command> {
    let path = program("configdev-smoke")?;
    let mut command = if geteuid().is_root() {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-user=12345", "--map-group=12345", "--"]);
        command.arg(path);
        command
    } else {
        Command::new(path)
    };
    fs::create_dir_all(folder)?;
    command.env("TMPDIR", folder);
    command.arg("--kernel").arg(&Fixture::find()?.kernel);
    Ok(command)
}

/// The row of this name.
fn row<'a>(text: &'a str, name: &str) -> Result<&'a str> {
    let mut rows = text.lines().filter(|line| line.split(": ").nth(1) == Some(name));
    rows.next().with_context(|| format!("no row {name}"))
}

#[test]
fn what_the_caller_gives_is_what_the_guest_has() -> Result<()> {
    let scratch = Scratch::new()?;
    let image = Image::good()?.write(&scratch)?;
    let folder = scratch.path().join("temporary");
    let kept = scratch.path().join("console");
    let output = without_rights(&folder)?
        .arg("--initrd")
        .arg(image)
        .arg("--keep-console")
        .arg(&kept)
        .arg("--initdata")
        .arg(scratch.write("initdata.toml", INITDATA)?)
        .args(["--socket", "/run/guest-services/nobody.socket"])
        .args(["--memory", "640", "--timeout", TIMEOUT])
        .args(["--append", "agent.guest_components_procs=none loglevel=7"])
        .output()?;
    let text = [&output.stdout[..], &output.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    println!("{text}");
    // Nobody listens there.
    assert_eq!(failed(&text), ["sockets"]);
    assert_eq!(output.status.code(), Some(4));
    assert_tells(row(&text, "policy")?, &["# the caller's policy"]);
    assert_tells(row(&text, "sockets")?, &["/run/guest-services/nobody.socket"]);

    let console = fs::read_to_string(kept)?;
    assert_tells(&console, &["Booting from ROM", "@@ "]);
    let memory = console.lines().find_map(|line| line.split_once(" Memory: "));
    let (_, memory) = memory.context("the kernel does not tell its memory")?;
    assert_tells(memory, &["K/65"]);
    assert_eq!(fs::read_dir(&folder)?.count(), 0);
    Ok(())
}

/// An image whose first program does nothing for ever.
fn hangs(scratch: &Scratch) -> Result<String> {
    let first = "mkdir -p /proc /sys";
    let image = Image::good()?.replaced(first, &format!("while :; do sleep 1; done\n{first}"))?;
    Ok(image.write(scratch)?.to_string_lossy().into_owned())
}

#[test]
fn a_guest_that_goes_on_for_ever_is_ended() -> Result<()> {
    let scratch = Scratch::new()?;
    let folder = scratch.path().join("temporary");
    let console = scratch.path().join("console");
    let output = without_rights(&folder)?
        .args(["--initrd", &hangs(&scratch)?, "--timeout", "60", "--keep-console"])
        .arg(&console)
        .output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(output.status.code(), Some(124), "{text}");
    assert_tells(row(&text, "boot")?, &["the agent was not done after 60 s"]);
    assert_tells(&fs::read_to_string(&console)?, &["Booting from ROM"]);
    assert_eq!(fs::read_dir(&folder)?.count(), 0);
    Ok(())
}

/// Waits until the guest has said something.
fn wait_for_guest(folder: &Path, child: &mut Child) -> Result<()> {
    let start = Instant::now();
    let speaks = || {
        let folders = fs::read_dir(folder).into_iter().flatten().flatten();
        let consoles = folders.map(|entry| entry.path().join("vm/console.log"));
        consoles.filter_map(|path| fs::metadata(path).ok()).any(|stat| stat.len() > 0)
    };
    while !speaks() {
        ensure!(child.try_wait()?.is_none(), "it ended");
        ensure!(start.elapsed() < Duration::from_secs(300), "no guest");
        sleep(Duration::from_millis(50));
    }
    Ok(())
}

/// Processes whose command line names this folder.
fn processes(folder: &Path) -> usize {
    let name = folder.to_string_lossy().into_owned();
    let all = fs::read_dir("/proc").into_iter().flatten().flatten();
    let lines = all.filter_map(|entry| fs::read(entry.path().join("cmdline")).ok());
    lines.filter(|line| String::from_utf8_lossy(line).contains(&name)).count()
}

#[test]
fn a_signal_leaves_neither_processes_nor_files() -> Result<()> {
    let scratch = Scratch::new()?;
    let image = hangs(&scratch)?;
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let folder = scratch.path().join(format!("temporary-{code}"));
        let mut child = without_rights(&folder)?
            .args(["--initrd", &image, "--timeout", TIMEOUT])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        wait_for_guest(&folder, &mut child)?;
        ensure!(processes(&folder) > 0, "QEMU does not name its files");
        kill_process(Pid::from_child(&child), signal)?;
        assert_eq!(child.wait()?.code(), Some(code));
        assert_eq!(fs::read_dir(&folder)?.count(), 0);
        let start = Instant::now();
        while processes(&folder) > 0 {
            ensure!(start.elapsed() < Duration::from_secs(30), "QEMU is still there");
            sleep(Duration::from_millis(50));
        }
    }
    Ok(())
}

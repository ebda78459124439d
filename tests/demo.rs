//! The demonstration as a newcomer runs it: twice at once, and interrupted.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use vm_harness::Scratch;

fn start(temporary: &Path) -> Result<Child> {
    Ok(Command::new(vm_harness::program("demo")?)
        .env("TMPDIR", temporary)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()?)
}

fn temporary(scratch: &Scratch, name: &str) -> Result<PathBuf> {
    let path = scratch.path().join(name);
    fs::create_dir(&path)?;
    Ok(path)
}

/// Command lines of running processes that mention `path`.
fn processes_in(path: &Path) -> Result<Vec<String>> {
    let path = path.to_string_lossy().into_owned();
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc")? {
        let arguments = fs::read(entry?.path().join("cmdline")).unwrap_or_default();
        let arguments = String::from_utf8_lossy(&arguments).replace('\0', " ");
        if arguments.contains(&path) {
            found.push(arguments);
        }
    }
    Ok(found)
}

#[test]
fn two_at_once_succeed_and_leave_nothing() -> Result<()> {
    let scratch = Scratch::new()?;
    let places = [temporary(&scratch, "one")?, temporary(&scratch, "two")?];
    let children = [start(&places[0])?, start(&places[1])?];
    for (child, place) in children.into_iter().zip(&places) {
        let output = child.wait_with_output()?;
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
        assert!(
            text.contains("Done.")
                && text.contains("digest    sha256:")
                && text.contains("finished after"),
            "{text}"
        );
        assert!(fs::read_dir(place)?.next().is_none(), "files are left in {}", place.display());
        assert_eq!(processes_in(place)?, Vec::<String>::new());
    }
    Ok(())
}

#[test]
fn an_interrupted_run_leaves_nothing() -> Result<()> {
    let scratch = Scratch::new()?;
    let place = temporary(&scratch, "interrupted")?;
    let mut child = start(&place)?;
    let output = BufReader::new(child.stdout.take().context("stdout is a pipe")?);
    let mut lines = output.lines();
    // The VM and the registry are running when the guest has booted.
    let booted = lines
        .any(|line| line.is_ok_and(|line| line.contains("kernel, modules and network are up")));
    assert!(booted, "the guest did not boot");
    assert!(processes_in(&place)?.len() >= 2, "registry and QEMU run");

    let pid = i32::try_from(child.id()).ok().and_then(Pid::from_raw).context("a process number")?;
    kill_process(pid, Signal::INT)?;
    let status = child.wait()?;
    assert_eq!(status.code(), Some(130));
    assert!(fs::read_dir(&place)?.next().is_none(), "files are left");
    // They are killed by then, and take a moment to die.
    let start = Instant::now();
    while !processes_in(&place)?.is_empty() {
        ensure!(start.elapsed() < Duration::from_secs(60), "left: {:?}", processes_in(&place)?);
        sleep(Duration::from_millis(20));
    }
    Ok(())
}

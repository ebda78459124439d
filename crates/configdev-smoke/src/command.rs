//! The program: from the command line to the exit code.

use std::env;
use std::fs;
use std::io::{self, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::{Parser as _, ValueEnum};
use problem::Severity;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use vm_harness::Scratch;

use crate::judge::{self, Case};
use crate::machine::{self, Ended, Parts, UNVERIFIED};
use crate::options::Options;
use crate::seen::Job;
use crate::surroundings::{RELAY, Surroundings, relay};
use crate::verdict::{self, Row, Verdict};
use crate::{image, no_boot, unpack};

/// Lines of the console that are printed where nothing was expected of it.
const TAIL_LINES: usize = 25;

/// Where a package has the programs that are not in `PATH`.
const LIBEXEC: &str = "/usr/libexec/kata-configdev";

/// How long before the limit a pull is given up, in seconds.
const PULL_MARGIN: u64 = 10;

/// Runs the program; the exit code.
#[must_use]
pub fn main() -> u8 {
    let words: Vec<String> = env::args().skip(1).collect();
    if let [command, port] = &words[..]
        && command == RELAY
    {
        return match port.parse().map_err(io::Error::other).and_then(relay) {
            Ok(()) => verdict::FINE,
            Err(_) => verdict::UNAVAILABLE,
        };
    }
    let options = match Options::try_parse() {
        Ok(options) => options,
        Err(error) => {
            let code = if error.use_stderr() { verdict::USAGE } else { verdict::FINE };
            let _ = error.print();
            return code;
        }
    };
    if let Some(problem) = options.problem() {
        complain(&format!("these do not go together: {problem}"));
        return verdict::USAGE;
    }
    let ended = match &options.no_boot {
        Some(root) => judge_files(&options, root),
        None => supervised(options),
    };
    ended.unwrap_or_else(|error| {
        complain(&format!("{error:#}"));
        code_of(&error)
    })
}

/// The exit code for work that was not done.
fn code_of(error: &anyhow::Error) -> u8 {
    match error.to_string().starts_with("failed to read") {
        true => verdict::NO_INPUT,
        false => verdict::UNAVAILABLE,
    }
}

/// Runs the work on a thread of its own, so that a signal ends processes and temporary files too.
fn supervised(options: Options) -> Result<u8> {
    let scratch = Scratch::new()?;
    // A code, or the number of a signal.
    let (sender, events) = mpsc::channel();
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM])?;
    let signalled = sender.clone();
    thread::spawn(move || signals.forever().try_for_each(|number| signalled.send(Err(number))));
    let worker = scratch.clone();
    thread::spawn(move || {
        let end = catch_unwind(AssertUnwindSafe(|| smoke(&options, &worker)));
        sender.send(Ok(end.unwrap_or(Ok(70))))
    });
    let event = events.recv()?;
    scratch.clear();
    event.unwrap_or_else(|number| {
        complain("interrupted; processes and temporary files are gone");
        Ok(128 + u8::try_from(number).unwrap_or(0))
    })
}

/// An image's files, without a boot.
fn judge_files(options: &Options, root: &Path) -> Result<u8> {
    let begin = Instant::now();
    let findings = match no_boot::check(root, options, options.append.as_deref()) {
        Ok(findings) => findings,
        Err(error) => {
            complain(&format!("cannot check the image: {error}"));
            return Ok(verdict::NO_INPUT);
        }
    };
    let (rows, secs) = (verdict::rows(findings).collect(), begin.elapsed().as_secs_f64());
    tell(options, &Verdict { boot: None, rows, is_cut: false, secs }, "")
}

/// One image, from its files to what is told of it.
fn smoke(options: &Options, scratch: &Scratch) -> Result<u8> {
    let begin = Instant::now();
    let kernel = options.kernel.as_deref().context("no kernel")?;
    let initrd = match length(kernel).and_then(|_| initrd(options)) {
        Ok(initrd) => initrd,
        Err(error) => {
            complain(&format!("{error:#}"));
            return Ok(verdict::NO_INPUT);
        }
    };
    ensure!(
        options.qemu.exists(),
        "there is no {}; install QEMU (Debian: qemu-system-x86) or name it with --qemu",
        options.qemu.display()
    );
    let wrapper = program(options, "kata-configdev-qemu")?;
    let agent = program(options, "configdev-smoke-agent")?;
    let findings = findings(options, &initrd, scratch);
    let around = Surroundings::prepare(options, scratch)?;
    let job = Job {
        image: around.image.clone(),
        socket: options.socket.clone(),
        name_server: options.pull.is_some().then(|| "10.0.2.3".to_owned()),
        pull_secs: options.timeout.saturating_sub(PULL_MARGIN).max(5),
    };
    let agent = fs::read(&agent).with_context(|| failed_to_read(&agent))?;
    let whole = image::with_agent(initrd, &options.agent, &agent, &job)?;
    let first = options.root.as_deref().and_then(image::first_program);
    let unverified = options.adds_unverified().then(|| UNVERIFIED.to_owned());
    let parameters = [first, options.append.clone(), unverified];
    let parts = Parts {
        wrapper,
        kernel: kernel.to_owned(),
        initrd: scratch.write("initrd.img", whole)?,
        parameters: parameters.into_iter().flatten().collect(),
    };
    let mut run = machine::run(options, &parts, &around, scratch)?;
    if matches!(&run.ended, Ended::Failed(how, _) if how.starts_with("signal")) {
        complain("QEMU crashed, as it does at times without KVM; once more");
        run = machine::run(options, &parts, &around, scratch)?;
    }
    let rows = judge::judge(&Case { options, around: &around, run: &run });
    let rows = rows.into_iter().chain(findings).collect();
    let boot = Some((word(&options.runtime), word(&options.expect)));
    let secs = begin.elapsed().as_secs_f64();
    tell(options, &Verdict { boot, rows, is_cut: run.is_cut(), secs }, &run.console)
}

/// Prints and writes the verdict; the exit code.
fn tell(options: &Options, verdict: &Verdict, console: &str) -> Result<u8> {
    // A reader who went away is no reason for another exit code.
    let _ = io::stdout().write_all(verdict.text().as_bytes());
    let code = verdict.code();
    if code != verdict::FINE && options.keep_console.is_none() && verdict.boot.is_some() {
        keep(console);
    }
    let junit = options.junit.as_ref().map(|path| (path, verdict.junit()));
    let kept = options.keep_console.as_ref().map(|path| (path, console.to_owned()));
    for (path, text) in junit.into_iter().chain(kept) {
        if let Err(error) = fs::write(path, text) {
            complain(&format!("failed to write {}: {error}", path.display()));
            return Ok(verdict::CANNOT_CREATE);
        }
    }
    Ok(code)
}

/// Leaves the console of a guest that was not as expected in a file of its own, says where, and
/// prints its end.
fn keep(console: &str) {
    let new = tempfile::Builder::new().prefix("configdev-smoke-").suffix(".console").tempfile();
    let kept = new.and_then(|mut file| {
        file.write_all(console.as_bytes())?;
        Ok(file.keep()?.1)
    });
    complain(&match kept {
        Ok(path) => format!("the guest's console is in {}", path.display()),
        Err(error) => format!("the guest's console cannot be kept: {error}"),
    });
    // The stand-in's own words are in the rows.
    let lines = console.lines().filter(|line| !line.trim().is_empty() && !line.starts_with("@@ "));
    let lines: Vec<&str> = lines.collect();
    for line in &lines[lines.len().saturating_sub(TAIL_LINES)..] {
        let _ = writeln!(io::stderr(), "console | {}", foreign_text::one_line(line));
    }
}

fn complain(message: &str) {
    let _ = writeln!(io::stderr(), "configdev-smoke: {message}");
}

fn failed_to_read(path: &Path) -> String {
    format!("failed to read {}", path.display())
}

fn length(path: &Path) -> Result<u64> {
    Ok(fs::metadata(path).with_context(|| failed_to_read(path))?.len())
}

/// The caller's initrd, or one made of the root directory.
fn initrd(options: &Options) -> Result<Vec<u8>> {
    if let Some(root) = &options.root {
        return image::pack(root);
    }
    let path = options.initrd.as_deref().context("no initrd")?;
    ensure!(length(path)? <= image::MAX_BYTES, "{} is larger than 4 GiB", path.display());
    fs::read(path).with_context(|| failed_to_read(path))
}

/// The name of a value, as it is typed.
fn word(value: &impl ValueEnum) -> String {
    let value = value.to_possible_value();
    value.map_or_else(String::new, |value| value.get_name().to_owned())
}

/// What is found without the boot, or why nothing was looked at.
fn findings(options: &Options, initrd: &[u8], scratch: &Scratch) -> Vec<Row> {
    let found = || {
        let root = match &options.root {
            Some(root) => root.clone(),
            None => {
                let root = scratch.path().join("root");
                fs::create_dir(&root)?;
                unpack::unpack(initrd, &root).context("the initrd cannot be looked into")?;
                root
            }
        };
        let parameters = options.append.as_deref().unwrap_or_default();
        anyhow::Ok(no_boot::check(&root, options, Some(parameters))?)
    };
    let found = found().unwrap_or_else(|error| {
        vec![verdict::about_image(Severity::Skipped, format!("not looked at: {error:#}"))]
    });
    verdict::rows(found).collect()
}

/// A program of this project.
fn program(options: &Options, name: &str) -> Result<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = match &options.programs {
        Some(folder) => vec![folder.clone()],
        None => {
            let beside = env::current_exe()?.with_file_name("");
            [beside, LIBEXEC.into()].into_iter().chain(env::split_paths(&path)).collect()
        }
    };
    let found = folders.iter().map(|folder| folder.join(name)).find(|path| path.is_file());
    let path =
        found.with_context(|| format!("there is no {name}; name its folder with --programs"))?;
    // It runs in another directory.
    Ok(path.canonicalize()?)
}

//! The program: from the command line to the exit code.

use std::env;
use std::fs;
use std::io::{self, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;

use anyhow::{Context, Result, ensure};
use clap::{Parser as _, ValueEnum};
use problem::{Finding, Severity};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use vm_harness::Scratch;

use crate::judge::{self, Case};
use crate::machine::{self, Ended, Parts, UNVERIFIED};
use crate::options::Options;
use crate::seen::Job;
use crate::surroundings::{RELAY, Surroundings, relay};
use crate::verdict::{self, Verdict};
use crate::{image, no_boot};

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
        match error.to_string().starts_with("failed to read") {
            true => verdict::NO_INPUT,
            false => verdict::UNAVAILABLE,
        }
    })
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
        let end = catch_unwind(AssertUnwindSafe(|| boot(&options, &worker)));
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
    let mut found = no_boot::check(root, options).context("failed to read the image")?;
    if found.is_empty() {
        let (place, text, remedy) = ("image".to_owned(), "no finding".to_owned(), String::new());
        found.push(Finding { severity: Severity::Ok, id: "image", place, text, remedy });
    }
    let rows = found.into_iter().map(|finding| (verdict::IMAGE, finding)).collect();
    report(options, &Verdict { suite: "configdev-smoke.no-boot".to_owned(), rows })
}

/// One image in a guest, from its files to what is told of it.
fn boot(options: &Options, scratch: &Scratch) -> Result<u8> {
    let named = options.kernel.as_deref().zip(options.initrd.as_deref());
    let (kernel, initrd) = named.context("no kernel, or no initrd")?;
    // The wrapper runs in the bundle, as Kata's does.
    let kernel = kernel.canonicalize().with_context(|| failed_to_read(kernel))?;
    let initrd = fs::read(initrd).with_context(|| failed_to_read(initrd))?;
    ensure!(
        options.qemu.exists(),
        "there is no {}; install QEMU (Debian: qemu-system-x86) or name it with --qemu",
        options.qemu.display()
    );
    let agent = fs::read(program("configdev-smoke-agent")?)?;
    let around = Surroundings::prepare(options, scratch)?;
    let job = Job {
        image: around.image.clone(),
        socket: options.socket.clone(),
        pull_secs: options.timeout.saturating_sub(PULL_MARGIN).max(5),
    };
    let whole = image::with_agent(initrd, &options.agent, &agent, &job)?;
    let unverified = options.adds_unverified().then(|| UNVERIFIED.to_owned());
    let parts = Parts {
        wrapper: program("kata-configdev-qemu")?,
        kernel,
        initrd: scratch.write("initrd.img", whole)?,
        parameters: options.append.clone().into_iter().chain(unverified).collect(),
    };
    let mut run = machine::run(options, &parts, &around, scratch)?;
    if matches!(&run.ended, Ended::Failed(how, _) if how.starts_with("signal")) {
        complain("QEMU crashed, as it does at times without KVM; once more");
        run = machine::run(options, &parts, &around, scratch)?;
    }
    let rows = judge::judge(&Case { options, around: &around, run: &run });
    let (runtime, expect) = (word(&options.runtime), word(&options.expect));
    let suite = format!("configdev-smoke.{runtime}.{expect}");
    let code = report(options, &Verdict { suite, rows })?;
    let not = if code == verdict::FINE { "" } else { "not " };
    if !options.json {
        let _ = writeln!(io::stdout(), "{expect}, {runtime}: {not}as expected, exit code {code}");
    }
    match &options.keep_console {
        Some(path) if !write(path, &run.console) => return Ok(verdict::CANNOT_CREATE),
        None if code != verdict::FINE => print_end(&run.console),
        _ => {}
    }
    Ok(code)
}

/// Prints the verdict, and writes the report; the exit code.
fn report(options: &Options, verdict: &Verdict) -> Result<u8> {
    // A reader who went away is no reason for another exit code.
    let told = if options.json { verdict.json() } else { verdict.text() };
    let _ = io::stdout().write_all(told.as_bytes());
    match &options.junit {
        Some(path) if !write(path, &verdict.junit()) => Ok(verdict::CANNOT_CREATE),
        _ => Ok(verdict.code()),
    }
}

/// Whether a result could be written.
fn write(path: &Path, text: &str) -> bool {
    let written = fs::write(path, text);
    if let Err(error) = &written {
        complain(&format!("failed to write {}: {error}", path.display()));
    }
    written.is_ok()
}

/// Prints the end of what a guest wrote; the stand-in's own words are in the rows.
fn print_end(console: &str) {
    let lines = console.lines().filter(|line| !line.trim().is_empty() && !line.starts_with("@@ "));
    let lines: Vec<&str> = lines.collect();
    for line in &lines[lines.len().saturating_sub(TAIL_LINES)..] {
        let _ = writeln!(io::stderr(), "console | {}", foreign_text::one_line(line));
    }
}

fn complain(message: &str) {
    let _ = writeln!(io::stderr(), "configdev-smoke: {message}");
}

/// How an error begins that ends with 66.
pub fn failed_to_read(path: &Path) -> String {
    format!("failed to read {}", path.display())
}

/// The name of a value, as it is typed.
fn word(value: &impl ValueEnum) -> String {
    let value = value.to_possible_value();
    value.map_or_else(String::new, |value| value.get_name().to_owned())
}

/// A program of this project: beside this one, or where a package has it.
fn program(name: &str) -> Result<PathBuf> {
    let beside = env::current_exe()?.with_file_name(name);
    let found = [beside, Path::new(LIBEXEC).join(name)].into_iter().find(|path| path.is_file());
    found.with_context(|| format!("there is no {name} beside this program, nor in {LIBEXEC}"))
}

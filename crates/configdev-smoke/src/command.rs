//! The program: from the command line to the exit code.

use std::env;
use std::fs;
use std::io::{self, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};
use clap::Parser as _;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use vm_harness::Scratch;

use crate::judge::{self, Case};
use crate::machine::{self, Ended, Parts, Run};
use crate::options::Options;
use crate::output::Told;
use crate::seen::Job;
use crate::surroundings::Surroundings;
use crate::{check_image, exit, image, relay, unpack};

/// Lines of the console that are printed where nothing was expected of it.
const TAIL_LINES: usize = 25;

/// Where a package has the programs that are not in `PATH`.
const LIBEXEC: &str = "/usr/libexec/kata-configdev";

/// How long before the limit a pull is given up, in seconds.
const PULL_MARGIN: u64 = 10;

/// Why the main thread wakes up.
enum Event {
    Finished(u8),
    Signal(i32),
}

/// Runs the program; the exit code.
#[must_use]
pub fn main() -> u8 {
    let words: Vec<String> = env::args().skip(1).collect();
    if let [command, port] = &words[..]
        && command == relay::COMMAND
    {
        return match port.parse().map_err(io::Error::other).and_then(relay::run) {
            Ok(()) => exit::FINE,
            Err(_) => exit::UNAVAILABLE,
        };
    }
    let options = match Options::try_parse() {
        Ok(options) => options,
        Err(error) => {
            let code = if error.use_stderr() { exit::USAGE } else { exit::FINE };
            let _ = error.print();
            return code;
        }
    };
    if let Some(problem) = options.problem() {
        complain(&format!("these do not go together: {problem}"));
        return exit::USAGE;
    }
    supervised(options).unwrap_or_else(|error| {
        complain(&format!("{error:#}"));
        exit::UNAVAILABLE
    })
}

/// Runs the work on a thread of its own, so that a signal ends processes and temporary files too.
fn supervised(options: Options) -> Result<u8> {
    let scratch = Scratch::new()?;
    let (sender, events) = mpsc::channel();
    let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM])?;
    let signalled = sender.clone();
    thread::spawn(move || {
        signals.forever().try_for_each(|number| signalled.send(Event::Signal(number)))
    });
    let worker = scratch.clone();
    thread::spawn(move || {
        let end = catch_unwind(AssertUnwindSafe(|| smoke(&options, &worker)));
        sender.send(Event::Finished(end.unwrap_or(70)))
    });
    let event = events.recv()?;
    scratch.clear();
    Ok(match event {
        Event::Finished(code) => code,
        Event::Signal(number) => {
            complain("interrupted; processes and temporary files are gone");
            128 + u8::try_from(number).unwrap_or(0)
        }
    })
}

/// One image, from its files to what is told of it.
fn smoke(options: &Options, scratch: &Scratch) -> u8 {
    let begin = Instant::now();
    let initrd = match initrd(options) {
        Ok(initrd) => initrd,
        Err(error) => {
            complain(&format!("{error:#}"));
            return exit::NO_INPUT;
        }
    };
    let outcome = boot(options, &initrd, scratch);
    let (rows, code, run) = match outcome {
        Ok(outcome) => outcome,
        Err(error) => {
            complain(&format!("{error:#}"));
            let missing = error.chain().any(|cause| cause.is::<io::Error>());
            return match missing && error.to_string().starts_with("failed to read") {
                true => exit::NO_INPUT,
                false => exit::UNAVAILABLE,
            };
        }
    };
    let told = Told { options, rows: &rows, code, secs: begin.elapsed().as_secs_f64() };
    let text = if options.json { told.json() + "\n" } else { told.text() };
    // A reader who went away is no reason for another exit code.
    let _ = io::stdout().write_all(text.as_bytes());
    let written = write(options, &told, &run);
    if code != exit::FINE && options.keep_console.is_none() {
        keep(&run.console);
        let lines = run.console.lines();
        // The stand-in's own words are in the rows.
        let lines = lines.filter(|line| !line.trim().is_empty() && !line.starts_with("@@ "));
        let lines: Vec<&str> = lines.collect();
        let last = &lines[lines.len().saturating_sub(TAIL_LINES)..];
        for line in last {
            let _ = writeln!(io::stderr(), "console | {}", foreign_text::one_line(line));
        }
    }
    match written {
        Ok(()) => code,
        Err(error) => {
            complain(&format!("{error:#}"));
            exit::CANNOT_CREATE
        }
    }
}

fn write(options: &Options, told: &Told<'_>, run: &Run) -> Result<()> {
    let put = |path: &Path, content: &str| {
        fs::write(path, content).with_context(|| format!("failed to write {}", path.display()))
    };
    if let Some(path) = &options.junit {
        put(path, &told.junit())?;
    }
    if let Some(path) = &options.keep_console {
        put(path, &run.console)?;
    }
    Ok(())
}

/// Leaves the console of a guest that was not as expected in a file of its own, and says where.
fn keep(console: &str) {
    let kept =
        tempfile::Builder::new().prefix("configdev-smoke-").suffix(".console").tempfile().and_then(
            |mut file| {
                file.write_all(console.as_bytes())?;
                Ok(file.keep()?.1)
            },
        );
    complain(&match kept {
        Ok(path) => format!("the guest's console is in {}", path.display()),
        Err(error) => format!("the guest's console cannot be kept: {error}"),
    });
}

fn complain(message: &str) {
    let _ = writeln!(io::stderr(), "configdev-smoke: {message}");
}

/// The caller's initrd, or one made of the root directory.
fn initrd(options: &Options) -> Result<Vec<u8>> {
    let reads = |path: &Path| {
        let stat = fs::metadata(path).with_context(|| format!("failed to read {}", path.display()));
        stat.map(|stat| stat.len())
    };
    reads(&options.kernel)?;
    if let Some(root) = &options.root {
        return image::pack(root);
    }
    let path = options.initrd.as_deref().context("no initrd")?;
    let length = reads(path)?;
    ensure!(length <= image::MAX_BYTES, "{} is larger than 4 GiB", path.display());
    fs::read(path).with_context(|| format!("failed to read {}", path.display()))
}

fn boot(options: &Options, initrd: &[u8], scratch: &Scratch) -> Result<(Vec<judge::Row>, u8, Run)> {
    ensure!(
        options.qemu.exists(),
        "there is no {}; install QEMU (Debian: qemu-system-x86) or name it with --qemu",
        options.qemu.display()
    );
    let wrapper = program(options, "kata-configdev-qemu")?;
    let agent = program(options, "configdev-smoke-agent")?;
    let findings = findings(options, initrd, scratch);
    let around = Surroundings::prepare(options, scratch)?;
    let job = Job {
        image: around.image.clone(),
        socket: options.socket.clone(),
        name_server: options.pull.is_some().then(|| "10.0.2.3".to_owned()),
        pull_secs: options.timeout.saturating_sub(PULL_MARGIN).max(5),
    };
    let agent = fs::read(&agent).with_context(|| format!("failed to read {}", agent.display()))?;
    let whole = image::with_agent(initrd.to_vec(), &options.agent, &agent, &job)?;
    let mut parameters = Vec::new();
    parameters.extend(options.root.as_deref().and_then(image::first_program));
    parameters.extend(Some(options.append.clone()).filter(|text| !text.is_empty()));
    let parts = Parts {
        wrapper: &wrapper,
        relay: &env::current_exe()?,
        initrd: scratch.write("initrd.img", whole)?,
        parameters,
    };
    let start = now();
    let mut run = machine::run(options, &parts, &around, scratch)?;
    if matches!(&run.ended, Ended::Failed(how, _) if how.starts_with("signal")) {
        complain("QEMU crashed, as it does at times without KVM; once more");
        run = machine::run(options, &parts, &around, scratch)?;
    }
    let case = Case {
        expect: options.expect,
        has_initdata: around.initdata.is_some(),
        own_initdata: around.own_initdata,
        adds_unverified: options.adds_unverified(),
        has_document: around.document.is_some(),
        has_image: around.image.is_some(),
        digest: around.digest.clone(),
        secret: around.secret.clone(),
        clock_secs: (start, now()),
        timeout: options.timeout,
    };
    let rows = judge::judge(&case, &run, findings);
    let code = judge::exit_code(&rows, &run.ended);
    Ok((rows, code, run))
}

fn now() -> u64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    now.unwrap_or_default().as_secs()
}

/// What `check-image` says of the image, or why it was not asked.
fn findings(
    options: &Options,
    initrd: &[u8],
    scratch: &Scratch,
) -> Result<Vec<check_image::Finding>, String> {
    let asked = || {
        let checker = program(options, "initdata-processor")?;
        let root = match &options.root {
            Some(root) => root.clone(),
            None => {
                let root = scratch.path().join("root");
                fs::create_dir(&root)?;
                unpack::unpack(initrd, &root).context("the initrd cannot be looked into")?;
                root
            }
        };
        check_image::check(&checker, &root, options, scratch)
    };
    asked().map_err(|error: anyhow::Error| format!("not asked: {error:#}"))
}

/// A program of this project.
fn program(options: &Options, name: &str) -> Result<PathBuf> {
    let folders: Vec<PathBuf> = match &options.programs {
        Some(folder) => vec![folder.clone()],
        None => {
            let here = env::current_exe()?;
            let beside = here.parent().map(Path::to_owned);
            let path = env::var_os("PATH").unwrap_or_default();
            let named = env::split_paths(&path).collect::<Vec<_>>();
            beside.into_iter().chain([LIBEXEC.into()]).chain(named).collect()
        }
    };
    let found = folders.iter().map(|folder| folder.join(name)).find(|path| path.is_file());
    let path =
        found.with_context(|| format!("there is no {name}; name its folder with --programs"))?;
    // It runs in another directory.
    Ok(path.canonicalize()?)
}

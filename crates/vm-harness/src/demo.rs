//! The main job, told to a person: a node's document travels into a VM, and the VM pulls a private
//! image with it.

use std::collections::BTreeMap;
use std::io::{IsTerminal, Write, stdout};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use clap::Parser;

use crate::process::run_checked;
use crate::{Guest, Program, Report, Scratch, Site};

/// Runs the main job on real parts: a registry with a password and a private CA, a VM started as
/// Kata does, a configuration disk, and an image that is pulled, checked and mounted inside the
/// guest.
#[derive(Debug, Parser)]
#[command(name = "hack/demo")]
pub struct Options {
    /// Show the guest's console
    #[arg(short, long)]
    verbose: bool,
}

/// As `println!`, but a reader who went away is no reason to panic.
macro_rules! say {
    ($($words:tt)*) => {
        let _ = writeln!(stdout(), $($words)*);
    };
}

/// Seconds per phase, in order.
#[derive(Debug, Default)]
struct Phases(Vec<(&'static str, f64)>);

/// Runs the job and prints each step.
///
/// # Errors
///
/// Where a step fails, or where the guest's proof does not match what was pushed.
pub fn run(options: &Options, scratch: &Scratch) -> Result<()> {
    let start = Instant::now();
    let mut phases = Phases::default();

    step(
        1,
        "registry",
        "docker-registry with TLS by a private CA and a password; skopeo pushes an image",
    );
    let site = Site::start(scratch)?;
    line(&format!(
        "127.0.0.1:{}, image of {} layers, {}",
        site.registry.port(),
        site.layout.layers.len(),
        site.layout.manifest
    ));
    phases.add("registry", start.elapsed().as_secs_f64());

    step(2, "document", "kata-configdev check, pack, inspect");
    let begin = Instant::now();
    show_document(&site, scratch)?;
    phases.add("document", begin.elapsed().as_secs_f64());

    step(3, "VM", "QEMU with Kata's command line, started through kata-configdev-qemu");
    let scenario = site.scenario();
    let begin = Instant::now();
    let guest = Guest::boot_in(&scenario, scratch.clone())?;
    line(&format!(
        "process {}, initdata disk, {} decoy disks; the configuration disk is in memory only",
        guest.id(),
        scenario.disks.len()
    ));

    step(4, "guest", "boot, verify initdata, copy the configuration, pull");
    let mut progress = Progress::new(options.verbose);
    let report = guest.finish(|console| progress.show(console))?;
    phases.add_guest(&report, begin.elapsed().as_secs_f64());

    step(5, "proof", "digest, mount and every file, compared with what was pushed");
    prove(&site, &report)?;
    summary(&site, &report, &phases, start.elapsed().as_secs_f64());
    Ok(())
}

fn show_document(site: &Site, scratch: &Scratch) -> Result<()> {
    let document = scratch.write("node-imagepuller.toml", site.document())?;
    let document = document.to_string_lossy();
    let image = scratch.path().join("imagepuller.img");
    let image = image.to_string_lossy();
    let program = Program::KataConfigdev.path()?;
    let program = program.to_string_lossy();
    for arguments in [
        vec!["check", &document],
        vec!["pack", "--config", &document, "--output", &image],
        vec!["inspect", &image],
    ] {
        let output = run_checked(scratch, &program, &arguments)?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        ensure!(
            !text.contains(&site.password) && !text.contains(&Site::auth(&site.password)),
            "the output shows the password"
        );
        text.lines().for_each(line);
    }
    Ok(())
}

/// The guest's own words while it works.
struct Progress {
    verbose: bool,
    shown: usize,
}

impl Progress {
    const fn new(verbose: bool) -> Self {
        Self { verbose, shown: 0 }
    }

    fn show(&mut self, console: &str) {
        let Some(new) =
            console.get(self.shown..).and_then(|new| new.rfind('\n').map(|end| &new[..=end]))
        else {
            return;
        };
        self.shown += new.len();
        for text in new.lines() {
            let told = match text
                .trim_end()
                .split_once("@@ ")
                .and_then(|(_, mark)| mark.split_once(' '))
            {
                Some((uptime, mark)) => phase(mark).map(|words| format!("{uptime:>6} s  {words}")),
                None => None,
            };
            if self.verbose {
                line(&format!("console | {}", text.trim_end()));
            }
            if let Some(told) = told {
                line(&told);
            }
        }
    }
}

/// What a mark means to a person; most marks are only for the comparison.
fn phase(mark: &str) -> Option<String> {
    let (name, value) = mark.split_once(' ').unwrap_or((mark, ""));
    Some(match name {
        "booted" => "kernel, modules and network are up".to_owned(),
        "processor" => format!("initdata-processor ended, {value}"),
        "config" => format!("written: {}", value.rsplit(' ').next()?),
        "serving" => "imagepuller listens".to_owned(),
        "pull" => format!("pull ended, {value}"),
        "error" => format!("error: {value}"),
        "run" => format!("a program inside the image says: {value}"),
        _ => return None,
    })
}

/// Compares what the guest reports with what was pushed.
///
/// # Errors
///
/// Where anything differs.
fn prove(site: &Site, report: &Report) -> Result<()> {
    ensure!(
        report.value("pull") == Some("exit 0"),
        "the pull failed: {}",
        report.values("error").collect::<Vec<_>>().join(" ")
    );
    ensure!(
        report.value("answer") == Some(site.layout.manifest.as_str()),
        "the guest answered another digest"
    );
    ensure!(report.value("mount") == Some("1"), "no overlay is mounted");
    let found = files(report)?;
    ensure!(
        found == site.layout.files,
        "the mounted files differ from the pushed ones: {found:#?}"
    );
    ensure!(!report.console.contains(&site.password), "the password is on the console");
    line(&format!("{} files equal in content and mode", found.len()));
    Ok(())
}

/// The regular files that the guest found in the mounted image: path, then mode and SHA-256.
///
/// # Errors
///
/// Where a line of the report is malformed.
pub fn files(report: &Report) -> Result<BTreeMap<String, (u32, String)>> {
    files_of(report, "file")
}

/// The same where a job marks them otherwise, as with a second image.
///
/// # Errors
///
/// Where a line of the report is malformed.
pub fn files_of(report: &Report, mark: &str) -> Result<BTreeMap<String, (u32, String)>> {
    report
        .values(mark)
        .map(|value| {
            let fields: Vec<&str> = value.splitn(5, ' ').collect();
            let [mode, _owner, _links, digest, path] = fields[..] else {
                anyhow::bail!("malformed line {value}");
            };
            let mode = u32::from_str_radix(mode, 8).context("malformed mode")?;
            Ok((path.trim_start_matches("./").to_owned(), (mode, digest.to_owned())))
        })
        .collect()
}

fn summary(site: &Site, report: &Report, phases: &Phases, total: f64) {
    say!("\nDone.");
    say!("  image     {}", site.image());
    say!("  digest    {}", report.value("answer").unwrap_or_default());
    say!("  mounted   /run/kata-containers/{}/rootfs in the guest, overlay", site.scenario().id);
    let files: Vec<&str> = report.values("file").filter_map(|v| v.rsplit(' ').next()).collect();
    say!(
        "  files     {}, first: {}",
        files.len(),
        files.iter().take(4).copied().collect::<Vec<_>>().join(" ")
    );
    // The program's own figure, `NAME: finished after ...`, and the kernel's for the one that goes
    // on.
    say!(
        "  guest     {}",
        report
            .value("cost")
            .filter(|cost| !cost.is_empty())
            .unwrap_or("initdata-processor: no figures")
    );
    if let Some(memory) = report.value("memory") {
        say!("            imagepuller: {memory} after the pull");
    }
    let list: Vec<String> =
        phases.0.iter().map(|(name, secs)| format!("{name} {secs:.1}")).collect();
    say!("  seconds   {}, total {total:.1}", list.join(", "));
}

impl Phases {
    fn add(&mut self, name: &'static str, secs: f64) {
        self.0.push((name, secs));
    }

    /// Splits the VM's time at the guest's marks, which count from the start of its kernel.
    fn add_guest(&mut self, report: &Report, wall_secs: f64) {
        let at = |name| report.uptime_secs(name).unwrap_or_default();
        self.add("VM start", (wall_secs - at("done")).max(0.0));
        self.add("guest boot", at("booted"));
        self.add("processor", at("processor") - at("booted"));
        self.add("pull", at("pull") - at("serving"));
        self.add("proof", at("done") - at("pull"));
    }
}

fn step(number: u32, name: &str, text: &str) {
    let (bold, plain) = if stdout().is_terminal() { ("\x1b[1m", "\x1b[0m") } else { ("", "") };
    say!("\n{bold}[{number}/5] {name}{plain}  {text}");
}

fn line(text: &str) {
    say!("      {text}");
    // Progress is for a person who waits, also behind a pipe.
    let _ = stdout().flush();
}

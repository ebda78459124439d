//! Verifies initdata, then copies the configuration disks into place; see the library.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use initdata_processor::cli::{Cli, Command, USAGE};
use initdata_processor::journal::{Journal, Log};
use initdata_processor::notify::Notifier;
use initdata_processor::paths::Paths;
use initdata_processor::{bug, refresh, run};
use linux_sys::heap;

fn main() -> ExitCode {
    bug::hide_messages();
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version come as errors too; neither is a mistake.
            let code = if error.use_stderr() { USAGE } else { 0 };
            let _ = error.print();
            return ExitCode::from(code);
        }
    };
    let common = cli.common();
    let paths = Paths::below(&common.root);
    let kmsg = match common.log {
        Log::Stderr => None,
        Log::Kmsg => Some(OpenOptions::new().write(true).open(&paths.kmsg)),
    };
    let (mut sink, log): (Box<dyn Write>, Log) = match kmsg {
        Some(Ok(kmsg)) => (Box::new(kmsg), Log::Kmsg),
        _ => (Box::new(io::stderr().lock()), Log::Stderr),
    };
    let mut journal = Journal::new(&mut *sink, log, common.verbose);
    if log != common.log {
        journal.warn(format_args!("{} cannot be opened", paths.kmsg.display()));
    }
    // The configuration may hold passwords, which do not belong in a core file.
    if let Err(error) =
        rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)
    {
        journal.warn(format_args!("core dumps stay possible: {error}"));
    }
    ExitCode::from(match &cli.command {
        None => {
            heap::keep();
            let notifier = Notifier::from_environment(&mut journal);
            let verdict = run(&cli.options(), cli.strict_exit, &mut journal);
            // Without a verdict no unit may start because of this one, whatever the type of this
            // unit.
            notifier.tell(&verdict.summary, verdict.code != 70);
            verdict.code
        }
        Some(Command::Refresh { listen, common }) => {
            refresh::serve(&common.refresh(listen), &mut journal)
        }
    })
}

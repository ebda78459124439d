//! Verifies initdata, then copies the configuration disks into place; see the library.

use std::fs::OpenOptions;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use initdata_processor::cli::{Cli, Command, USAGE};
use initdata_processor::journal::{Journal, Log};
use initdata_processor::paths::Paths;
use initdata_processor::{boot, bug, refresh};
use linux_sys::heap;
use rustix::process::{DumpableBehavior, set_dumpable_behavior};

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
    let kmsg = Paths::below(&common.root).kmsg;
    let opened = match common.log {
        Log::Stderr => None,
        Log::Kmsg => OpenOptions::new().write(true).open(&kmsg).ok(),
    };
    let (mut sink, log): (Box<dyn Write>, Log) = match opened {
        Some(opened) => (Box::new(opened), Log::Kmsg),
        None => (Box::new(io::stderr().lock()), Log::Stderr),
    };
    let mut journal = Journal::new(&mut *sink, log, common.verbose);
    if log != common.log {
        journal.warn(format_args!("{} cannot be opened", kmsg.display()));
    }
    // The configuration may hold passwords, which do not belong in a core file.
    if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        journal.warn(format_args!("core dumps stay possible: {error}"));
    }
    ExitCode::from(match &cli.command {
        None => {
            heap::keep();
            boot::run(&common.boot(), &mut journal)
        }
        Some(Command::Refresh { listen, common }) => {
            refresh::serve(&common.refresh(listen), &mut journal)
        }
    })
}

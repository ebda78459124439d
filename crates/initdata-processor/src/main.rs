//! Verifies initdata, then copies the configuration disk into place; see the library.

use std::io;
use std::process::ExitCode;

use clap::Parser;
use initdata_processor::bug;
use initdata_processor::cli::{Cli, USAGE};
use initdata_processor::journal::Journal;

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
    let mut stderr = io::stderr().lock();
    let mut journal = Journal::new(&mut stderr, cli.verbose);
    // The configuration may hold passwords, which do not belong in a core file.
    if let Err(error) =
        rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)
    {
        journal.warn(format_args!("core dumps stay possible: {error}"));
    }
    let outcome = initdata_processor::run(&cli.options(), &mut journal);
    ExitCode::from(outcome.exit_code(cli.strict_exit))
}

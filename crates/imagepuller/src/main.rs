//! `imagepuller`: see the library for what it does.

use std::process::ExitCode;
use std::time::Duration;

use imagepuller::cli::{self, Cli, EX_USAGE};
use rustix::process::{DumpableBehavior, set_dumpable_behavior};

/// How long threads with file system work get to end when the program ends.
const BLOCKING_TIMEOUT: Duration = Duration::from_secs(2);

fn main() -> ExitCode {
    let arguments = match Cli::read(std::env::args_os()) {
        Ok(arguments) => arguments,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() { ExitCode::from(EX_USAGE) } else { ExitCode::SUCCESS };
        }
    };
    arguments.start_logging();
    // The passwords and keys of the documents do not belong in a core file.
    if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        tracing::warn!(%error, "core dumps stay possible");
    }
    linux_sys::heap::share_arenas();
    match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => {
            let code = runtime.block_on(cli::run(arguments));
            // A thread may be in the middle of a large file; what it leaves behind is cleared at
            // the next start.
            runtime.shutdown_timeout(BLOCKING_TIMEOUT);
            code
        }
        Err(error) => {
            eprintln!("imagepuller: failed to start: {error}");
            ExitCode::from(70)
        }
    }
}

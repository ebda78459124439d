//! The main job on real parts, from a node's document to an image mounted inside a VM; `hack/demo`
//! builds and calls it.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::mpsc;
use std::thread;

use anyhow::{Result, anyhow};
use clap::Parser;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use vm_harness::Scratch;
use vm_harness::demo::{self, Options};

/// Why the main thread wakes up.
enum Event {
    Finished(Result<()>),
    Signal(i32),
}

fn main() -> Result<ExitCode> {
    let options = Options::parse();
    let scratch = Scratch::new()?;
    let (sender, events) = mpsc::channel();

    let mut signals = Signals::new([SIGHUP, SIGINT, SIGTERM])?;
    let signalled = sender.clone();
    thread::spawn(move || signals.forever().try_for_each(|n| signalled.send(Event::Signal(n))));
    let worker = scratch.clone();
    thread::spawn(move || {
        // The signal thread keeps the channel open, so a panic must be told like any other end.
        let result = catch_unwind(AssertUnwindSafe(|| demo::run(&options, &worker)))
            .unwrap_or_else(|_| Err(anyhow!("internal error, see above")));
        sender.send(Event::Finished(result))
    });

    let event = events.recv()?;
    scratch.clear();
    match event {
        Event::Finished(Ok(())) => Ok(ExitCode::SUCCESS),
        Event::Finished(Err(error)) => {
            eprintln!("\ndemo: {error:#}");
            Ok(ExitCode::FAILURE)
        }
        Event::Signal(number) => {
            eprintln!("\ndemo: interrupted; processes stopped, temporary files removed");
            Ok(ExitCode::from(128 + u8::try_from(number).unwrap_or(0)))
        }
    }
}

//! `guest-resources`: what gives a test guest its secrets, in the guest.
//!
//! It serves the secrets of a file (the form of `offline_fs_kbc`) as a confidential data hub would,
//! and says on standard output what it was asked.

use std::path::PathBuf;
use std::thread::sleep;
use std::time::Duration;

use anyhow::Result;
use clap::Parser;
use confidential_fixtures::{DataHub, Vault};

/// Serves the secrets of a file as a confidential data hub (ttrpc).
#[derive(Debug, Parser)]
struct Arguments {
    /// The file: a JSON object of paths and base64.
    file: PathBuf,
    /// The socket.
    socket: PathBuf,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let hub = DataHub::start(&arguments.socket, Vault::load(&arguments.file)?)?;
    let mut said = 0;
    loop {
        let all = hub.asked();
        for what in &all[said..] {
            println!("guest-resources: asked for {what}");
        }
        said = all.len();
        sleep(Duration::from_millis(20));
    }
}

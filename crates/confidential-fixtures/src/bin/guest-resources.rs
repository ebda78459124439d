//! `guest-resources`: what gives a test guest its secrets, in the guest.
//!
//! It serves the secrets of a file (the form of `offline_fs_kbc`) as a confidential data hub or as
//! the REST gateway would, and says on standard output what it was asked.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::Duration;

use anyhow::Result;
use clap::{Parser, Subcommand};
use confidential_fixtures::{DataHub, Gateway, Vault};

/// Serves the secrets of a file.
#[derive(Debug, Parser)]
struct Arguments {
    /// The file: a JSON object of paths and base64.
    file: PathBuf,
    #[command(subcommand)]
    service: Service,
}

#[derive(Debug, Subcommand)]
enum Service {
    /// As a confidential data hub (ttrpc).
    Hub {
        /// The socket.
        socket: PathBuf,
    },
    /// As the REST gateway.
    Gateway {
        /// The address, `127.0.0.1:8006`.
        address: SocketAddr,
    },
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let vault = Vault::load(&arguments.file)?;
    let asked: Box<dyn Fn() -> Vec<String>> = match arguments.service {
        Service::Hub { socket } => {
            let hub = DataHub::start(&socket, vault)?;
            Box::new(move || hub.asked())
        }
        Service::Gateway { address } => {
            let gateway = Gateway::start(address, vault)?;
            Box::new(move || {
                let asked = gateway.requests().into_iter();
                asked.map(|asked| asked.target).collect()
            })
        }
    };
    let mut said = 0;
    loop {
        let all = asked();
        for what in &all[said..] {
            println!("guest-resources: asked for {what}");
        }
        said = all.len();
        sleep(Duration::from_millis(20));
    }
}

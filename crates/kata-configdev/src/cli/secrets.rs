//! `kata-configdev secrets`: the cluster's side of secrets for image pulls.

mod combine;

use std::io::Write;

use clap::{Args, Subcommand};

use crate::cli::CommandError;

/// Works on the manifests of secrets for image pulls, for clusters without secretgen-controller.
#[derive(Args, Debug)]
#[command(verbatim_doc_comment)]
pub struct Secrets {
    #[command(subcommand)]
    work: Work,
}

#[derive(Debug, Subcommand)]
enum Work {
    Combine(combine::Arguments),
}

/// Does what `arguments` ask for.
pub fn run(arguments: &Secrets, out: &mut impl Write) -> Result<u8, CommandError> {
    match &arguments.work {
        Work::Combine(arguments) => combine::run(arguments, out),
    }
}

//! What pulling an image costs, ours against Debian's tools and against what the machine can do;
//! `hack/bench pull` calls it.
//!
//! Every run starts on a fresh file system, pulls from a `docker-registry` on loopback whose blobs
//! are in the page cache, and is measured from outside. The tools take turns, round by round, so
//! that whatever else the machine does meets all of them. Nothing is asserted; a tool that fails is
//! shown with its reason. Progress on stderr, tables on stdout.
//!
//! - [`options`]: what to measure.
//! - [`corpus`], [`encryption`], [`server`]: the images, the same encrypted, and who serves them.
//! - [`way`]: what lies between a tool and the registry.
//! - [`ground`]: fresh file systems.
//! - [`measure`], [`daemon`], [`machine`]: seconds, CPU, memory; and whether somebody else was
//!   using the machine.
//! - [`peer`], [`job`]: the tools and what they are given to do. [`service`]: what only a service has.
//! - [`stage`], [`bound`]: the parts of a pull alone, and what follows from them.
//! - [`rounds`], [`table`]: the runs and their medians.

mod bound;
mod corpus;
mod daemon;
mod encryption;
mod ground;
mod job;
mod machine;
mod measure;
mod options;
mod peer;
mod rounds;
mod server;
mod service;
mod stage;
mod table;
mod way;

use anyhow::{Context, Result};
use clap::Parser;

use options::{Invocation, Options};

fn main() -> Result<()> {
    match Invocation::parse() {
        Invocation::Run(options) => run(&options),
        Invocation::Measure { report, command } => measure::measure(&report, &command),
        Invocation::Stage { kind, report, layers } => stage::run(kind, &report, &layers),
    }
}

fn run(options: &Options) -> Result<()> {
    let mut images = corpus::open(options)?;
    let servers = server::Servers::start(&options.work, &options.ways())?;
    let server = servers.plain();
    corpus::push(&images, server, &options.work)?;
    if options.encrypted {
        let encrypted = encryption::push(&images, server)?;
        images.extend(encrypted);
    }
    let peers = options.peers()?;
    println!("{}", table::heading(options, &peers));

    let mut record = rounds::Record::default();
    let are_plain = |image: &&corpus::Image| !options.no_bound && !image.is_encrypted;
    for image in images.iter().filter(are_plain) {
        eprintln!("{}: the bound", image.title());
        for ground in &options.fs {
            let bound = bound::measure(options, server, image, *ground)
                .with_context(|| format!("failed to measure the bound of {}", image.title()))?;
            record.bounds.push(bound);
        }
    }
    rounds::run(options, &servers, &images, &peers, &mut record)?;
    for place in rounds::Place::all(options) {
        if place.way.is_line() {
            print!("{}", table::line::pulls(&record, &images, &peers, place));
            continue;
        }
        print!("{}", table::pulls(&record, &images, &peers, place));
        if options.encrypted {
            print!("{}", table::decryption(&record, &images, &peers, place));
        }
    }
    for ground in options.fs.iter().filter(|_| !options.no_bound) {
        print!("{}", table::bounds(&record, &images, *ground));
    }
    if options.service {
        let figures = service::measure(options, &servers, &images, &peers)?;
        print!("{}", table::services(&figures));
        record.services = figures;
    }
    record.save(options)
}

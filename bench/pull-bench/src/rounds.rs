//! All runs, in turns.

use std::fs;

use anyhow::{Context, Result};
use line_emulator::Counts;
use serde::Serialize;

use crate::bound::Bound;
use crate::corpus::Image;
use crate::ground::Ground;
use crate::job::Job;
use crate::machine::{self, Others, QUIET};
use crate::measure::Cost;
use crate::options::{FileSystem, Options};
use crate::peer::Peer;
use crate::server::Servers;
use crate::service::Figures;
use crate::way::Way;

/// Everything that was measured.
#[derive(Debug, Default, Serialize)]
pub struct Record {
    /// The parts of each image's pull.
    pub bounds: Vec<Bound>,
    /// The pulls.
    pub runs: Vec<Run>,
    /// The services.
    pub services: Vec<Figures>,
}

impl Record {
    /// Writes it to the file of `--json`, if there is one.
    pub fn save(&self, options: &Options) -> Result<()> {
        if let Some(path) = &options.json {
            fs::write(path, serde_json::to_string_pretty(self)?)
                .with_context(|| format!("failed to write {}", path.display()))?;
        }
        Ok(())
    }
}

/// Where a tool unpacks, and what it pulls over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Place {
    /// What it is unpacked on.
    pub fs: FileSystem,
    /// What is between tool and registry.
    pub way: Way,
}

impl Place {
    /// All combinations that `options` ask for.
    pub fn all(options: &Options) -> Vec<Self> {
        let ways = options.ways();
        let on = |fs: FileSystem| ways.iter().map(move |way| Self { fs, way: *way });
        options.fs.iter().flat_map(|fs| on(*fs)).collect()
    }

    /// Such as `tmpfs, 50 ms each way`.
    pub fn title(&self) -> String {
        format!("{}, {}", self.fs.name(), self.way.title())
    }
}

/// One pull.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// The tool.
    pub peer: String,
    /// The image.
    pub image: String,
    /// Where.
    pub place: Place,
    /// Counted from 0.
    pub round: usize,
    /// What it cost, or why there is nothing.
    pub outcome: Result<Cost, String>,
    /// The registry's CPU time during it.
    pub server_cpu_secs: f64,
    /// The share of one core that other programs took.
    pub foreign_share: f64,
    /// How many requests the registry had.
    pub requests: u64,
    /// What went over the line, where there was one.
    pub line: Option<Counts>,
    /// Files on the file system afterwards.
    pub files: u64,
}

impl Run {
    /// Whether others used the machine.
    pub fn is_disturbed(&self) -> bool {
        self.foreign_share > QUIET
    }
}

/// Lets every tool pull every image `options.rounds` times.
pub fn run(
    options: &Options,
    servers: &Servers,
    images: &[Image],
    peers: &[Peer],
    record: &mut Record,
) -> Result<()> {
    for round in 0..options.rounds {
        for place in Place::all(options) {
            for image in images {
                // Everybody is first once.
                for turn in 0..peers.len() {
                    let peer = &peers[(turn + round) % peers.len()];
                    if !peer.takes(image) || record.has_failed(peer, image, place) {
                        continue;
                    }
                    let run = quiet(options, servers, image, peer, place, round)?;
                    tell(options, &run);
                    record.runs.push(run);
                }
            }
        }
        // A long run that is broken off has its complete rounds.
        record.save(options)?;
    }
    Ok(())
}

impl Record {
    /// The runs of a tool with an image.
    pub fn of<'a>(
        &'a self,
        peer: &'a Peer,
        image: &Image,
        place: Place,
    ) -> impl Iterator<Item = &'a Run> {
        let title = image.title();
        self.runs
            .iter()
            .filter(move |run| run.peer == peer.name() && run.image == title && run.place == place)
    }

    fn has_failed(&self, peer: &Peer, image: &Image, place: Place) -> bool {
        self.of(peer, image, place).any(|run| run.outcome.is_err())
    }
}

/// One run, repeated as long as others disturb it and the options say so; the least disturbed one
/// counts.
fn quiet(
    options: &Options,
    servers: &Servers,
    image: &Image,
    peer: &Peer,
    place: Place,
    round: usize,
) -> Result<Run> {
    let mut best: Option<Run> = None;
    for _ in 0..=options.retries {
        if options.retries > 0 {
            machine::wait_for_quiet();
        }
        let run = once(options, servers, image, peer, place, round)?;
        let is_good = run.outcome.is_err() || !run.is_disturbed();
        if best.as_ref().is_none_or(|best| run.foreign_share < best.foreign_share) {
            best = Some(run.clone());
        }
        if is_good {
            return Ok(run);
        }
    }
    best.ok_or_else(|| anyhow::anyhow!("no run"))
}

fn once(
    options: &Options,
    servers: &Servers,
    image: &Image,
    peer: &Peer,
    place: Place,
    round: usize,
) -> Result<Run> {
    let ground = Ground::fresh(&options.work, place.fs)?;
    let server = servers.of(place.way.transport);
    let line = place.way.line()?;
    let job = Job {
        server,
        line: line.as_ref(),
        authority: servers.authority(),
        image,
        ground: ground.path(),
        work: &options.work,
    };
    let (before, served) = (server.daemon().cpu_secs(), server.served());
    let others = Others::now();
    let outcome = peer.pull(job).map_err(|error| format!("{error:#}"));
    let (foreign_share, server_cpu_secs) = (others.share(), server.daemon().cpu_secs() - before);
    Ok(Run {
        peer: peer.name().to_owned(),
        image: image.title(),
        place,
        round,
        foreign_share,
        server_cpu_secs,
        requests: server.served_in_all().requests - served.requests,
        line: line.map(|line| line.counts()),
        files: ground.files()?,
        outcome: checked(outcome, ground.files()?, peer, image),
    })
}

/// A tool that succeeds without files did something else.
fn checked(
    outcome: Result<Cost, String>,
    files: u64,
    peer: &Peer,
    image: &Image,
) -> Result<Cost, String> {
    let cost = outcome?;
    if peer.unpacks() && files < image.entries() / 2 {
        return Err(format!("left {files} files of {} entries", image.entries()));
    }
    Ok(cost)
}

fn tell(options: &Options, run: &Run) {
    let outcome = match &run.outcome {
        Ok(cost) => format!(
            "{:.3} s, CPU {:.2} s, {} MiB",
            cost.wall_secs,
            cost.cpu_secs,
            cost.peak_kib >> 10
        ),
        Err(reason) => format!("failed: {reason}"),
    };
    eprintln!(
        "{}/{} {} ({}) {}: {outcome}{}",
        run.round + 1,
        options.rounds,
        run.image,
        run.place.title(),
        run.peer,
        if run.is_disturbed() {
            format!(" (others took {:.2} of a core)", run.foreign_share)
        } else {
            String::new()
        }
    );
}

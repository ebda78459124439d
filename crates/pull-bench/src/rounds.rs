//! All runs, in turns.

use anyhow::Result;
use serde::Serialize;

use crate::bound::Bound;
use crate::corpus::Image;
use crate::ground::Ground;
use crate::machine::{self, Others, QUIET};
use crate::measure::Cost;
use crate::options::{FileSystem, Options};
use crate::peer::{Job, Peer};
use crate::server::Server;
use crate::service::Figures;

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

/// One pull.
#[derive(Clone, Debug, Serialize)]
pub struct Run {
    /// The tool.
    pub peer: String,
    /// The image.
    pub image: String,
    /// What it was unpacked on.
    pub fs: FileSystem,
    /// Counted from 0.
    pub round: usize,
    /// What it cost, or why there is nothing.
    pub outcome: Result<Cost, String>,
    /// The registry's CPU time during it.
    pub server_cpu_secs: f64,
    /// The share of one core that other programs took.
    pub foreign_share: f64,
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
    server: &Server,
    images: &[Image],
    peers: &[Peer],
    record: &mut Record,
) -> Result<()> {
    for round in 0..options.rounds {
        for fs in &options.fs {
            for image in images {
                // Everybody is first once.
                for turn in 0..peers.len() {
                    let peer = &peers[(turn + round) % peers.len()];
                    if !peer.takes(image) || record.has_failed(peer, image, *fs) {
                        continue;
                    }
                    let run = quiet(options, server, image, peer, *fs, round)?;
                    tell(options, &run);
                    record.runs.push(run);
                }
            }
        }
    }
    Ok(())
}

impl Record {
    /// The runs of a tool with an image.
    pub fn of<'a>(
        &'a self,
        peer: &'a Peer,
        image: &Image,
        fs: FileSystem,
    ) -> impl Iterator<Item = &'a Run> {
        let title = image.title();
        self.runs
            .iter()
            .filter(move |run| run.peer == peer.name() && run.image == title && run.fs == fs)
    }

    fn has_failed(&self, peer: &Peer, image: &Image, fs: FileSystem) -> bool {
        self.of(peer, image, fs).any(|run| run.outcome.is_err())
    }
}

/// One run, repeated as long as others disturb it and the options say so; the least disturbed one
/// counts.
fn quiet(
    options: &Options,
    server: &Server,
    image: &Image,
    peer: &Peer,
    fs: FileSystem,
    round: usize,
) -> Result<Run> {
    let mut best: Option<Run> = None;
    for _ in 0..=options.retries {
        if options.retries > 0 {
            machine::wait_for_quiet();
        }
        let run = once(options, server, image, peer, fs, round)?;
        let is_good = run.outcome.is_err() || !run.is_disturbed();
        if best
            .as_ref()
            .is_none_or(|best| run.foreign_share < best.foreign_share)
        {
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
    server: &Server,
    image: &Image,
    peer: &Peer,
    fs: FileSystem,
    round: usize,
) -> Result<Run> {
    let ground = Ground::fresh(&options.work, fs)?;
    let job = Job {
        server,
        image,
        ground: ground.path(),
        work: &options.work,
    };
    let before = server.daemon().cpu_secs();
    let others = Others::now();
    let outcome = peer.pull(job).map_err(|error| format!("{error:#}"));
    Ok(Run {
        peer: peer.name().to_owned(),
        image: image.title(),
        fs,
        round,
        foreign_share: others.share(),
        server_cpu_secs: server.daemon().cpu_secs() - before,
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
        "{}/{} {} {} {}: {outcome}{}",
        run.round + 1,
        options.rounds,
        run.image,
        run.fs.name(),
        run.peer,
        if run.is_disturbed() {
            format!(" (others took {:.2} of a core)", run.foreign_share)
        } else {
            String::new()
        }
    );
}

//! What the machine could do at best: the parts of a pull measured alone, added up as if nothing
//! ever waited.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;
use serde::Serialize;

use crate::corpus::{Image, Layer};
use crate::ground::Ground;
use crate::machine;
use crate::measure::{checked, cost};
use crate::options::{FileSystem, Format, Options};
use crate::server::Server;
use crate::stage::Part;

/// Each part is measured as often, and the cheapest counts.
const REPEATS: usize = 3;

/// The parts of one image's pull.
#[derive(Clone, Debug, Serialize)]
pub struct Bound {
    /// The image.
    pub image: String,
    /// The file system that the writing was measured on.
    pub fs: FileSystem,
    /// Receiving.
    pub download: Stage,
    /// The registry's CPU time for it.
    pub server_cpu_secs: f64,
    /// SHA-256 of the blobs.
    pub hash_blob: Stage,
    /// Inflating as the puller does it.
    pub inflate: Stage,
    /// Inflating with the fastest program that Debian has, if there is one for this format.
    pub igzip: Option<Stage>,
    /// SHA-256 of the plain tars.
    pub hash_plain: Stage,
    /// Files from the plain tars.
    pub write: Stage,
}

/// One part, for all layers.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Stage {
    /// All layers' CPU time.
    pub cpu_secs: f64,
    /// The longest layer's time. That is CPU time as well where nothing is waited for: what others
    /// do then does not show in it.
    pub longest_secs: f64,
}

impl Stage {
    fn of(parts: &[Part], longest: fn(&Part) -> f64) -> Self {
        Self {
            cpu_secs: parts.iter().map(|part| part.cpu_secs).sum(),
            longest_secs: parts.iter().map(longest).fold(0.0, f64::max),
        }
    }

    fn cheaper(self, other: Self) -> Self {
        Self {
            cpu_secs: self.cpu_secs.min(other.cpu_secs),
            longest_secs: self.longest_secs.min(other.longest_secs),
        }
    }
}

impl Bound {
    /// CPU seconds of everything, the registry's included.
    pub fn cpu_secs(&self, inflate: Stage) -> f64 {
        let stages = [self.download, self.hash_blob, inflate, self.hash_plain, self.write];
        self.server_cpu_secs + stages.iter().map(|stage| stage.cpu_secs).sum::<f64>()
    }

    /// The larger of the longest stage of one layer, and all work over all cores.
    pub fn secs(&self, inflate: Stage) -> f64 {
        let stages = [self.download, self.hash_blob, inflate, self.hash_plain, self.write];
        let longest = stages.iter().map(|stage| stage.longest_secs).fold(0.0, f64::max);
        longest.max(self.cpu_secs(inflate) / machine::cores() as f64)
    }
}

/// Measures all parts of `image`; the writing on `fs`.
pub fn measure(options: &Options, server: &Server, image: &Image, fs: FileSystem) -> Result<Bound> {
    let stage = |kind: &str, layers: &[PathBuf]| stage(options, kind, layers);
    let blobs = paths(image, |layer| layer.blob.clone());
    let plain = paths(image, |layer| layer.plain.clone());
    let urls = paths(image, |layer| {
        format!("{}/v2/{}/blobs/{}", server.address(), image.name, layer.digest).into()
    });

    let before = server.daemon().cpu_secs();
    let download = stage("download", &urls)?;
    let server_cpu_secs = (server.daemon().cpu_secs() - before) / REPEATS as f64;
    Ok(Bound {
        image: image.title(),
        fs,
        download,
        server_cpu_secs,
        hash_blob: stage("hash", &blobs)?,
        inflate: stage("inflate", &blobs)?,
        igzip: if image.format == Format::Gz { igzip(options, &blobs) } else { None },
        hash_plain: stage("hash", &plain)?,
        write: write(options, fs, &plain)?,
    })
}

fn paths(image: &Image, path: impl Fn(&Layer) -> PathBuf) -> Vec<PathBuf> {
    image.layers.iter().map(path).collect()
}

fn stage(options: &Options, kind: &str, layers: &[PathBuf]) -> Result<Stage> {
    let mut best = once(options, kind, layers)?;
    for _ in 1..REPEATS {
        best = best.cheaper(once(options, kind, layers)?);
    }
    Ok(best)
}

/// In a process of its own: its memory is not this one's, which must stay small.
fn once(options: &Options, kind: &str, layers: &[PathBuf]) -> Result<Stage> {
    let report = options.work.join("stage.json");
    let mut command = Command::new(std::env::current_exe()?);
    checked(command.arg("stage").arg(kind).arg(&report).args(layers))?;
    let parts: Vec<Part> = serde_json::from_slice(&fs::read(&report)?)?;
    // Only the receiver waits, for the registry.
    Ok(match kind {
        "download" => Stage::of(&parts, |part| part.wall_secs),
        _ => Stage::of(&parts, |part| part.cpu_secs),
    })
}

fn write(options: &Options, fs: FileSystem, plain: &[PathBuf]) -> Result<Stage> {
    let mut best: Option<Stage> = None;
    for _ in 0..REPEATS {
        let ground = Ground::fresh(&options.work, fs)?;
        let mut arguments = vec![ground.path().join("tree")];
        arguments.extend_from_slice(plain);
        let stage = once(options, "write", &arguments)?;
        best = Some(best.map_or(stage, |best| best.cheaper(stage)));
    }
    Ok(best.unwrap_or_default())
}

fn igzip(options: &Options, blobs: &[PathBuf]) -> Option<Stage> {
    let once = || {
        let parts: Option<Vec<Part>> = blobs
            .iter()
            .map(|blob| {
                let mut command = Command::new("sh");
                command.args(["-c", "exec igzip -d -c \"$0\" >/dev/null"]).arg(blob);
                let cost = cost(&command, &options.work).ok()?;
                Some(Part { wall_secs: cost.wall_secs, cpu_secs: cost.cpu_secs })
            })
            .collect();
        Some(Stage::of(&parts?, |part| part.cpu_secs))
    };
    (1..REPEATS).try_fold(once()?, |best, _| Some(best.cheaper(once()?)))
}

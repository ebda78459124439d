//! What only a service has: memory while it waits, and a second pull of what is being pulled or was
//! pulled.

use std::time::Duration;

use anyhow::{Result, anyhow};
use serde::Serialize;

use crate::corpus::Image;
use crate::ground::Ground;
use crate::job::Job;
use crate::measure::cost;
use crate::options::{Mode, Options};
use crate::peer::{Ours, Peer};
use crate::server::Servers;

/// How often everything is measured; the medians count.
const REPEATS: usize = 3;

/// After that long nothing of a pull is left: half a second after the last one a service gives
/// memory back.
const IDLE: Duration = Duration::from_secs(2);

/// The figures of one service with one image.
#[derive(Clone, Debug, Serialize)]
pub struct Figures {
    /// The build.
    pub name: String,
    /// The image.
    pub image: String,
    /// Resident after the start, before any pull.
    pub idle_kib: u64,
    /// Resident when it waits again.
    pub after_kib: u64,
    /// One pull.
    pub one: Served,
    /// Two at the same time; until both are done.
    pub two: Served,
    /// One more of what is there.
    pub again: Served,
}

/// How long it took, and what the registry sent for it.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Served {
    /// Until the last client had its answer.
    pub wall_secs: f64,
    /// Bodies.
    pub sent_bytes: u64,
}

/// Measures all services of `peers` with all images.
pub fn measure(
    options: &Options,
    servers: &Servers,
    images: &[Image],
    peers: &[Peer],
) -> Result<Vec<Figures>> {
    let mut all = Vec::new();
    for peer in peers {
        let Peer::Ours(ours) = peer else { continue };
        if ours.mode != Mode::Service {
            continue;
        }
        for image in images {
            let mut figures = (0..REPEATS)
                .map(|_| once(options, servers, image, ours))
                .collect::<Result<Vec<_>>>()?;
            figures.sort_by(|a, b| a.two.wall_secs.total_cmp(&b.two.wall_secs));
            all.push(figures.swap_remove(figures.len() / 2));
        }
    }
    Ok(all)
}

fn once(options: &Options, servers: &Servers, image: &Image, ours: &Ours) -> Result<Figures> {
    let (one, again, idle_kib, after_kib) = on_fresh(options, servers, image, |job| {
        let (daemon, socket) = ours.serve(job)?;
        std::thread::sleep(Duration::from_millis(300));
        let idle_kib = daemon.resident_kib();
        let pull = |bundle: &str| {
            let before = job.server.served().sent_bytes;
            let cost = cost(&ours.request(job, &socket, bundle)?, job.work)?;
            Ok::<_, anyhow::Error>(Served {
                wall_secs: cost.wall_secs,
                sent_bytes: job.server.served_in_all().sent_bytes - before,
            })
        };
        let (one, again) = (pull("one")?, pull("two")?);
        std::thread::sleep(IDLE);
        Ok((one, again, idle_kib, daemon.resident_kib()))
    })?;
    let two = on_fresh(options, servers, image, |job| {
        let (_daemon, socket) = ours.serve(job)?;
        let before = job.server.served().sent_bytes;
        let start = std::time::Instant::now();
        let clients = ["one", "two"].map(|bundle| {
            anyhow::Ok(
                ours.request(job, &socket, bundle)?.stdout(std::process::Stdio::null()).spawn()?,
            )
        });
        for client in clients {
            if !client?.wait()?.success() {
                return Err(anyhow!("one of two requests at once failed"));
            }
        }
        Ok(Served {
            wall_secs: start.elapsed().as_secs_f64(),
            sent_bytes: job.server.served_in_all().sent_bytes - before,
        })
    })?;
    Ok(Figures {
        name: ours.name.clone(),
        image: image.title(),
        idle_kib,
        after_kib,
        one,
        two,
        again,
    })
}

fn on_fresh<T>(
    options: &Options,
    servers: &Servers,
    image: &Image,
    run: impl FnOnce(Job<'_>) -> Result<T>,
) -> Result<T> {
    let fs = *options.fs.first().ok_or_else(|| anyhow!("no file system"))?;
    let ground = Ground::fresh(&options.work, fs)?;
    run(Job {
        server: servers.plain(),
        line: None,
        authority: servers.authority(),
        image,
        ground: ground.path(),
        work: &options.work,
    })
}

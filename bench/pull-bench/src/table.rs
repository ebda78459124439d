//! Medians as Markdown.

pub mod line;

use std::fmt::Write as _;

use crate::bound::Bound;
use crate::corpus::Image;
use crate::machine;
use crate::measure::Cost;
use crate::options::{FileSystem, Options};
use crate::peer::Peer;
use crate::rounds::{Place, Record, Run};
use crate::service::Figures;

/// What the heading of each table of pulls begins with; the place follows. `bench/plot` reads it.
const PULLS: &str = "## Pull, verify, unpack on ";

/// What was measured where.
pub fn heading(options: &Options, peers: &[Peer]) -> String {
    let mut text = format!(
        "{}. {} rounds, medians.\nRegistry on the same cores, blobs in the page cache.\n\n",
        machine::description(),
        options.rounds
    );
    for peer in peers {
        let _ = writeln!(text, "- {}", peer.version());
    }
    text
}

/// The pulls on one file system without a line.
pub fn pulls(record: &Record, images: &[Image], peers: &[Peer], place: Place) -> String {
    let mut text = format!(
        "\n{PULLS}{}\n\n\
         | image | tool | wall s | (least, most) | CPU s | cores busy (with the registry) | peak \
         MiB | of the fastest peer | of the bound | disturbed |\n\
         |---|---|---|---|---|---|---|---|---|---|\n",
        place.title()
    );
    for image in images {
        let bound = bound_of(record, image, place.fs).map(|bound| bound.secs(bound.inflate));
        let fastest = fastest(record, image, peers, place);
        for peer in peers.iter().filter(|peer| peer.takes(image)) {
            let _ = writeln!(text, "{}", row(record, image, peer, place, fastest, bound));
        }
    }
    text
}

/// The wall time of the fastest tool that is not ours and unpacks.
fn fastest(record: &Record, image: &Image, peers: &[Peer], place: Place) -> Option<f64> {
    peers
        .iter()
        .filter(|peer| !peer.is_ours() && peer.unpacks())
        .filter_map(|peer| median(record, peer, image, place))
        .map(|cost| cost.wall_secs)
        .min_by(f64::total_cmp)
}

fn row(
    record: &Record,
    image: &Image,
    peer: &Peer,
    place: Place,
    fastest: Option<f64>,
    bound: Option<f64>,
) -> String {
    let runs: Vec<_> = record.of(peer, image, place).collect();
    let Some(cost) = median(record, peer, image, place) else {
        return failed(image, peer, &runs, 7);
    };
    let served = middle(runs.iter().map(|run| run.server_cpu_secs)).unwrap_or_default();
    let ratio =
        |of: Option<f64>| of.map_or("-".to_owned(), |of| format!("{:.2}", cost.wall_secs / of));
    format!(
        "| {} | {} | {:.3} | ({:.3}, {:.3}) | {:.2} | {:.2} ({:.2}) | {:.1} | {} | {} | {} of {} |",
        image.title(),
        peer.name(),
        cost.wall_secs,
        least(&runs),
        most(&runs),
        cost.cpu_secs,
        cost.cpu_secs / cost.wall_secs,
        (cost.cpu_secs + served) / cost.wall_secs,
        cost.peak_kib as f64 / 1024.0,
        ratio(fastest),
        ratio(bound),
        runs.iter().filter(|run| run.is_disturbed()).count(),
        runs.len(),
    )
}

/// The row of a tool that did not do it, with so many empty columns.
fn failed(image: &Image, peer: &Peer, runs: &[&Run], columns: usize) -> String {
    let reason = runs.iter().find_map(|run| run.outcome.as_ref().err());
    format!(
        "| {} | {} | failed: {} |{}",
        image.title(),
        peer.name(),
        reason.map_or("never ran", |reason| reason),
        " |".repeat(columns)
    )
}

fn walls<'a>(runs: &'a [&Run]) -> impl Iterator<Item = f64> + 'a {
    runs.iter().filter_map(|run| Some(run.outcome.as_ref().ok()?.wall_secs))
}

fn least(runs: &[&Run]) -> f64 {
    walls(runs).fold(f64::INFINITY, f64::min)
}

fn most(runs: &[&Run]) -> f64 {
    walls(runs).fold(0.0, f64::max)
}

/// What encryption costs each tool: encrypted images against the same without.
pub fn decryption(record: &Record, images: &[Image], peers: &[Peer], place: Place) -> String {
    let mut text = format!(
        "\n## Encrypted layers on {}\n\n\
         | image | tool | plain: wall s | CPU s | encrypted: wall s | CPU s | peak MiB | wall of \
         plain | CPU of plain | wall of skopeo |\n\
         |---|---|---|---|---|---|---|---|---|---|\n",
        place.title()
    );
    for image in images.iter().filter(|image| image.is_encrypted) {
        let is_same = |other: &&Image| {
            !other.is_encrypted && (&other.name, other.format) == (&image.name, image.format)
        };
        let Some(plain) = images.iter().find(is_same) else {
            continue;
        };
        let skopeo = peers.iter().find(|peer| !peer.unpacks());
        let skopeo = skopeo.and_then(|peer| median(record, peer, image, place));
        for peer in peers {
            let medians = [plain, image].map(|image| median(record, peer, image, place));
            let [Some(before), Some(after)] = medians else {
                continue;
            };
            let of_skopeo = skopeo.map_or("-".to_owned(), |skopeo| {
                format!("{:.2}", after.wall_secs / skopeo.wall_secs)
            });
            let _ = writeln!(
                text,
                "| {} | {} | {:.3} | {:.2} | {:.3} | {:.2} | {:.1} | {:.2} | {:.2} | {of_skopeo} |",
                plain.title(),
                peer.name(),
                before.wall_secs,
                before.cpu_secs,
                after.wall_secs,
                after.cpu_secs,
                after.peak_kib as f64 / 1024.0,
                after.wall_secs / before.wall_secs,
                after.cpu_secs / before.cpu_secs,
            );
        }
    }
    text
}

/// Wall and CPU time in the middle, and the largest peak.
fn median(record: &Record, peer: &Peer, image: &Image, place: Place) -> Option<Cost> {
    let costs: Vec<Cost> = record
        .of(peer, image, place)
        .filter_map(|run| run.outcome.as_ref().ok().copied())
        .collect();
    Some(Cost {
        wall_secs: middle(costs.iter().map(|cost| cost.wall_secs))?,
        cpu_secs: middle(costs.iter().map(|cost| cost.cpu_secs))?,
        peak_kib: costs.iter().map(|cost| cost.peak_kib).max()?,
    })
}

/// The median; of two in the middle the larger.
pub fn middle(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied()
}

fn bound_of<'a>(record: &'a Record, image: &Image, fs: FileSystem) -> Option<&'a Bound> {
    record.bounds.iter().find(|bound| bound.image == image.title() && bound.fs == fs)
}

/// The parts and the bounds on one file system.
pub fn bounds(record: &Record, images: &[Image], fs: FileSystem) -> String {
    let mut text = format!(
        "\n## The bound on {}\n\n\
         CPU seconds of each part alone; bound = the larger of the longest part of one layer and \
         all CPU over {} cores.\n\n\
         | image | blob MB | tar MB | entries | receive | registry | SHA-256 blob | inflate | \
         SHA-256 tar | write | all CPU | bound s | with igzip: inflate | bound s |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|---|---|\n",
        fs.name(),
        machine::cores()
    );
    for image in images {
        let Some(bound) = bound_of(record, image, fs) else {
            continue;
        };
        let igzip = bound.igzip.map_or("- | -".to_owned(), |igzip| {
            format!("{:.2} | {:.2}", igzip.cpu_secs, bound.secs(igzip))
        });
        let _ = writeln!(
            text,
            "| {} | {:.1} | {:.1} | {} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} | {:.2} | \
            {:.3} | {igzip} |",
            image.title(),
            image.compressed() as f64 / 1e6,
            image.plain() as f64 / 1e6,
            image.entries(),
            bound.download.cpu_secs,
            bound.server_cpu_secs,
            bound.hash_blob.cpu_secs,
            bound.inflate.cpu_secs,
            bound.hash_plain.cpu_secs,
            bound.write.cpu_secs,
            bound.cpu_secs(bound.inflate),
            bound.secs(bound.inflate),
        );
    }
    text
}

/// The services.
pub fn services(figures: &[Figures]) -> String {
    let mut text = "\n## The service\n\n\
        | build | image | idle MiB | after a pull MiB | one pull s | sent MB | two at once s | \
        sent MB | one more s | sent MB |\n\
        |---|---|---|---|---|---|---|---|---|---|\n"
        .to_owned();
    for one in figures {
        let _ = write!(
            text,
            "| {} | {} | {:.1} | {:.1} |",
            one.name,
            one.image,
            one.idle_kib as f64 / 1024.0,
            one.after_kib as f64 / 1024.0
        );
        for served in [one.one, one.two, one.again] {
            let _ =
                write!(text, " {:.3} | {:.1} |", served.wall_secs, served.sent_bytes as f64 / 1e6);
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_is_not_the_mean() {
        assert_eq!(middle([9.0, 1.0, 2.0].into_iter()), Some(2.0));
        assert_eq!(middle([2.0, 1.0].into_iter()), Some(2.0));
        assert_eq!(middle([].into_iter()), None);
    }
}

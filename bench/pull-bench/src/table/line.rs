//! Pulls over a line, as Markdown.

use std::fmt::Write as _;

use line_emulator::Counts;

use super::{PULLS, failed, fastest, least, median, middle, most};
use crate::corpus::Image;
use crate::peer::Peer;
use crate::rounds::{Place, Record};

/// The pulls over one line, beside those without it where there are any.
pub fn pulls(record: &Record, images: &[Image], peers: &[Peer], place: Place) -> String {
    let mut text = format!(
        "\n{PULLS}{}\n\n\
         Connections, packets lost in a full queue, and at how many connections at most the tool\n\
         waited for an answer are counted on the line; requests by the registry.\n\n\
         | image | tool | wall s | (least, most) | more than on loopback s | CPU s | peak MiB | of \
         the fastest peer | connections | requests | waiting at most | packets lost | disturbed |\n\
         |---|---|---|---|---|---|---|---|---|---|---|---|---|\n",
        place.title()
    );
    for image in images {
        let fastest = fastest(record, image, peers, place);
        for peer in peers.iter().filter(|peer| peer.takes(image)) {
            let _ = writeln!(text, "{}", row(record, image, peer, place, fastest));
        }
    }
    text
}

fn row(record: &Record, image: &Image, peer: &Peer, place: Place, fastest: Option<f64>) -> String {
    let runs: Vec<_> = record.of(peer, image, place).collect();
    let Some(cost) = median(record, peer, image, place) else {
        return failed(image, peer, &runs, 10);
    };
    let beside = Place { way: place.way.beside(), ..place };
    let beside = median(record, peer, image, beside).map(|beside| beside.wall_secs);
    let shown = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.2}"));
    let counted = |count: fn(&Counts) -> u64| {
        let counts = runs.iter().filter_map(|run| run.line.as_ref());
        middle(counts.map(|counts| count(counts) as f64)).unwrap_or_default()
    };
    format!(
        "| {} | {} | {:.2} | ({:.2}, {:.2}) | {} | {:.2} | {:.1} | {} | {} | {} | {} | {} | {} of \
         {} |",
        image.title(),
        peer.name(),
        cost.wall_secs,
        least(&runs),
        most(&runs),
        shown(beside.map(|beside| cost.wall_secs - beside)),
        cost.cpu_secs,
        cost.peak_kib as f64 / 1024.0,
        shown(fastest.map(|fastest| cost.wall_secs / fastest)),
        counted(|counts| counts.connections),
        middle(runs.iter().map(|run| run.requests as f64)).unwrap_or_default(),
        counted(|counts| counts.waiting_at_most),
        counted(|counts| counts.up.lost + counts.down.lost),
        runs.iter().filter(|run| run.is_disturbed()).count(),
        runs.len(),
    )
}

//! A mirror that misbehaves, in front of a registry that does not.

use std::time::Duration;

use What::{Config, Index, Layer, Manifest};
use fault_registry::{Action, Bytes, End, Point, Script, What};
use imagepuller::error::Kind::{Denied, Unreachable};

use crate::row::{Row, pulled, refused, script, taken};
use crate::stage::four_layers;

pub fn rows() -> Vec<Row> {
    let silence = [Action::Cut { at: Point::Answer, how: End::Stall }];
    let drip = [Action::Drip { bytes: 1, pause_ms: 50 }];
    let stall = [Action::cut(1000, End::Stall)];
    let stalling = (0..4).fold(script(), |script, at| script.always(Layer(at), stall.clone()));
    let rows = vec![
        pulled("a good mirror", script()).other(script(), 0..=0),
        pulled("a mirror out of order", script().always(What::Any, [Action::status(503)]))
            .other(anonymous(), 5..=5),
        pulled(
            "a mirror that asks for an hour",
            script().always(What::Any, [Action::status_with(429, "Retry-After", "3600")]),
        )
        .other(anonymous(), 5..=5),
        pulled("a mirror without the image", script().always(Index, [Action::status(404)]))
            .other(anonymous(), 1..=5),
        taken("a mirror that lost a layer", Layer(1), 404)
            .other(anonymous(), 1..=1)
            .asks(Layer(0), 1),
        taken("a mirror with another manifest", Manifest, [Action::Body(Bytes::Flipped)])
            .other(anonymous(), 1..=5),
        taken("a mirror with another layer", Layer(0), [Action::Body(Bytes::Flipped)])
            .other(anonymous(), 1..=2),
        pulled(
            "a mirror that breaks off layers",
            script().always(Layer(0), [Action::cut(0, End::Reset)]),
        )
        .other(anonymous(), 1..=2)
        .asks(Layer(0), 3),
        pulled("a mirror that cannot be connected to", script().connections(.., End::Reset))
            .other(anonymous(), 5..=5),
        pulled("a mirror that forbids", script().always(Config, [Action::status(403)]))
            .other(anonymous(), 1..=3),
        pulled("a mirror that says nothing", script().always(What::Any, silence))
            .hasty()
            .patience(|patience| patience.budget_before_fallback = Duration::from_secs(1))
            .other(anonymous(), 5..=5)
            .asks(Manifest, 0),
        // Once, a mirror was not asked again, so that both had to be there at the same time.
        pulled(
            "a mirror that restarts, in front of a registry that is not reached",
            script().times(What::Any, ..=60, [Action::status(503)]),
        )
        .patience(|patience| {
            patience.attempts = None;
            patience.budget_before_fallback = Duration::from_millis(300);
        })
        .other(script().connections(.., End::Reset), 0..=0),
        refused(
            "a mirror and a registry that do not come back",
            script().always(What::Any, [Action::status(503)]),
            Unreachable,
            &["every source failed", "503", "mirror"],
        )
        .patience(|patience| {
            patience.attempts = None;
            patience.budget = Duration::from_secs(2);
            patience.budget_before_fallback = Duration::from_millis(300);
        })
        .other(script().connections(.., End::Reset), 0..=0),
        refused(
            "a mirror that does not come back, and a registry without the image",
            script().always(What::Any, [Action::status(503)]),
            Denied,
            &["every source failed", "404"],
        )
        .patience(|patience| {
            patience.attempts = None;
            patience.budget_before_fallback = Duration::from_millis(300);
        })
        .other(anonymous().always(What::Any, [Action::status(404)]), 1..=1),
        pulled(
            "a mirror that drips layers",
            script().always(Layer(0), drip.clone()).always(Layer(1), drip),
        )
        .patience(|patience| patience.budget_before_fallback = Duration::from_secs(1))
        .other(anonymous(), 2..=2)
        .asks(Layer(0), 1)
        .asks(Layer(1), 1),
        pulled("a mirror that stalls in every layer", stalling)
            .patience(|patience| patience.budget_before_fallback = Duration::from_secs(1))
            .image(four_layers())
            .other(anonymous(), 4..=4)
            // All are asked for at once, and none of them again.
            .asks_about(Layer(2), 0..=1)
            .asks_about(Layer(3), 0..=1),
    ];
    rows.into_iter().map(Row::mirrored).collect()
}

/// A registry that serves everybody, so that each request there is one for content.
fn anonymous() -> Script {
    Script::new()
}

//! Connections that are refused, break, stand still, or drip.

use std::time::Duration;

use End::{Close, Reset, Stall};
use Point::{Answer, Body, Head};
use What::{Config, Index, Layer, Manifest};
use fault_registry::{Action, End, Point, What};
use imagepuller::error::Kind::Unreachable;

use crate::row::{Row, SHORT, again, fails, pulled, refused, script};

pub fn rows() -> Vec<Row> {
    let drip = |bytes, pause_ms| Action::Drip { bytes, pause_ms };
    let at = |at, how| Action::Cut { at, how };
    let once = |name, what, point, how| again(name, what, at(point, how));
    let layer = |name, point, how| pulled(name, script().once(Layer(0), [at(point, how)]));
    let slow = |name, what, words| {
        let slowly = fails(name, what, drip(1, 50), Unreachable, words);
        slowly.patience(|patience| {
            patience.slow_start = SHORT;
            patience.slowest_rate = 1 << 20;
        })
    };
    vec![
        pulled("the first connection is reset", script().connections(..=1, Reset)).asks(Index, 1),
        pulled("the first two connections are closed", script().connections(..=2, Close))
            .asks(Index, 1),
        pulled("the first connection stands still", script().connections(..=1, Stall))
            .hasty()
            .asks(Index, 1),
        refused(
            "every connection is reset",
            script().connections(.., Reset),
            Unreachable,
            &["3 attempts"],
        ),
        refused(
            "every connection stands still",
            script().connections(.., Stall),
            Unreachable,
            &["3 attempts", "no connection"],
        )
        .hasty(),
        once("reset before the manifest", Manifest, Answer, Reset),
        once("reset in the head of the config", Config, Head, Reset),
        once("reset in the config", Config, Body(10), Reset),
        once("the manifest's head stands still", Manifest, Head, Stall).hasty(),
        layer("closed before a layer", Answer, Close).ranges(&[0, 0]),
        layer("closed in the head of a layer", Head, Close).ranges(&[0, 0]),
        once("closed in the manifest", Manifest, Body(10), Close),
        once("the manifest stands still", Manifest, Body(10), Stall).hasty(),
        once("silence before the index", Index, Answer, Stall).hasty(),
        layer("a layer is reset before its first byte", Body(0), Reset).ranges(&[0, 0]),
        layer("a layer is reset", Body(1000), Reset).ranges(&[0, 1000]).asks(Layer(1), 1),
        layer("a layer is closed", Body(1000), Close).ranges(&[0, 1000]),
        layer("a layer stands still", Body(1000), Stall).hasty().ranges(&[0, 1000]),
        pulled(
            "both layers are closed",
            script().once(Layer(0), [at(Body(500), Close)]).once(Layer(1), [at(Body(700), Close)]),
        )
        .asks(Layer(0), 2)
        .asks(Layer(1), 2),
        pulled(
            "a layer is closed again and again, and moves on",
            script().times(Layer(0), ..=5, [at(Body(5000), Close)]),
        )
        .ranges(&[0, 5000, 10_000, 15_000, 20_000, 25_000]),
        fails(
            "a layer moves on too slowly for the number of attempts",
            Layer(0),
            at(Body(10), Close),
            Unreachable,
            &["attempts"],
        )
        .patience(|patience| patience.resumptions = 8)
        .asks_about(Layer(0), 8..=12),
        fails("a layer never begins", Layer(0), at(Body(0), Reset), Unreachable, &["3 attempts"])
            .ranges(&[0, 0, 0]),
        fails(
            "a layer always stands still at its beginning",
            Layer(0),
            at(Body(0), Stall),
            Unreachable,
            &["3 attempts"],
        )
        .hasty()
        .asks(Layer(0), 3),
        fails(
            "silence always",
            Manifest,
            at(Answer, Stall),
            Unreachable,
            &["3 attempts", "no answer"],
        )
        .hasty()
        .asks(Manifest, 3),
        slow("a layer drips", Layer(0), &["too slow"]).asks_about(Layer(0), 1..=3),
        slow("the manifest drips", Manifest, &["within"])
            .patience(|patience| patience.budget = Duration::from_secs(1))
            .asks_about(Manifest, 1..=3),
        pulled("a layer comes in small pieces", script().always(Layer(0), [drip(2000, 10)]))
            .ranges(&[0]),
        pulled("everything is late", script().always(What::Any, [Action::Wait(200)]))
            .asks(Manifest, 1)
            .ranges(&[0]),
    ]
}

//! Connections that are refused, break, stand still, or drip.

use std::time::Duration;

use What::{Config, Index, Layer, Manifest};
use fault_registry::{Action, End, Point, What};
use imagepuller::error::Kind::Unreachable;

use crate::row::{Row, SHORT, pulled, refused, script};

pub fn rows() -> Vec<Row> {
    let at = |at, how| [Action::Cut { at, how }];
    let drip = |bytes, pause_ms| [Action::Drip { bytes, pause_ms }];
    vec![
        pulled(
            "the first connection is reset",
            script().connections(..=1, End::Reset),
        )
        .asks(Index, 1),
        pulled(
            "the first two connections are closed",
            script().connections(..=2, End::Close),
        )
        .asks(Index, 1),
        pulled(
            "the first connection stands still",
            script().connections(..=1, End::Stall),
        )
        .hasty()
        .asks(Index, 1),
        refused(
            "every connection is reset",
            script().connections(.., End::Reset),
            Unreachable,
            &["3 attempts"],
        ),
        refused(
            "every connection stands still",
            script().connections(.., End::Stall),
            Unreachable,
            &["3 attempts", "no connection"],
        )
        .hasty(),
        pulled(
            "reset before the manifest",
            script().once(Manifest, at(Point::Answer, End::Reset)),
        )
        .asks(Manifest, 2),
        pulled(
            "reset in the head of the config",
            script().once(Config, at(Point::Head, End::Reset)),
        )
        .asks(Config, 2),
        pulled(
            "reset in the config",
            script().once(Config, at(Point::Body(10), End::Reset)),
        )
        .asks(Config, 2),
        pulled(
            "the manifest's head stands still",
            script().once(Manifest, at(Point::Head, End::Stall)),
        )
        .hasty()
        .asks(Manifest, 2),
        pulled(
            "closed before a layer",
            script().once(Layer(0), at(Point::Answer, End::Close)),
        )
        .ranges(&[0, 0]),
        pulled(
            "closed in the head of a layer",
            script().once(Layer(0), at(Point::Head, End::Close)),
        )
        .ranges(&[0, 0]),
        pulled(
            "closed in the manifest",
            script().once(Manifest, at(Point::Body(10), End::Close)),
        )
        .asks(Manifest, 2),
        pulled(
            "the manifest stands still",
            script().once(Manifest, at(Point::Body(10), End::Stall)),
        )
        .hasty()
        .asks(Manifest, 2),
        pulled(
            "silence before the index",
            script().once(Index, at(Point::Answer, End::Stall)),
        )
        .hasty()
        .asks(Index, 2),
        pulled(
            "a layer is reset before its first byte",
            script().once(Layer(0), at(Point::Body(0), End::Reset)),
        )
        .ranges(&[0, 0]),
        pulled(
            "a layer is reset",
            script().once(Layer(0), at(Point::Body(1000), End::Reset)),
        )
        .ranges(&[0, 1000])
        .asks(Layer(1), 1),
        pulled(
            "a layer is closed",
            script().once(Layer(0), at(Point::Body(1000), End::Close)),
        )
        .ranges(&[0, 1000]),
        pulled(
            "a layer stands still",
            script().once(Layer(0), at(Point::Body(1000), End::Stall)),
        )
        .hasty()
        .ranges(&[0, 1000]),
        pulled(
            "both layers are closed",
            script()
                .once(Layer(0), at(Point::Body(500), End::Close))
                .once(Layer(1), at(Point::Body(700), End::Close)),
        )
        .asks(Layer(0), 2)
        .asks(Layer(1), 2),
        pulled(
            "a layer is closed again and again, and moves on",
            script().times(Layer(0), ..=5, at(Point::Body(5000), End::Close)),
        )
        .ranges(&[0, 5000, 10_000, 15_000, 20_000, 25_000]),
        refused(
            "a layer moves on too slowly for the number of attempts",
            script().always(Layer(0), at(Point::Body(10), End::Close)),
            Unreachable,
            &["attempts"],
        )
        .patience(|patience| patience.resumptions = 8)
        .asks_about(Layer(0), 8..=12),
        refused(
            "a layer never begins",
            script().always(Layer(0), at(Point::Body(0), End::Reset)),
            Unreachable,
            &["3 attempts"],
        )
        .ranges(&[0, 0, 0]),
        refused(
            "a layer always stands still at its beginning",
            script().always(Layer(0), at(Point::Body(0), End::Stall)),
            Unreachable,
            &["3 attempts"],
        )
        .hasty()
        .asks(Layer(0), 3),
        refused(
            "silence always",
            script().always(Manifest, at(Point::Answer, End::Stall)),
            Unreachable,
            &["3 attempts", "no answer"],
        )
        .hasty()
        .asks(Manifest, 3),
        refused(
            "a layer drips",
            script().always(Layer(0), drip(1, 50)),
            Unreachable,
            &["too slow"],
        )
        .patience(|patience| {
            patience.slow_start = SHORT;
            patience.slowest_rate = 1 << 20;
        })
        .asks_about(Layer(0), 1..=3),
        refused(
            "the manifest drips",
            script().always(Manifest, drip(1, 50)),
            Unreachable,
            &["within"],
        )
        .patience(|patience| {
            patience.slow_start = SHORT;
            patience.slowest_rate = 1 << 20;
            patience.budget = Duration::from_secs(1);
        })
        .asks_about(Manifest, 1..=3),
        pulled(
            "a layer comes in small pieces",
            script().always(Layer(0), drip(2000, 10)),
        )
        .ranges(&[0]),
        pulled(
            "everything is late",
            script().always(What::Any, [Action::Wait(200)]),
        )
        .asks(Manifest, 1)
        .ranges(&[0]),
    ]
}

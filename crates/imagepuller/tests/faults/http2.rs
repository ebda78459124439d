//! Registries that speak HTTP/2, and the faults that only HTTP/2 has, where it is the puller that
//! ends them: malformed frames are h2's business. They speak nothing else, for the puller prefers
//! HTTP/1.1.

use What::{Config, Layer, Manifest};
use fault_registry::{Action, Bytes, End, Http, Http2Fault, Length, Script, What};
use imagepuller::error::Kind::{Data, Unreachable};

use crate::row::{Row, again, fails, pulled, refused, script};

pub fn rows() -> Vec<Row> {
    let fault = |fault| [Action::Http2(fault)];
    let reset = |code, after| fault(Http2Fault::Reset { code, after });
    let away = |code, after| fault(Http2Fault::GoAway { code, after });
    let bad = |name, what| {
        let script = script().always(Manifest, fault(what));
        refused(name, script, Unreachable, &[]).hasty()
    };
    let rows = vec![
        pulled("HTTP/2 without faults", script()).asks(Manifest, 1).ranges(&[0]),
        again("the manifest's stream is reset once", Manifest, reset(8, 0)),
        again("the manifest's stream is refused once", Manifest, reset(7, 0)),
        // A reset may overtake the data before it, so where the layer goes on is not certain.
        again("a layer's stream is reset once", Layer(0), reset(2, 1000)),
        pulled("the server goes away in a layer", script().once(Layer(0), away(0, 1000)))
            .asks_about(Layer(0), 2..=3),
        again("the server goes away in anger", Config, away(11, 0)),
        again("the connection is reset in a layer", Layer(0), [Action::cut(1000, End::Reset)]),
        pulled(
            "a layer stands still over HTTP/2",
            script().once(Layer(0), [Action::cut(1000, End::Stall)]),
        )
        .hasty()
        .ranges(&[0, 1000]),
        fails(
            "the manifest's stream is always reset",
            Manifest,
            reset(2, 0),
            Unreachable,
            &["3 attempts"],
        )
        .asks(Manifest, 3),
        fails(
            "another layer over HTTP/2",
            Layer(0),
            [Action::Body(Bytes::Flipped)],
            Data,
            &["layer"],
        ),
        fails(
            "more data than announced",
            Manifest,
            [Action::Length(Length::Off(-10))],
            Unreachable,
            &["3 attempts"],
        ),
        fails(
            "less data than announced",
            Manifest,
            [Action::Length(Length::Off(10))],
            Unreachable,
            &["3 attempts"],
        ),
        fails(
            "an endless manifest over HTTP/2",
            Manifest,
            [Action::Body(Bytes::Endless)],
            Data,
            &["more than"],
        ),
        fails(
            "a header of a mebibyte over HTTP/2",
            Manifest,
            [Action::LongHeader(1 << 20)],
            Unreachable,
            &[],
        ),
        // Both layers are the first to ask there, and both learn from a refusal how.
        pulled(
            "two layers at another host over HTTP/2",
            script()
                .always(Layer(0), [Action::redirect("{other}{path}")])
                .always(Layer(1), [Action::redirect("{other}{path}")]),
        )
        .patience(|patience| patience.attempts = Some(1))
        .other(Script::new(), 2..=2),
        bad("pings without end", Http2Fault::Pings),
        bad("empty data without end", Http2Fault::EmptyData),
    ];
    let mut rows: Vec<Row> = rows.into_iter().map(|row| row.http(Http::Two)).collect();
    rows.push(pulled("HTTP/2 for who wants it", script()).http(Http::Both));
    rows
}

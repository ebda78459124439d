//! Bodies that are too long, too short, or others than the digests say; headers that lie about
//! them.

use What::{Config, Index, Layer, Manifest};
use fault_registry::{Action, Bytes, End, Length, What};
use imagepuller::error::Kind::{Data, Unreachable};

use crate::row::{Row, harmless, pulled, refused, script};

const WRONG: &str = "is not the content";

pub fn rows() -> Vec<Row> {
    let body = |bytes| [Action::Body(bytes)];
    let length = |length| [Action::Length(length)];
    let text = |text: &str| Length::Text(text.to_owned());
    let set = |name, value| [Action::header(name, value)];
    let other = "sha256:0000000000000000000000000000000000000000000000000000000000000000";
    vec![
        refused(
            "another index",
            script().always(Index, body(Bytes::Flipped)),
            Data,
            &["manifest", WRONG],
        )
        .asks(Index, 1),
        refused(
            "another manifest",
            script().always(Manifest, body(Bytes::Flipped)),
            Data,
            &["manifest", WRONG],
        )
        .asks(Manifest, 1),
        refused(
            "another config",
            script().always(Config, body(Bytes::Flipped)),
            Data,
            &["configuration", WRONG],
        )
        .asks(Config, 1),
        refused(
            "another layer",
            script().always(Layer(0), body(Bytes::Flipped)),
            Data,
            &["layer"],
        )
        .asks(Layer(0), 1),
        refused(
            "another layer, once",
            script().once(Layer(1), body(Bytes::Flipped)),
            Data,
            &["layer"],
        )
        .asks(Layer(1), 1),
        refused(
            "a manifest that ends early",
            script().always(Manifest, body(Bytes::Truncated(50))),
            Data,
            &[WRONG],
        )
        .asks(Manifest, 1),
        refused(
            "a config that goes on",
            script().always(Config, body(Bytes::Longer(1))),
            Data,
            &[WRONG],
        )
        .asks(Config, 1),
        refused(
            "an empty config",
            script().always(Config, body(Bytes::Truncated(0))),
            Data,
            &[WRONG],
        )
        .asks(Config, 1),
        refused(
            "a layer that ends early",
            script().always(Layer(0), body(Bytes::Truncated(1000))),
            Data,
            &["of a blob that has"],
        )
        .asks(Layer(0), 1),
        refused(
            "a layer that goes on",
            script().always(Layer(0), body(Bytes::Longer(1))),
            Data,
            &["of a blob that has"],
        )
        .asks(Layer(0), 1),
        refused(
            "a layer that goes on without a length",
            {
                let actions = [
                    Action::Body(Bytes::Longer(1)),
                    Action::Length(Length::Missing),
                ];
                script().always(Layer(0), actions)
            },
            Data,
            &["of a blob that has"],
        )
        .asks(Layer(0), 1),
        refused(
            "an endless manifest",
            script().always(Manifest, body(Bytes::Endless)),
            Data,
            &["more than"],
        )
        .asks(Manifest, 1),
        refused(
            "an endless config",
            script().always(Config, body(Bytes::Endless)),
            Data,
            &["more than"],
        )
        .asks(Config, 1),
        refused(
            "an endless layer",
            script().always(Layer(0), body(Bytes::Endless)),
            Data,
            &["of a blob that has"],
        )
        .asks(Layer(0), 1),
        refused(
            "a manifest that announces a terabyte",
            script().always(Manifest, length(text("1099511627776"))),
            Data,
            &["more than"],
        )
        .asks(Manifest, 1),
        refused(
            "a layer that announces a terabyte",
            script().always(Layer(0), length(text("1099511627776"))),
            Data,
            &["of a blob that has"],
        )
        .asks(Layer(0), 1),
        refused(
            "a layer that announces more",
            script().always(Layer(0), length(Length::Off(10))),
            Data,
            &["of a blob that has"],
        )
        .asks(Layer(0), 1),
        refused(
            "a layer that announces less",
            script().always(Layer(0), length(Length::Off(-10))),
            Data,
            &["of a blob that has"],
        )
        .asks(Layer(0), 1),
        refused(
            "a manifest that announces more",
            script().always(Manifest, length(Length::Off(10))),
            Unreachable,
            &["3 attempts"],
        ),
        refused(
            "a manifest that announces less",
            script().always(Manifest, length(Length::Off(-10))),
            Data,
            &[WRONG],
        ),
        refused(
            "a negative length",
            script().always(Layer(0), length(text("-5"))),
            Unreachable,
            &[],
        ),
        refused(
            "a length that is no number",
            script().always(Manifest, length(text("many"))),
            Unreachable,
            &[],
        ),
        refused(
            "a length of many digits",
            script().always(Layer(0), length(text("99999999999999999999999"))),
            Unreachable,
            &[],
        ),
        refused(
            "two lengths",
            script().always(Layer(0), length(Length::Twice)),
            Unreachable,
            &[],
        ),
        pulled(
            "a layer without a length",
            script().always(Layer(0), length(Length::Missing)),
        )
        .ranges(&[0]),
        pulled(
            "a manifest without a length",
            script().always(Manifest, length(Length::Missing)),
        )
        .asks(Manifest, 1),
        pulled("a layer without a length breaks off", {
            let actions = [
                Action::Length(Length::Missing),
                Action::cut(1000, End::Close),
            ];
            script().once(Layer(0), actions)
        })
        .ranges(&[0, 1000]),
        pulled(
            "headers name another manifest",
            script().always(Manifest, set("Docker-Content-Digest", other)),
        )
        .asks(Manifest, 1),
        pulled(
            "headers name another layer",
            script().always(Layer(0), set("Docker-Content-Digest", other)),
        )
        .ranges(&[0]),
        pulled(
            "the right digest for wrong bytes helps nobody",
            script().always(Index, [Action::without("Docker-Content-Digest")]),
        ),
        pulled(
            "a manifest as a web page",
            script().always(Manifest, set("Content-Type", "text/html")),
        )
        .asks(Manifest, 1),
        pulled(
            "an index as a manifest",
            script().always(
                Index,
                set(
                    "Content-Type",
                    "application/vnd.docker.distribution.manifest.v1+prettyjws",
                ),
            ),
        ),
        pulled(
            "a manifest without a type",
            script().always(Manifest, [Action::without("Content-Type")]),
        ),
        pulled(
            "a type that is none",
            script().always(Manifest, set("Content-Type", ";;;")),
        ),
        harmless(
            "a coding that is not there",
            script().always(Layer(0), set("Content-Encoding", "gzip")),
        ),
        refused(
            "a manifest of the first schema",
            script().always(Manifest, [Action::Schema1]),
            Data,
            &[WRONG],
        )
        .asks(Manifest, 1),
        refused(
            "an image of the first schema",
            script().always(Index, [Action::Schema1]),
            Data,
            &[WRONG],
        )
        .asks(Index, 1),
    ]
}

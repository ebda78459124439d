//! Bodies that are too long, too short, or others than the digests say; headers that lie about
//! them.

use Bytes::{Endless, Flipped, Longer, Truncated};
use What::{Config, Index, Layer, Manifest};
use fault_registry::{Action, Bytes, End, Length, What};
use imagepuller::error::Kind::{Data, Unreachable};

use crate::row::{Row, ends, fails, harmless, pulled, refused, script, taken};

const WRONG: &str = "is not the content";

pub fn rows() -> Vec<Row> {
    let body = Action::Body;
    let length = Action::Length;
    let off = |by| Action::Length(Length::Off(by));
    let text = |text: &str| Action::Length(Length::Text(text.to_owned()));
    let terabyte = || text("1099511627776");
    let set = Action::header;
    let digest = "sha256:0000000000000000000000000000000000000000000000000000000000000000";
    let other = |name, what, fault: Action| ends(name, what, fault, Data, &[WRONG]);
    let blob = |name, what, fault: Action| ends(name, what, fault, Data, &["of a blob that has"]);
    let more = |name, what, fault: Action| ends(name, what, fault, Data, &["more than"]);
    let unread = |name, what, fault: Action| fails(name, what, fault, Unreachable, &[]);
    vec![
        ends("another index", Index, body(Flipped), Data, &["manifest", WRONG]),
        ends("another manifest", Manifest, body(Flipped), Data, &["manifest", WRONG]),
        ends("another config", Config, body(Flipped), Data, &["configuration", WRONG]),
        ends("another layer", Layer(0), body(Flipped), Data, &["layer"]),
        refused("another layer, once", script().once(Layer(1), [body(Flipped)]), Data, &["layer"])
            .asks(Layer(1), 1),
        other("a manifest that ends early", Manifest, body(Truncated(50))),
        other("a config that goes on", Config, body(Longer(1))),
        other("an empty config", Config, body(Truncated(0))),
        blob("a layer that ends early", Layer(0), body(Truncated(1000))),
        blob("a layer that goes on", Layer(0), body(Longer(1))),
        refused(
            "a layer that goes on without a length",
            {
                let actions = [Action::Body(Longer(1)), Action::Length(Length::Missing)];
                script().always(Layer(0), actions)
            },
            Data,
            &["of a blob that has"],
        )
        .asks(Layer(0), 1),
        more("an endless manifest", Manifest, body(Endless)),
        more("an endless config", Config, body(Endless)),
        blob("an endless layer", Layer(0), body(Endless)),
        more("a manifest that announces a terabyte", Manifest, terabyte()),
        blob("a layer that announces a terabyte", Layer(0), terabyte()),
        blob("a layer that announces more", Layer(0), off(10)),
        blob("a layer that announces less", Layer(0), off(-10)),
        fails("a manifest that announces more", Manifest, off(10), Unreachable, &["3 attempts"]),
        fails("a manifest that announces less", Manifest, off(-10), Data, &[WRONG]),
        unread("a negative length", Layer(0), text("-5")),
        unread("a length that is no number", Manifest, text("many")),
        unread("a length of many digits", Layer(0), text("99999999999999999999999")),
        unread("two lengths", Layer(0), length(Length::Twice)),
        pulled("a layer without a length", script().always(Layer(0), [length(Length::Missing)]))
            .ranges(&[0]),
        taken("a manifest without a length", Manifest, length(Length::Missing)),
        pulled("a layer without a length breaks off", {
            let actions = [Action::Length(Length::Missing), Action::cut(1000, End::Close)];
            script().once(Layer(0), actions)
        })
        .ranges(&[0, 1000]),
        taken("headers name another manifest", Manifest, set("Docker-Content-Digest", digest)),
        pulled(
            "headers name another layer",
            script().always(Layer(0), [set("Docker-Content-Digest", digest)]),
        )
        .ranges(&[0]),
        pulled(
            "the right digest for wrong bytes helps nobody",
            script().always(Index, [Action::without("Docker-Content-Digest")]),
        ),
        taken("a manifest as a web page", Manifest, set("Content-Type", "text/html")),
        pulled(
            "an index as a manifest",
            script().always(
                Index,
                [set("Content-Type", "application/vnd.docker.distribution.manifest.v1+prettyjws")],
            ),
        ),
        pulled(
            "a manifest without a type",
            script().always(Manifest, [Action::without("Content-Type")]),
        ),
        pulled("a type that is none", script().always(Manifest, [set("Content-Type", ";;;")])),
        harmless(
            "a coding that is not there",
            script().always(Layer(0), [set("Content-Encoding", "gzip")]),
        ),
        other("a manifest of the first schema", Manifest, Action::Schema1),
        other("an image of the first schema", Index, Action::Schema1),
    ]
}

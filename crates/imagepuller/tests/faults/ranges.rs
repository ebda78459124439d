//! Registries that answer a resumption otherwise than they should. Each first breaks the layer off
//! after a thousand bytes.

use What::{Config, Layer, Manifest};
use fault_registry::{Action, End, RangeLie, Script, What};
use imagepuller::error::Kind::{Data, Denied};

use crate::row::{Row, ends, pulled, refused, script};

pub fn rows() -> Vec<Row> {
    let cut = || script().once(Layer(0), [Action::cut(1000, End::Close)]);
    let then = |lie| cut().times(Layer(0), 2..=2, [Action::Range(lie)]);
    let always = |lie| cut().times(Layer(0), 2.., [Action::Range(lie)]);
    vec![
        pulled("the range is ignored", always(RangeLie::Ignored)).asks(Layer(0), 2),
        pulled("the range is ignored, and breaks off", ignored_and_cut()).asks(Layer(0), 3),
        pulled("another start, once", then(RangeLie::OtherStart)).asks_about(Layer(0), 3..=4),
        refused(
            "another start that is not named, once",
            then(RangeLie::HiddenStart),
            Data,
            &["layer"],
        )
        .ranges(&[0, 1000]),
        pulled("another total, once", then(RangeLie::WrongTotal)).asks_about(Layer(0), 3..=4),
        pulled("a part without its place, once", then(RangeLie::Unnamed))
            .asks_about(Layer(0), 3..=4),
        pulled("several parts, once", then(RangeLie::Multipart)).asks_about(Layer(0), 3..=4),
        pulled("416, once", then(RangeLie::Refused)).asks_about(Layer(0), 3..=4),
        pulled("503 for the rest, once", cut().times(Layer(0), 2..=2, [Action::status(503)]))
            .ranges(&[0, 1000, 1000]),
        pulled(
            "the rest breaks off",
            cut().times(Layer(0), 2..=2, [Action::cut(2000, End::Reset)]),
        )
        .ranges(&[0, 1000, 3000]),
        refused("another start that is not named", always(RangeLie::HiddenStart), Data, &[])
            .asks(Layer(0), 2),
        refused("other bytes", always(RangeLie::OtherBytes), Data, &["layer"]).asks(Layer(0), 2),
        refused(
            "404 for the rest",
            cut().times(Layer(0), 2.., [Action::status(404)]),
            Denied,
            &["404"],
        )
        .asks(Layer(0), 2),
        // It cannot be put anywhere, and who sends it once does not count right.
        refused(
            "a part that nobody asked for",
            script().once(Layer(0), [Action::Range(RangeLie::Unasked)]),
            Denied,
            &["206"],
        )
        .ranges(&[0]),
        ends(
            "a part of a manifest",
            Manifest,
            [Action::Range(RangeLie::Unasked)],
            Denied,
            &["206"],
        ),
        ends("416 for a config", Config, [Action::Range(RangeLie::Refused)], Denied, &["416"]),
    ]
}

/// The whole again instead of the rest, and that breaks off before anything new came.
fn ignored_and_cut() -> Script {
    script().once(Layer(0), [Action::cut(1000, End::Close)]).times(
        Layer(0),
        2..=2,
        [Action::Range(RangeLie::Ignored), Action::cut(500, End::Close)],
    )
}

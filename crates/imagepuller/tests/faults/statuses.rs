//! Statuses other than 200: those that may pass are asked about again, the others are not.

use What::{Config, Index, Layer, Manifest};
use fault_registry::{Action, What};
use imagepuller::error::Kind::{Data, Denied, Unreachable};

use crate::row::{Row, again, ends, fails, pulled, refused, script};

pub fn rows() -> Vec<Row> {
    let later = |code, when| Action::status_with(code, "Retry-After", when);
    let past = "Wed, 21 Oct 2015 07:28:00 GMT";
    let far = "Fri, 31 Dec 9999 23:59:59 GMT";
    let thrice = |name, what: What, code: u16, word| {
        let fails = fails(name, what.clone(), code, Unreachable, &["3 attempts", word]);
        fails.asks(what, 3)
    };
    vec![
        pulled("no fault at all", script())
            .asks(Index, 1)
            .asks(Manifest, 1)
            .asks(Config, 1)
            .asks(Layer(0), 1)
            .asks(Layer(1), 1)
            .asks(What::Token, 1),
        again("503 for the index once", Index, 503),
        again("502 for the manifest once", Manifest, 502),
        again("500 for the config once", Config, 500),
        pulled("504 for a layer twice", script().times(Layer(0), 1..=2, [Action::status(504)]))
            .asks(Layer(0), 3)
            .asks(Layer(1), 1)
            .ranges(&[0, 0, 0]),
        again("408 once", Manifest, 408),
        again("429 once", Manifest, 429),
        again("429 and at once", Index, later(429, "0")),
        again("429 and in a second", Index, later(429, "1")),
        again("503 and after a past date", Config, later(503, past)),
        again("503 and soon", Layer(1), later(503, "soon")),
        again("503 and before now", Layer(1), later(503, "-1")),
        ends("429 and in an hour", Index, later(429, "3600"), Unreachable, &["429", "3600 s"]),
        ends(
            "503 and in more seconds than there are",
            Layer(0),
            later(503, "99999999999999999999999"),
            Unreachable,
            &["503", "tried again in"],
        ),
        ends("503 and in eight thousand years", Manifest, later(503, far), Unreachable, &["503"]),
        thrice("429 always", Manifest, 429, "429"),
        thrice("503 always", Index, 503, "503"),
        thrice("500 for a layer always", Layer(1), 500, "500"),
        refused(
            "408, 502 and 503 in turn",
            script()
                .once(Manifest, [Action::status(408)])
                .times(Manifest, 2..=2, [Action::status(502)])
                .times(Manifest, 3..=3, [Action::status(503)]),
            Unreachable,
            &["3 attempts", "408", "502", "503"],
        )
        .asks(Manifest, 3),
        ends("404 for the manifest", Manifest, 404, Denied, &["404"]),
        ends("404 for a layer", Layer(1), 404, Denied, &["404", "blobs"]),
        ends("403 for the index", Index, 403, Denied, &["403"]),
        ends("403 for the config", Config, 403, Denied, &["403"]),
        fails("401 in spite of a good token", Index, 401, Denied, &["401"])
            .asks_about(Index, 1..=2)
            .asks(What::Token, 1),
        ends("501", Manifest, 501, Denied, &["501"]),
        ends("418", Config, 418, Denied, &["418"]),
        ends("204 without content", Layer(0), 204, Denied, &["204"]),
        ends("304 for who has nothing", Manifest, 304, Denied, &["304"]),
        ends("200 without content", Manifest, 200, Data, &["manifest"]),
    ]
}

//! Statuses other than 200: those that may pass are asked about again, the others are not.

use What::{Config, Index, Layer, Manifest};
use fault_registry::{Action, What};
use imagepuller::error::Kind::{Data, Denied, Unreachable};

use crate::row::{Row, pulled, refused, script};

pub fn rows() -> Vec<Row> {
    let later = |code, when| Action::status_with(code, "Retry-After", when);
    let past = "Wed, 21 Oct 2015 07:28:00 GMT";
    let far = "Fri, 31 Dec 9999 23:59:59 GMT";
    vec![
        pulled("no fault at all", script())
            .asks(Index, 1)
            .asks(Manifest, 1)
            .asks(Config, 1)
            .asks(Layer(0), 1)
            .asks(Layer(1), 1)
            .asks(What::Token, 1),
        pulled(
            "503 for the index once",
            script().once(Index, [Action::status(503)]),
        )
        .asks(Index, 2),
        pulled(
            "502 for the manifest once",
            script().once(Manifest, [Action::status(502)]),
        )
        .asks(Manifest, 2),
        pulled(
            "500 for the config once",
            script().once(Config, [Action::status(500)]),
        )
        .asks(Config, 2),
        pulled(
            "504 for a layer twice",
            script().times(Layer(0), 1..=2, [Action::status(504)]),
        )
        .asks(Layer(0), 3)
        .asks(Layer(1), 1)
        .ranges(&[0, 0, 0]),
        pulled("408 once", script().once(Manifest, [Action::status(408)])).asks(Manifest, 2),
        pulled("429 once", script().once(Manifest, [Action::status(429)])).asks(Manifest, 2),
        pulled("429 and at once", script().once(Index, [later(429, "0")])).asks(Index, 2),
        pulled(
            "429 and in a second",
            script().once(Index, [later(429, "1")]),
        )
        .asks(Index, 2),
        pulled(
            "503 and after a past date",
            script().once(Config, [later(503, past)]),
        )
        .asks(Config, 2),
        pulled(
            "503 and soon",
            script().once(Layer(1), [later(503, "soon")]),
        )
        .asks(Layer(1), 2),
        pulled(
            "503 and before now",
            script().once(Layer(1), [later(503, "-1")]),
        )
        .asks(Layer(1), 2),
        refused(
            "429 and in an hour",
            script().always(Index, [later(429, "3600")]),
            Unreachable,
            &["429", "3600 s"],
        )
        .asks(Index, 1),
        refused(
            "503 and in more seconds than there are",
            script().always(Layer(0), [later(503, "99999999999999999999999")]),
            Unreachable,
            &["503", "tried again in"],
        )
        .asks(Layer(0), 1),
        refused(
            "503 and in eight thousand years",
            script().always(Manifest, [later(503, far)]),
            Unreachable,
            &["503"],
        )
        .asks(Manifest, 1),
        refused(
            "429 always",
            script().always(Manifest, [Action::status(429)]),
            Unreachable,
            &["3 attempts", "429"],
        )
        .asks(Manifest, 3),
        refused(
            "503 always",
            script().always(Index, [Action::status(503)]),
            Unreachable,
            &["3 attempts", "503"],
        )
        .asks(Index, 3),
        refused(
            "500 for a layer always",
            script().always(Layer(1), [Action::status(500)]),
            Unreachable,
            &["3 attempts", "500"],
        )
        .asks(Layer(1), 3),
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
        refused(
            "404 for the manifest",
            script().always(Manifest, [Action::status(404)]),
            Denied,
            &["404"],
        )
        .asks(Manifest, 1),
        refused(
            "404 for a layer",
            script().always(Layer(1), [Action::status(404)]),
            Denied,
            &["404", "blobs"],
        )
        .asks(Layer(1), 1),
        refused(
            "403 for the index",
            script().always(Index, [Action::status(403)]),
            Denied,
            &["403"],
        )
        .asks(Index, 1),
        refused(
            "403 for the config",
            script().always(Config, [Action::status(403)]),
            Denied,
            &["403"],
        )
        .asks(Config, 1),
        refused(
            "401 in spite of a good token",
            script().always(Index, [Action::status(401)]),
            Denied,
            &["401"],
        )
        .asks_about(Index, 1..=2),
        refused(
            "501",
            script().always(Manifest, [Action::status(501)]),
            Denied,
            &["501"],
        )
        .asks(Manifest, 1),
        refused(
            "418",
            script().always(Config, [Action::status(418)]),
            Denied,
            &["418"],
        )
        .asks(Config, 1),
        refused(
            "204 without content",
            script().always(Layer(0), [Action::status(204)]),
            Denied,
            &["204"],
        )
        .asks(Layer(0), 1),
        refused(
            "304 for who has nothing",
            script().always(Manifest, [Action::status(304)]),
            Denied,
            &["304"],
        )
        .asks(Manifest, 1),
        refused(
            "200 without content",
            script().always(Manifest, [Action::status(200)]),
            Data,
            &["manifest"],
        )
        .asks(Manifest, 1),
    ]
}

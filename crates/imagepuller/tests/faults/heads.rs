//! Heads that are too long, too many, or none.

use What::{Config, Layer, Manifest};
use fault_registry::{Action, What};
use imagepuller::error::Kind::{Denied, Unreachable};

use crate::row::{Row, pulled, refused, script};

pub fn rows() -> Vec<Row> {
    let raw = |text: &str| [Action::Raw(text.to_owned())];
    vec![
        pulled(
            "fifty headers more",
            script().always(What::Any, [Action::ManyHeaders(50)]),
        )
        .asks(Manifest, 1),
        pulled(
            "a header of ten thousand bytes",
            script().always(Layer(0), [Action::LongHeader(10_000)]),
        )
        .ranges(&[0]),
        refused(
            "ten thousand headers",
            script().always(Manifest, [Action::ManyHeaders(10_000)]),
            Unreachable,
            &[],
        ),
        refused(
            "a header of a mebibyte",
            script().always(Layer(0), [Action::LongHeader(1 << 20)]),
            Unreachable,
            &[],
        ),
        refused(
            "a header of four mebibytes",
            script().always(Config, [Action::LongHeader(4 << 20)]),
            Unreachable,
            &[],
        ),
        refused(
            "the token's header of a mebibyte",
            script().always(What::Token, [Action::LongHeader(1 << 20)]),
            Unreachable,
            &[],
        ),
        pulled(
            "three interim answers",
            script().always(Manifest, [Action::Interim(Some(3))]),
        )
        .asks(Manifest, 1),
        refused(
            "endless interim answers",
            script().always(Manifest, [Action::Interim(None)]),
            Unreachable,
            &[],
        )
        .hasty()
        .patience(|patience| patience.budget = std::time::Duration::from_secs(2)),
        refused(
            "another protocol's greeting",
            script().always(Manifest, raw("220 mail.example ESMTP\r\n")),
            Unreachable,
            &[],
        ),
        refused(
            "a web page without a head",
            script().always(Layer(0), raw("<html></html>\r\n\r\n")),
            Unreachable,
            &[],
        ),
        refused(
            "a status of five digits",
            script().always(Layer(0), raw("HTTP/1.1 20000 OK\r\n\r\n")),
            Unreachable,
            &[],
        ),
        refused(
            "nothing but line ends",
            script().always(Manifest, raw("\r\n\r\n\r\n\r\n")),
            Unreachable,
            &[],
        ),
        refused(
            "a switch of protocols",
            script().always(
                Manifest,
                raw("HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"),
            ),
            Denied,
            &["101"],
        ),
        refused(
            "zeros",
            script().always(Manifest, raw(&"\0".repeat(1 << 20))),
            Unreachable,
            &[],
        ),
    ]
}

//! Heads that are too long, too many, or none.

use What::{Config, Layer, Manifest};
use fault_registry::{Action, What};
use imagepuller::error::Kind::{Denied, Unreachable};

use crate::row::{Row, fails, pulled, script, taken};

pub fn rows() -> Vec<Row> {
    let raw = |text: &str| Action::Raw(text.to_owned());
    let unread = |name, what, fault: Action| fails(name, what, fault, Unreachable, &[]);
    vec![
        pulled("fifty headers more", script().always(What::Any, [Action::ManyHeaders(50)]))
            .asks(Manifest, 1),
        pulled(
            "a header of ten thousand bytes",
            script().always(Layer(0), [Action::LongHeader(10_000)]),
        )
        .ranges(&[0]),
        unread("ten thousand headers", Manifest, Action::ManyHeaders(10_000)),
        unread("a header of a mebibyte", Layer(0), Action::LongHeader(1 << 20)),
        unread("a header of four mebibytes", Config, Action::LongHeader(4 << 20)),
        unread("the token's header of a mebibyte", What::Token, Action::LongHeader(1 << 20)),
        taken("three interim answers", Manifest, Action::Interim(Some(3))),
        unread("endless interim answers", Manifest, Action::Interim(None))
            .hasty()
            .patience(|patience| patience.budget = std::time::Duration::from_secs(2)),
        unread("another protocol's greeting", Manifest, raw("220 mail.example ESMTP\r\n")),
        unread("a web page without a head", Layer(0), raw("<html></html>\r\n\r\n")),
        unread("a status of five digits", Layer(0), raw("HTTP/1.1 20000 OK\r\n\r\n")),
        unread("nothing but line ends", Manifest, raw("\r\n\r\n\r\n\r\n")),
        fails(
            "a switch of protocols",
            Manifest,
            raw("HTTP/1.1 101 Switching\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"),
            Denied,
            &["101"],
        ),
        unread("zeros", Manifest, raw(&"\0".repeat(1 << 20))),
    ]
}

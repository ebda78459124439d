//! Redirects: followed where they lead to verified hosts, without credentials, and nowhere else.

use What::{Config, Index, Layer, Manifest};
use fault_registry::{Action, End, Script, What};
use imagepuller::error::Kind::{Data, Denied, Unreachable};

use crate::row::{Row, again, ends, fails, pulled, refused, script};

pub fn rows() -> Vec<Row> {
    let layer = |to: &str| script().always(Layer(0), [Action::redirect(to)]);
    let to_other = || layer("{other}{path}");
    let coded = |code| {
        let to = "/hops/0{path}";
        script().once(Manifest, [Action::status_with(code, "Location", to)])
    };
    let nowhere =
        |name, to: &str, kind, words| refused(name, layer(to), kind, words).asks(Layer(0), 1);
    vec![
        again("a path of its own", Layer(0), [Action::redirect("/hops/0{path}")]),
        again("an address of its own", Layer(0), [Action::redirect("{base}/hops/0{path}")]),
        again("a chain of three", Layer(0), [Action::redirect("/hops/3{path}")]),
        refused("a chain of thirty", layer("/hops/30{path}"), Data, &["redirects"])
            .asks_about(What::Unknown, 1..=12),
        refused("a loop", layer("{base}{path}"), Data, &["redirects"]).asks_about(Layer(0), 2..=12),
        fails("a loop of the index", Index, [Action::redirect("{path}")], Data, &["redirects"]),
        pulled("301", coded(301)).asks(Manifest, 2),
        pulled("302", coded(302)).asks(Manifest, 2),
        pulled("303", coded(303)).asks(Manifest, 2),
        pulled("308", coded(308)).asks(Manifest, 2),
        refused(
            "300",
            script().once(Manifest, [Action::status_with(300, "Location", "/x")]),
            Denied,
            &["300"],
        )
        .asks(Manifest, 1),
        pulled("another host", to_other()).other(Script::new(), 1..=1),
        pulled("another host, and it breaks off", to_other())
            .other(Script::new().once(Layer(0), [Action::cut(1000, End::Reset)]), 2..=2),
        pulled("another host, and 503 there", to_other())
            .other(Script::new().once(Layer(0), [Action::status(503)]), 2..=2),
        pulled("another host forgets its signature in the middle", to_other()).other(
            Script::new().once(Layer(0), [Action::cut(1000, End::Reset)]).times(
                Layer(0),
                2..=2,
                [Action::status(403)],
            ),
            3..=3,
        ),
        refused("another host that asks for a password", to_other(), Denied, &["401"])
            .other(script(), 1..=1),
        refused("another host that has nothing", layer("{other}/nothing"), Denied, &["404"])
            .other(Script::new(), 1..=1),
        refused(
            "another host that is not there",
            layer("https://localhost:1/"),
            Unreachable,
            &["3 attempts", "localhost:1"],
        )
        .asks(Layer(0), 3),
        refused("another host that never ends", to_other(), Data, &["redirects"])
            .other(Script::new().always(What::Any, [Action::redirect("{base}{path}")]), 2..=12),
        refused("a host without TLS", to_other(), Denied, &["plain HTTP"])
            .other(Script::new(), 0..=0)
            .plain(),
        nowhere(
            "plain metadata",
            "http://169.254.169.254/latest/meta-data/",
            Data,
            &["169.254.169.254"],
        ),
        nowhere(
            "metadata with TLS",
            "https://169.254.169.254/latest/meta-data/",
            Data,
            &["169.254.169.254"],
        ),
        nowhere("metadata over IPv6", "https://[fd00:ec2::254]/", Data, &["fd00:ec2::254"]),
        nowhere(
            "metadata as an IPv6 address",
            "https://[::ffff:169.254.169.254]/",
            Data,
            &["a9fe:a9fe"],
        ),
        nowhere(
            "metadata by its name",
            "//metadata.google.internal/",
            Data,
            &["only the guest or its cloud"],
        ),
        nowhere(
            "a host of a long name",
            &format!("https://{}/", "x".repeat(10_000)),
            Data,
            &["a host with a name longer than any"],
        ),
        nowhere("a neighbour on the link", "https://[fe80::1]/", Data, &["fe80::1"]),
        nowhere("a file", "file:///etc/passwd", Data, &["no HTTP address"]),
        nowhere("another protocol", "ftp://localhost/blob", Data, &["no HTTP address"]),
        nowhere(
            "a password in the address",
            "https://user:hidden@localhost:1/",
            Data,
            &["password"],
        ),
        nowhere("no host", "https://", Data, &["no HTTP address"]),
        refused("an empty address", layer(""), Data, &["redirects"]),
        ends("no Location", Layer(0), 307, Data, &["redirects"]),
        refused("to a 404", layer("/v2/nothing"), Denied, &["404"]).asks(Layer(0), 1),
        fails(
            "a config elsewhere, and another one",
            Config,
            [Action::redirect("{other}/v2/x/manifests/latest")],
            Data,
            &["configuration"],
        )
        .other(Script::new(), 1..=1),
    ]
}

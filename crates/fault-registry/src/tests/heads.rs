//! Statuses, headers, redirects, floods.

use super::{Ending, start};
use crate::{Action, Length, Script, What};

/// Head of the answer to the layer, in lower case.
fn head(actions: impl IntoIterator<Item = Action>) -> String {
    start(Script::new().always(What::Layer(0), actions)).ask_layer("").0
}

#[test]
fn statuses_and_headers_are_what_the_script_says() {
    for (actions, present, absent) in [
        (
            vec![Action::status_with(503, "Retry-After", "7")],
            "http/1.1 503 whatever\r\nretry-after: 7\r\ncontent-length: 0\r\n",
            "digest",
        ),
        (vec![Action::Code(203)], "http/1.1 203 ", "http/1.1 200"),
        (
            vec![Action::header("Docker-Content-Digest", "sha256:0")],
            "docker-content-digest: sha256:0\r\n",
            "x-none",
        ),
        (vec![Action::without("Content-Type")], "http/1.1 200", "content-type"),
        (
            vec![Action::Schema1],
            "content-type: application/vnd.docker.distribution.manifest.v1+prettyjws",
            "octet-stream",
        ),
        (
            vec![Action::redirect("http://169.254.169.254{path}?a=b")],
            "location: http://169.254.169.254/v2/team/app/blobs/sha256:",
            "http/1.1 200",
        ),
        (vec![Action::redirect("{base}/elsewhere")], "location: http://127.0.0.1:", "{base}"),
        (
            vec![Action::Length(Length::Text("-5".to_owned()))],
            "content-length: -5\r\n",
            "transfer-encoding",
        ),
        (vec![Action::Length(Length::Missing)], "http/1.1 200", "content-length"),
        (vec![Action::Interim(Some(2))], "http/1.1 103 early hints", "http/1.1 200"),
        (
            vec![Action::Raw("220 smtp.example ESMTP\r\n\r\n".to_owned())],
            "220 smtp.example esmtp",
            "http/1.1",
        ),
    ] {
        let head = head(actions.clone());
        assert!(head.contains(present), "{actions:?}: {head}");
        assert!(!head.contains(absent), "{actions:?}: {head}");
    }
}

#[test]
fn lengths_lie() {
    let length = start(Script::new()).bytes.len();
    let value = |length: Length| head([Action::Length(length)]);
    assert!(value(Length::Off(10)).contains(&format!("content-length: {}\r\n", length + 10)));
    assert!(value(Length::Off(-10)).contains(&format!("content-length: {}\r\n", length - 10)));
    let twice = value(Length::Twice);
    assert_eq!(twice.matches("content-length: ").count(), 2, "{twice}");
}

#[test]
fn heads_flood() {
    assert_eq!(head([Action::ManyHeaders(10_000)]).matches("x-flood-").count(), 10_000);
    assert!(head([Action::LongHeader(1 << 20)]).len() > 1 << 20);
    let site = start(Script::new().always(What::Layer(0), [Action::Interim(None)]));
    let (received, ending) = site.ask_up_to(&site.layer_path(), "", 4 << 20);
    assert_eq!(ending, Ending::Silent);
    assert!(received.len() >= 4 << 20);
    let text = String::from_utf8(received).unwrap();
    assert!(!text.contains("HTTP/1.1 200"));
}

#[test]
fn hops_count_down() {
    let site = start(Script::new());
    let path = site.layer_path();
    let next = |path: &str| {
        let (received, _) = site.ask(path, "");
        String::from_utf8_lossy(&received).into_owned()
    };
    assert!(next(&format!("/hops/2{path}")).contains(&format!("Location: /hops/1{path}\r\n")));
    assert!(next(&format!("/hops/0{path}")).starts_with("HTTP/1.1 200 "));
}

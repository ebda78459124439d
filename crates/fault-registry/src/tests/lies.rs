//! Bodies, chunks and ranges that are not what they should be.

use super::{Ending, start};
use crate::{Action, Bytes, Chunked, RangeLie, Script, What};

fn ask(action: Action, headers: &str) -> (String, Vec<u8>, Ending) {
    start(Script::new().always(What::Layer(0), [action])).ask_layer(headers)
}

fn right() -> Vec<u8> {
    start(Script::new()).bytes
}

#[test]
fn bytes_are_others() {
    let right = right();
    let (_, flipped, _) = ask(Action::Body(Bytes::Flipped), "");
    assert_eq!(flipped.len(), right.len());
    let differing = flipped.iter().zip(&right).filter(|(a, b)| a != b).count();
    assert_eq!(differing, 1);
    let (head, truncated, _) = ask(Action::Body(Bytes::Truncated(7)), "");
    assert!(head.contains("content-length: 7\r\n"));
    assert_eq!(truncated, &right[..7]);
    let (head, longer, _) = ask(Action::Body(Bytes::Longer(3)), "");
    assert!(head.contains(&format!("content-length: {}\r\n", right.len() + 3)));
    assert_eq!(longer.len(), right.len() + 3);
    let (_, text, _) = ask(Action::Body(Bytes::Text("words".to_owned())), "");
    assert_eq!(text, b"words");
    let site = start(Script::new().always(What::Layer(0), [Action::Body(Bytes::Endless)]));
    let (received, ending) = site.ask_up_to(&site.layer_path(), "", right.len() + (8 << 20));
    assert_eq!(ending, Ending::Silent);
    assert!(received.len() >= right.len() + (8 << 20));
}

#[test]
fn chunks_are_odd() {
    let right = right();
    for (kind, start, end, ending) in [
        (Chunked::Plain, "4000\r\n", "\r\n0\r\n\r\n", Ending::Closed),
        (Chunked::Tiny, "1\r\n", "\r\n0\r\n\r\n", Ending::Closed),
        (Chunked::Extensions, "4000;name=value;", "\r\n0\r\n\r\n", Ending::Closed),
        (Chunked::LongExtension, "4000;long=xxxx", "\r\n0\r\n\r\n", Ending::Closed),
        (Chunked::Trailers, "4000\r\n", "sha256:0\r\n\r\n", Ending::Closed),
        (Chunked::ManyTrailers, "4000\r\n", "X-Trailer-9999: x\r\n\r\n", Ending::Closed),
        (Chunked::HugeSize, "10000000000004000\r\n", "\r\n0\r\n\r\n", Ending::Closed),
        (Chunked::BadSize, "0x4000\r\n", "\r\n0\r\n\r\n", Ending::Closed),
        (Chunked::AndLength, "4000\r\n", "\r\n0\r\n\r\n", Ending::Closed),
    ] {
        let (head, body, seen) = ask(Action::Chunked(kind), "");
        assert!(head.contains("transfer-encoding: chunked\r\n"));
        assert_eq!(head.contains("content-length: 7\r\n"), kind == Chunked::AndLength);
        assert!(body.starts_with(start.as_bytes()), "{kind:?}");
        assert!(body.ends_with(end.as_bytes()), "{kind:?}");
        assert!(body.len() > right.len(), "{kind:?}");
        assert_eq!(seen, ending, "{kind:?}");
    }
    let (_, body, ending) = ask(Action::Chunked(Chunked::MissingEnd), "");
    assert!(body.ends_with(&[&right[right.len() - 10..], b"\r\n"].concat()));
    assert_eq!(ending, Ending::Closed);
}

#[test]
fn ranges_lie() {
    let right = right();
    let total = right.len();
    let last = total - 1;
    let (first, half) = (1000, total / 2);
    for (lie, status, range, body) in [
        (RangeLie::Ignored, 200, String::new(), right.clone()),
        (RangeLie::OtherStart, 206, format!("bytes 900-{last}/{total}"), right[900..].to_vec()),
        (
            RangeLie::HiddenStart,
            206,
            format!("bytes 1000-{last}/{total}"),
            right[900..total - 100].to_vec(),
        ),
        (
            RangeLie::WrongTotal,
            206,
            format!("bytes 1000-{last}/{}", 2 * total),
            right[first..].to_vec(),
        ),
        (
            RangeLie::OtherBytes,
            206,
            format!("bytes 1000-{last}/{total}"),
            right[first..].iter().map(|byte| !byte).collect(),
        ),
        (RangeLie::Unnamed, 206, String::new(), right[first..].to_vec()),
        (RangeLie::Unasked, 206, format!("bytes {half}-{last}/{total}"), right[half..].to_vec()),
    ] {
        let (head, seen, _) = ask(Action::Range(lie), "Range: bytes=1000-\r\n");
        assert!(head.starts_with(&format!("http/1.1 {status} ")), "{lie:?}: {head}");
        let has_range = head.contains("content-range: ");
        assert_eq!(has_range, !range.is_empty(), "{lie:?}");
        assert!(
            range.is_empty() || head.contains(&format!("content-range: {range}\r\n")),
            "{lie:?}: {head}"
        );
        assert_eq!(seen, body, "{lie:?}");
    }
    let (head, _, _) = ask(Action::Range(RangeLie::Refused), "Range: bytes=1000-\r\n");
    assert!(head.contains(&format!("content-range: bytes */{total}\r\n")));
    let (head, body, _) = ask(Action::Range(RangeLie::Unasked), "");
    assert!(head.starts_with("http/1.1 206 "));
    assert_eq!(body, &right[half..]);
    let (_, body, _) = ask(Action::Range(RangeLie::Multipart), "Range: bytes=1000-\r\n");
    assert!(body.starts_with(b"--part\r\n") && body.ends_with(b"--part--\r\n"));
}

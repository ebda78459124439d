//! Ranges: asked for, given, and lied about.

use std::sync::Arc;

use crate::action::RangeLie;
use crate::answer::Answer;
use crate::request::Request;

/// What `Range: bytes=FIRST-LAST` asks for: the first byte, and the one after the last.
pub(super) fn asked(request: &Request, length: usize) -> Option<(usize, usize)> {
    let (first, last) = request.header("range")?.strip_prefix("bytes=")?.split_once('-')?;
    let first = first.parse().ok()?;
    let end = match last {
        "" => length,
        last => last.parse::<usize>().ok()?.saturating_add(1).min(length),
    };
    Some((first, end))
}

/// Answers what was asked for, as it should be.
pub(super) fn apply(answer: &mut Answer, request: &Request) {
    let length = answer.body.bytes.len();
    let Some((first, end)) = asked(request, length) else {
        return;
    };
    if first >= end {
        *answer = refusal(length);
        return;
    }
    cut(answer, first, end);
    name(answer, first, end, length);
}

/// Answers otherwise. `whole` is the answer as if no range had been asked for.
pub(super) fn lie(lie: RangeLie, whole: Answer, request: &Request) -> Answer {
    let length = whole.body.bytes.len();
    let (first, end) = asked(request, length).unwrap_or((length / 2, length));
    let mut answer = whole.clone();
    match lie {
        RangeLie::Ignored => return whole,
        RangeLie::Refused => return refusal(length),
        RangeLie::OtherStart => {
            let first = first.saturating_sub(100);
            cut(&mut answer, first, end);
            name(&mut answer, first, end, length);
        }
        RangeLie::HiddenStart => {
            cut(&mut answer, first.saturating_sub(100), end.saturating_sub(100));
            name(&mut answer, first, end, length);
        }
        RangeLie::WrongTotal => {
            cut(&mut answer, first, end);
            name(&mut answer, first, end, length * 2);
        }
        RangeLie::OtherBytes => {
            cut(&mut answer, first, end);
            let other = answer.body.bytes.iter().map(|byte| !byte).collect();
            answer.body.bytes = Arc::new(other);
            name(&mut answer, first, end, length);
        }
        RangeLie::Unnamed => {
            cut(&mut answer, first, end);
            answer.status = 206;
        }
        RangeLie::Unasked => {
            cut(&mut answer, length / 2, length);
            name(&mut answer, length / 2, length, length);
        }
        RangeLie::Multipart => {
            cut(&mut answer, first, end);
            let part = format!(
                "--part\r\nContent-Range: bytes {first}-{}/{length}\r\n\r\n",
                end.saturating_sub(1)
            );
            let bytes = [part.as_bytes(), &answer.body.bytes, b"\r\n--part--\r\n"].concat();
            answer.body.bytes = Arc::new(bytes);
            answer.status = 206;
            let kind = "multipart/byteranges; boundary=part".to_owned();
            answer.set_header("Content-Type", Some(kind));
        }
    }
    answer
}

fn cut(answer: &mut Answer, first: usize, end: usize) {
    let bytes = answer.body.bytes.get(first..end).unwrap_or_default();
    answer.body.bytes = Arc::new(bytes.to_vec());
}

fn name(answer: &mut Answer, first: usize, end: usize, length: usize) {
    let range = format!("bytes {first}-{}/{length}", end.saturating_sub(1));
    answer.status = 206;
    answer.set_header("Content-Range", Some(range));
}

fn refusal(length: usize) -> Answer {
    let mut answer = Answer::error(416, "RANGE_INVALID");
    answer.set_header("Content-Range", Some(format!("bytes */{length}")));
    answer
}

//! Answers in HTTP/1.1.

use std::io::{self, Write};
use std::thread::sleep;
use std::time::Duration;

use crate::action::{End, Point};
use crate::answer::{Answer, Framing};
use crate::chunks::Chunks;
use crate::wire::Wire;

/// What becomes of a connection after an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum After {
    /// The next request may come.
    Next,
    /// It ends as it should.
    Finish,
    /// It ends otherwise.
    End(End),
}

/// Writes an answer.
pub(super) fn write(wire: &mut Wire, answer: &Answer) -> io::Result<After> {
    sleep(Duration::from_millis(answer.wait_ms));
    if let Some((Point::Answer, how)) = answer.cut {
        return Ok(After::End(how));
    }
    if let Some(raw) = &answer.raw {
        wire.write_all(raw.as_bytes())?;
        return Ok(After::Finish);
    }
    interim(wire, answer)?;
    let head = head(answer);
    if let Some((Point::Head, how)) = answer.cut {
        wire.write_all(&head.as_bytes()[..head.len() / 2])?;
        return Ok(After::End(how));
    }
    wire.write_all(head.as_bytes())?;
    let is_proper = body(wire, answer)?;
    wire.flush()?;
    Ok(match answer.cut {
        Some((Point::Body(_), how)) => After::End(how),
        // A stream that is reset has no other likeness here.
        _ if answer.body_limit() < usize::MAX => After::End(End::Reset),
        _ if is_proper => After::Next,
        _ => After::Finish,
    })
}

fn interim(wire: &mut Wire, answer: &Answer) -> io::Result<()> {
    let Some(count) = answer.interim else {
        return Ok(());
    };
    let mut written = 0;
    while count.is_none_or(|count| written < count) {
        wire.write_all(b"HTTP/1.1 103 Early Hints\r\nLink: </style.css>; rel=preload\r\n\r\n")?;
        written += 1;
    }
    Ok(())
}

fn head(answer: &Answer) -> String {
    let mut head = format!("HTTP/1.1 {} Whatever\r\n", answer.status);
    let lengths = answer.lengths().into_iter().map(|length| ("Content-Length".to_owned(), length));
    let coding = matches!(answer.framing, Framing::Chunked(_))
        .then(|| ("Transfer-Encoding".to_owned(), "chunked".to_owned()));
    for (name, value) in answer.headers.iter().cloned().chain(lengths).chain(coding) {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head + "\r\n"
}

/// Writes the body; says whether the other side knows where it ended.
fn body(wire: &mut Wire, answer: &Answer) -> io::Result<bool> {
    let mut chunks = match &answer.framing {
        Framing::Chunked(kind) => Some(Chunks::new(*kind)),
        _ => None,
    };
    for piece in answer.pieces() {
        match &mut chunks {
            Some(chunks) => chunks.write(wire, &piece)?,
            None => wire.write_all(&piece)?,
        }
        if let Some((_, pause_ms)) = answer.drip {
            wire.flush()?;
            sleep(Duration::from_millis(pause_ms));
        }
    }
    if let Some(chunks) = chunks {
        if answer.body_limit() == usize::MAX {
            chunks.end(wire)?;
        }
        return Ok(chunks.is_proper());
    }
    Ok(answer.framing == Framing::Right)
}

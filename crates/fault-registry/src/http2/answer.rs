//! Answers in HTTP/2.

use std::io::{self, Write as _};
use std::thread::sleep;
use std::time::Duration;

use super::connection::Connection;
use super::frame::{
    self, CONTINUATION, DATA, END_HEADERS, END_STREAM, GOAWAY, HEADERS, MAX_FRAME, PING,
    RST_STREAM, SETTINGS,
};
use super::hpack::{Header, encode};
use crate::action::{End, Http2Fault, Point};
use crate::answer::Answer;
use crate::http1::After;

/// Writes an answer.
pub(super) fn write(
    connection: &mut Connection<'_>,
    stream: u32,
    answer: &Answer,
) -> io::Result<After> {
    sleep(Duration::from_millis(answer.wait_ms));
    if let Some((Point::Answer, how)) = answer.cut {
        return Ok(After::End(how));
    }
    if let Some(raw) = &answer.raw {
        connection.wire.write_all(raw.as_bytes())?;
        return Ok(After::Finish);
    }
    if let Some(fault) = answer.http2
        && instead(connection, stream, fault)?
    {
        return Ok(After::Finish);
    }
    let stream = match answer.http2 {
        Some(Http2Fault::UnknownStream) => stream + 1000,
        _ => stream,
    };
    if headers(connection, stream, answer)? == Some(Point::Head) {
        return Ok(answer.cut.map_or(After::Finish, |(_, how)| After::End(how)));
    }
    if answer.body.is_withheld {
        return end(connection, stream, answer);
    }
    if answer.http2 == Some(Http2Fault::IgnoredWindow) {
        return flood(connection, stream, answer);
    }
    body(connection, stream, answer)
}

/// Faults in place of an answer; says whether it was one.
fn instead(connection: &mut Connection<'_>, stream: u32, fault: Http2Fault) -> io::Result<bool> {
    let wire = &mut *connection.wire;
    match fault {
        Http2Fault::Pings => loop {
            frame::write(wire, PING, 0, 0, &[0; 8])?;
        },
        Http2Fault::Settings => loop {
            frame::write(wire, SETTINGS, 0, 0, &[])?;
        },
        Http2Fault::EndlessContinuation => {
            frame::write(wire, HEADERS, 0, stream, &plausible_head())?;
            loop {
                let more = encode(&[("x-endless".to_owned(), "x".repeat(10_000))]);
                frame::write(wire, CONTINUATION, 0, stream, &more)?;
            }
        }
        Http2Fault::BadHeaderBlock => {
            // An index beyond every table.
            frame::write(
                wire,
                HEADERS,
                END_HEADERS,
                stream,
                &[0xff, 0xff, 0xff, 0x7f],
            )?;
            wire.flush()?;
            Ok(true)
        }
        Http2Fault::OversizedFrame => {
            frame::write(wire, HEADERS, END_HEADERS, stream, &plausible_head())?;
            frame::write(wire, DATA, 0, stream, &vec![0; (1 << 24) - 1])?;
            wire.flush()?;
            Ok(true)
        }
        Http2Fault::EmptyData => {
            frame::write(wire, HEADERS, END_HEADERS, stream, &plausible_head())?;
            loop {
                frame::write(wire, DATA, 0, stream, &[])?;
            }
        }
        _ => Ok(false),
    }
}

fn plausible_head() -> Vec<u8> {
    encode(&[
        (":status".to_owned(), "200".to_owned()),
        ("content-length".to_owned(), "1000".to_owned()),
    ])
}

/// Writes the headers, over several frames if they are long. Says where it broke off, if it did.
fn headers(
    connection: &mut Connection<'_>,
    stream: u32,
    answer: &Answer,
) -> io::Result<Option<Point>> {
    let mut all: Vec<Header> = vec![(":status".to_owned(), answer.status.to_string())];
    all.extend(answer.headers.iter().cloned());
    let lengths = answer.lengths().into_iter();
    all.extend(lengths.map(|length| ("content-length".to_owned(), length)));
    let block = encode(&all);
    if answer.cut.is_some_and(|(point, _)| point == Point::Head) {
        frame::write(
            connection.wire,
            HEADERS,
            0,
            stream,
            &block[..block.len() / 2],
        )?;
        connection.wire.flush()?;
        return Ok(Some(Point::Head));
    }
    let mut pieces = block.chunks(MAX_FRAME).peekable();
    let mut kind = HEADERS;
    while let Some(piece) = pieces.next() {
        let flags = if pieces.peek().is_none() {
            END_HEADERS
        } else {
            0
        };
        frame::write(connection.wire, kind, flags, stream, piece)?;
        kind = CONTINUATION;
    }
    connection.wire.flush()?;
    Ok(None)
}

fn body(connection: &mut Connection<'_>, stream: u32, answer: &Answer) -> io::Result<After> {
    for piece in answer.pieces() {
        let mut rest = piece.as_slice();
        while !rest.is_empty() {
            let taken = connection.take_window(stream, rest.len())?;
            if taken == 0 {
                return Ok(After::Next);
            }
            let (now, later) = rest.split_at(taken);
            frame::write(connection.wire, DATA, 0, stream, now)?;
            rest = later;
        }
        if let Some((_, pause_ms)) = answer.drip {
            connection.wire.flush()?;
            sleep(Duration::from_millis(pause_ms));
        }
    }
    end(connection, stream, answer)
}

/// What follows the last byte of a body that is sent.
fn end(connection: &mut Connection<'_>, stream: u32, answer: &Answer) -> io::Result<After> {
    let wire = &mut *connection.wire;
    let after = match (answer.cut, answer.http2) {
        (Some((_, how)), _) => After::End(how),
        (_, Some(Http2Fault::Reset { code, .. })) => {
            frame::write(wire, RST_STREAM, 0, stream, &code.to_be_bytes())?;
            After::Next
        }
        (_, Some(Http2Fault::GoAway { code, .. })) => {
            let payload = [stream.to_be_bytes(), code.to_be_bytes()].concat();
            frame::write(wire, GOAWAY, 0, 0, &payload)?;
            After::End(End::Close)
        }
        _ => {
            if !connection.is_abandoned(stream) {
                frame::write(connection.wire, DATA, END_STREAM, stream, &[])?;
            }
            After::Next
        }
    };
    connection.wire.flush()?;
    Ok(after)
}

/// Sends everything, and more than any window has room for.
fn flood(connection: &mut Connection<'_>, stream: u32, answer: &Answer) -> io::Result<After> {
    for piece in answer.pieces() {
        frame::write(connection.wire, DATA, 0, stream, &piece)?;
    }
    for _ in 0..1 << 14 {
        frame::write(connection.wire, DATA, 0, stream, &[0; 4096])?;
    }
    connection.wire.flush()?;
    Ok(After::Finish)
}

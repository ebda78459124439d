//! Answers in HTTP/2.

use std::future::poll_fn;
use std::io;
use std::task::Poll;
use std::thread::sleep;
use std::time::Duration;

use bytes::Bytes;
use h2::SendStream;
use h2::server::SendResponse;

use super::lie;
use super::stream::Stream;
use crate::action::{End, Http2Fault, Point};
use crate::answer::Answer;
use crate::http1::After;

/// Writes an answer.
pub(super) async fn write(
    stream: &Stream,
    mut respond: SendResponse<Bytes>,
    answer: &Answer,
) -> io::Result<After> {
    // What `h2` still has to say comes before any frame of our own.
    pass().await;
    sleep(Duration::from_millis(answer.wait_ms));
    let id = respond.stream_id().as_u32();
    match (answer.cut, &answer.raw) {
        (Some((Point::Answer, how)), _) => return Ok(After::End(how)),
        (_, Some(raw)) => {
            stream.write(raw.as_bytes())?;
            return Ok(After::Finish);
        }
        (Some((Point::Head, how)), _) => {
            lie::half_head(stream, id)?;
            return Ok(After::End(how));
        }
        _ => {}
    }
    if let Some(fault) = answer.http2 {
        lie::flood(stream, id, fault)?;
    }
    let mut response = http::Response::builder().status(answer.status);
    for (name, value) in &answer.headers {
        response = response.header(name, value);
    }
    for length in answer.lengths() {
        response = response.header("content-length", length);
    }
    let response = response.body(()).map_err(io::Error::other)?;
    let sending = respond.send_response(response, false);
    let mut sending = sending.map_err(io::Error::other)?;
    for piece in answer.pieces() {
        if !send(&mut sending, piece.into()).await? {
            return Ok(After::Next);
        }
        if let Some((_, pause_ms)) = answer.drip {
            pass().await;
            sleep(Duration::from_millis(pause_ms));
        }
    }
    end(stream, id, &mut sending, answer).await
}

/// Sends data as far as the client takes it; says whether it still wants more.
async fn send(sending: &mut SendStream<Bytes>, mut piece: Bytes) -> io::Result<bool> {
    while !piece.is_empty() {
        sending.reserve_capacity(piece.len());
        let free = match sending.capacity() {
            0 => poll_fn(|context| sending.poll_capacity(context)).await,
            free => Some(Ok(free)),
        };
        let Some(Ok(free)) = free else {
            return Ok(false);
        };
        let now = piece.split_to(free.min(piece.len()));
        sending.send_data(now, false).map_err(io::Error::other)?;
    }
    Ok(true)
}

/// What follows the last byte of a body that is sent.
async fn end(
    stream: &Stream,
    id: u32,
    sending: &mut SendStream<Bytes>,
    answer: &Answer,
) -> io::Result<After> {
    pass().await;
    Ok(match (answer.cut, answer.http2) {
        (Some((_, how)), _) => After::End(how),
        (_, Some(Http2Fault::Reset { code, .. })) => {
            lie::reset(stream, id, code)?;
            After::Next
        }
        (_, Some(Http2Fault::GoAway { code, .. })) => {
            lie::go_away(stream, id, code)?;
            After::End(End::Close)
        }
        _ => {
            // A client that has given the stream up wants no end of it.
            let _ = sending.send_data(Bytes::new(), true);
            After::Next
        }
    })
}

/// Lets the connection write what it has.
async fn pass() {
    let mut has_passed = false;
    poll_fn(|context| {
        if std::mem::replace(&mut has_passed, true) {
            return Poll::Ready(());
        }
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

//! HTTP/2 (RFC 9113): what is right is said by the package `h2`; lies are frames of our own that
//! pass it by.

mod answer;
mod lie;
mod stream;

use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::{self, Read as _, Write as _};
use std::pin::pin;
use std::task::Poll;

use bytes::Bytes;
use h2::RecvStream;
use h2::server::{Connection, SendResponse};

use crate::http1::After;
use crate::request::Request;
use crate::server::Shared;
use crate::wire::Wire;
use stream::Stream;

type Accepted = (http::Request<RecvStream>, SendResponse<Bytes>);

/// Serves one connection to its end, one answer after another.
pub(super) fn serve(wire: Wire, number: usize, registry: &Shared) -> io::Result<(Wire, After)> {
    let stream = Stream::new(wire)?;
    let after = stream.block_on(answer_all(&stream, number, registry))?;
    Ok((stream.into_wire()?, after))
}

/// Takes the beginning of a request in another version, and answers with nothing or with settings.
pub(super) fn refuse(wire: &mut Wire, answers: bool) -> io::Result<()> {
    wire.read_exact(&mut [0; 24])?;
    if answers {
        wire.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0])?;
    }
    Ok(())
}

async fn answer_all(stream: &Stream, number: usize, registry: &Shared) -> io::Result<After> {
    let handshake = h2::server::handshake(stream.clone());
    let mut connection = handshake.await.map_err(io::Error::other)?;
    let mut waiting = VecDeque::new();
    loop {
        if waiting.is_empty() {
            let Some(accepted) = connection.accept().await else {
                return Ok(After::Finish);
            };
            waiting.push_back(accepted.map_err(io::Error::other)?);
        }
        let Some((request, respond)) = waiting.pop_front() else {
            continue;
        };
        let answering = async {
            let answer = registry.answer(read(request, number).await?);
            answer::write(stream, respond, &answer).await
        };
        match drive(&mut connection, &mut waiting, answering).await? {
            After::Next => {}
            after => return Ok(after),
        }
    }
}

/// Answers one request, while the connection goes on and takes in others.
async fn drive(
    connection: &mut Connection<Stream, Bytes>,
    waiting: &mut VecDeque<Accepted>,
    answering: impl Future<Output = io::Result<After>>,
) -> io::Result<After> {
    let mut answering = pin!(answering);
    poll_fn(|context| {
        while let Poll::Ready(Some(accepted)) = connection.poll_accept(context) {
            waiting.push_back(accepted.map_err(io::Error::other)?);
        }
        let answered = answering.as_mut().poll(context);
        // What was answered leaves only when the connection looks again. Where the answer ends the
        // connection it must not: `h2` would say that the stream was cancelled.
        if matches!(answered, Poll::Pending | Poll::Ready(Ok(After::Next))) {
            while let Poll::Ready(Some(Ok(accepted))) = connection.poll_accept(context) {
                waiting.push_back(accepted);
            }
        }
        answered
    })
    .await
}

async fn read(asked: http::Request<RecvStream>, number: usize) -> io::Result<Request> {
    let (head, mut body) = asked.into_parts();
    let target = head.uri.path_and_query().map_or("", |target| target.as_str());
    let mut request = Request::new(head.method.as_str(), target);
    request.connection = number;
    request.is_http2 = true;
    let authority = head.uri.authority().map_or("", |name| name.as_str());
    request.headers = vec![("host".to_owned(), authority.to_owned())];
    let headers = head.headers.iter().map(|(name, value)| {
        let value = String::from_utf8_lossy(value.as_bytes());
        (name.as_str().to_owned(), value.into_owned())
    });
    request.headers.extend(headers);
    while let Some(data) = body.data().await {
        let data = data.map_err(io::Error::other)?;
        let released = body.flow_control().release_capacity(data.len());
        released.map_err(io::Error::other)?;
        request.body.push_str(&String::from_utf8_lossy(&data));
    }
    Ok(request)
}

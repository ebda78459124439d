//! What is asked for again and what is not, and blobs whose transfer is cut off.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use crate::support;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use registry_client::Patience;
use support::{CONTENT, blob, fetch, hasty, impatient, plain, text};
use test_http::{SILENCE, Server, head};

const SIZE: u64 = CONTENT.len() as u64;

/// A server without TLS whose answers come in this order; the last one for ever.
fn answers(answers: &[String]) -> Server {
    let (answers, next) = (answers.to_vec(), AtomicUsize::new(0));
    Server::start(None, move |_| {
        let at = next.fetch_add(1, Ordering::SeqCst);
        answers[at.min(answers.len() - 1)].clone()
    })
}

fn cut(after: usize) -> String {
    let body = &CONTENT[..after];
    format!("HTTP/1.1 200 OK\r\nContent-Length: {SIZE}\r\nConnection: close\r\n\r\n{body}")
}

/// Bytes of the content as an answer to "bytes=FROM-".
fn rest(from: usize, to: usize, total: &str) -> String {
    let body = &CONTENT[from..to];
    format!(
        "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes {from}-{}/{total}\r\nContent-Length: \
        {}\r\nConnection: close\r\n\r\n{body}",
        to - 1,
        body.len()
    )
}

#[test]
fn each_failure_is_told_once() {
    let server = answers(&[head("500 a", ""), head("503 a", ""), head("500 a", "")]);
    let error = fetch(&plain(server.port), server.port, &hasty()).unwrap_err();
    let text = text(&error);
    assert!(text.starts_with("5 attempts: localhost:"), "{text}");
    for (words, count) in [("answers 500", 1), ("answers 503", 1), ("(4 times)", 1), (";", 1)] {
        assert_eq!(text.matches(words).count(), count, "{words}: {text}");
    }
}

#[test]
fn a_hanging_source_does_not_eat_the_time_of_the_next() {
    let server = answers(&[SILENCE.to_owned()]);
    let document = format!(
        "{}mirror = \"http://localhost:{}\"\nmirror-fallback = true\n",
        plain(server.port),
        server.port
    );
    let patience =
        Patience { budget_before_fallback: Duration::from_millis(200), ..Patience::default() };
    let error = fetch(&document, server.port, &patience).unwrap_err();
    assert!(
        text(&error).contains("no manifest within the 0.2 s that this source is given"),
        "{error}"
    );
    assert!(error.is_source_down());
}

#[test]
fn all_the_bytes_and_no_end_may_be_right() {
    let endless = format!("HTTP/1.1 200 OK\r\n\r\n{CONTENT}{SILENCE}");
    let server = answers(&[endless]);
    assert_eq!(blob(&plain(server.port), server.port, SIZE, &impatient()).unwrap(), CONTENT);
}

/// A mirror with a registry behind it, as one document.
fn mirror(server: &Server) -> String {
    format!(
        "{}mirror = \"http://localhost:{}\"\nmirror-fallback = true\n",
        plain(server.port),
        server.port
    )
}

/// Where another source is left, a source has that little time for a blob, whatever its size would
/// allow.
#[test]
fn a_drip_does_not_eat_the_time_of_the_next() {
    let steps: Vec<_> = (1..21).map(|at| rest(at, at + 1, "21")).collect();
    let server = answers(&[&[cut(1)], &steps[..]].concat());
    // Each byte takes a break of about half a second.
    let patience = Patience {
        first_delay: Duration::from_secs(1),
        budget_before_fallback: Duration::from_secs(2),
        ..Patience::default()
    };
    let error = blob(&mirror(&server), server.port, SIZE, &patience).unwrap_err();
    assert!(text(&error).contains("is too slow: "), "{error}");
    assert!(!error.is_source_down());
    // Only bytes that have come earn more time.
    let server = answers(&[format!(
        "HTTP/1.1 200 OK\r\nContent-Length: {}\r\n\r\n{CONTENT}{SILENCE}",
        1 << 30
    )]);
    let patience = Patience { slow_start: Duration::from_secs(2), ..Patience::default() };
    let error = blob(&plain(server.port), server.port, 1 << 30, &patience).unwrap_err();
    assert!(text(&error).contains("is too slow: 1073741824 bytes take longer than 2 s"), "{error}");
}

#[test]
fn a_second_late_blob_is_enough() {
    let server = answers(&[format!("{}{SILENCE}", cut(5))]);
    let patience =
        Patience { attempts: Some(1), stall: Duration::from_secs(1), ..Patience::default() };
    let lose = |document: &str| {
        support::run(async {
            let host = format!("localhost:{}", server.port);
            let registry = support::open(document, &host, &patience).unwrap();
            let mut errors = Vec::new();
            for _ in 0..2 {
                let mut blob = registry.blob(&support::digest(), SIZE).await.unwrap();
                assert!(blob.next().await.unwrap().is_some());
                errors.push(blob.next().await.unwrap_err());
            }
            errors
        })
    };
    let errors = lose(&mirror(&server));
    let down: Vec<_> = errors.iter().map(registry_client::Error::is_source_down).collect();
    assert_eq!(down, [false, true]);
    assert!(text(&errors[1]).contains("stood still"), "{}", errors[1]);
    // Without another source there is nobody to be asked instead.
    assert!(!lose(&plain(server.port))[1].is_source_down());
}

/// A registry that was away for longer than a drip may last once ended the transfer as too slow.
#[test]
fn a_source_that_is_away_is_not_slow() {
    let mut steps = vec![cut(5)];
    steps.extend(vec![head("503 Service Unavailable", ""); 6]);
    steps.push(rest(5, 21, "21"));
    let server = answers(&steps);
    let patience = Patience {
        first_delay: Duration::from_millis(400),
        largest_delay: Duration::from_millis(400),
        slow_start: Duration::from_millis(300),
        ..Patience::default()
    };
    let content = blob(&plain(server.port), server.port, SIZE, &patience);
    assert_eq!(content.unwrap(), CONTENT);
}

//! What is asked for again and what is not, and blobs whose transfer is cut off.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use crate::support;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use registry_client::Patience;
use support::{CONTENT, blob, fetch, hasty, impatient, plain, text};
use test_http::{Request, SILENCE, Server, head, ok};

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

/// The first line and the range of each request that speaks HTTP.
fn ranges(server: &Server) -> Vec<String> {
    let requests = server.requests();
    let http = requests.iter().filter(|request| request.starts_with("GET "));
    let range = |request: &Request| request.header("range").unwrap_or_default().to_owned();
    http.map(range).collect()
}

#[test]
fn what_can_get_better_is_asked_for_again() {
    for status in ["408 a", "429 a", "500 a", "502 a", "503 a", "504 a"] {
        let server = answers(&[head(status, ""), head(status, "Retry-After: 0\r\n"), ok(CONTENT)]);
        let document = plain(server.port);
        assert_eq!(
            fetch(&document, server.port, &hasty()).unwrap(),
            CONTENT.as_bytes(),
            "{status}"
        );
        assert_eq!(ranges(&server).len(), 3, "{status}");
    }
    for broken in [
        String::new(),
        "HTTP/1.1 200 OK\r\nContent-".to_owned(),
        cut(5),
        SILENCE.to_owned(),
        format!("{}{SILENCE}", cut(5)),
    ] {
        let server = answers(&[broken.clone(), broken.clone(), ok(CONTENT)]);
        // The end of an answer that has none is not waited for at the first request, which looks
        // for TLS.
        let document = plain(server.port);
        assert!(fetch(&document, server.port, &impatient()).is_ok(), "{broken:?}");
    }
}

#[test]
fn what_stays_the_same_is_not() {
    for status in ["400 a", "403 a", "404 a", "405 a", "418 a", "501 a", "505 a", "204 a"] {
        let server = answers(&[head(status, ""), ok(CONTENT)]);
        let error = fetch(&plain(server.port), server.port, &hasty()).unwrap_err();
        assert!(text(&error).contains(&status[..3]), "{error}");
        assert_eq!(ranges(&server).len(), 1, "{status}");
    }
    let server = answers(&["nonsense\r\n\r\n".to_owned(), ok(CONTENT)]);
    assert!(fetch(&plain(server.port), server.port, &hasty()).is_err());
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
fn the_servers_time_is_kept_to_within_the_budget() {
    let server = answers(&[head("429 a", "Retry-After: 3600\r\n"), ok(CONTENT)]);
    let error = fetch(&plain(server.port), server.port, &hasty()).unwrap_err();
    let text = text(&error);
    assert!(text.ends_with("; it asks to be tried again in 3600 s"), "{text}");
    assert!(error.is_source_down());
    assert_eq!(ranges(&server).len(), 1);
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
fn a_cut_blob_is_taken_up_again() {
    let all = SIZE.to_string();
    for (story, first, then) in [
        ("cut", cut(5), rest(5, 21, &all)),
        ("cut before the first byte", cut(0), ok(CONTENT)),
        ("unknown total", cut(5), rest(5, 21, "*")),
        ("ignored", cut(5), ok(CONTENT)),
        ("stalled", format!("{}{SILENCE}", cut(7)), rest(7, 21, &all)),
        ("no length", format!("HTTP/1.1 200 OK\r\n\r\n{}", &CONTENT[..9]), rest(9, 21, &all)),
        (
            "chunks without an end",
            format!(
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n{}\r\n",
                &CONTENT[..4]
            ),
            rest(4, 21, &all),
        ),
    ] {
        let patience = match story {
            "stalled" => Patience { stall: Duration::from_secs(2), ..hasty() },
            _ => hasty(),
        };
        let server = answers(&[first, then]);
        let content = blob(&plain(server.port), server.port, SIZE, &patience);
        assert_eq!(content.unwrap_or_else(|error| panic!("{story}: {error}")), CONTENT, "{story}");
        assert_eq!(ranges(&server).len(), 2, "{story}");
    }
    let server = answers(&[cut(5), rest(5, 8, &all), rest(8, 20, &all), rest(20, 21, &all)]);
    assert_eq!(blob(&plain(server.port), server.port, SIZE, &hasty()).unwrap(), CONTENT);
    assert_eq!(ranges(&server), ["", "bytes=5-", "bytes=8-", "bytes=20-"]);
}

#[test]
fn a_liar_about_ranges_is_asked_for_the_whole() {
    let all = SIZE.to_string();
    for lie in [
        rest(4, 21, &all),
        rest(5, 21, "22"),
        rest(5, 21, &all).replace("Content-Range", "X-Range"),
        head("416 Range Not Satisfiable", ""),
    ] {
        let server = answers(&[cut(5), lie.clone(), ok(CONTENT)]);
        assert_eq!(
            blob(&plain(server.port), server.port, SIZE, &hasty()).unwrap(),
            CONTENT,
            "{lie}"
        );
        assert_eq!(ranges(&server), ["", "bytes=5-", ""], "{lie}");
    }
    // Nobody asked for a part.
    let server = answers(&[rest(5, 21, &all)]);
    assert!(blob(&plain(server.port), server.port, SIZE, &hasty()).is_err());
}

#[test]
fn a_blob_is_never_longer_than_described() {
    for (answer, words) in [
        (ok(&format!("{CONTENT}!")), "announces another number of bytes of a blob that has 21"),
        (ok("short"), "announces another number of bytes of a blob that has 21"),
        (format!("HTTP/1.1 200 OK\r\n\r\n{CONTENT}!"), "sends more bytes of a blob that has 21"),
    ] {
        let server = answers(&[answer]);
        let error = blob(&plain(server.port), server.port, SIZE, &hasty()).unwrap_err();
        assert!(text(&error).contains(words), "{words}: {error}");
        assert!(!error.is_source_down());
        assert_eq!(ranges(&server).len(), 1);
    }
    // All the bytes and no end: they may be right.
    let endless = format!("HTTP/1.1 200 OK\r\n\r\n{CONTENT}{SILENCE}");
    let server = answers(&[endless]);
    assert_eq!(blob(&plain(server.port), server.port, SIZE, &impatient()).unwrap(), CONTENT);
}

#[test]
fn a_blob_that_never_gets_further_is_given_up() {
    let server = answers(&[cut(5), cut(5)]);
    let error = blob(&plain(server.port), server.port, SIZE, &hasty()).unwrap_err();
    assert!(text(&error).starts_with("5 attempts: the transfer from localhost:"), "{error}");
    assert!(!error.is_source_down());
    assert_eq!(ranges(&server).len(), 5);

    // One byte at a time is progress, but not for ever.
    let steps: Vec<_> = (1..20).map(|at| rest(at, at + 1, "21")).collect();
    let server = answers(&[&[cut(1)], &steps[..]].concat());
    let patience = Patience { resumptions: 6, ..hasty() };
    let error = blob(&plain(server.port), server.port, SIZE, &patience).unwrap_err();
    assert!(text(&error).starts_with("7 attempts: "), "{error}");
}

#[test]
fn a_drip_is_too_slow() {
    let server = answers(&[format!("{}{SILENCE}", cut(5))]);
    let patience = Patience {
        slow_start: Duration::from_secs(2),
        slowest_rate: 1 << 20,
        ..Patience::default()
    };
    let error = blob(&plain(server.port), server.port, SIZE, &patience).unwrap_err();
    assert!(text(&error).contains("is too slow: 21 bytes take longer than 2 s"), "{error}");
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

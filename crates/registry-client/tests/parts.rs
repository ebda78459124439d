//! One large blob in several parts at once: whatever a server makes of the parts, every byte comes
//! once and in its place.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use crate::support;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::sleep;
use std::time::Duration;

use registry_client::{Error, Patience};
use support::{PASSWORD, USER, digest, entry, hasty, open, plain, run, text};
use test_http::pki::Authority;
use test_http::{Request, SILENCE, Server, head};
use tokio::sync::Semaphore;

/// The last one of its parts is a short one.
const SIZE: usize = (12 << 20) + 12345;

/// What makes a server far away.
const FAR: Duration = Duration::from_millis(40);

/// Bytes that are others at each place.
fn content(range: Range<usize>) -> String {
    let numbered = |line: usize| format!("{line:015}\n");
    let lines: String = (range.start / 16..=range.end / 16).map(numbered).collect();
    let from = range.start % 16;
    lines[from..from + range.len()].to_owned()
}

fn range(request: &Request) -> Option<Range<usize>> {
    let (from, last) = request.header("range")?.strip_prefix("bytes=")?.split_once('-')?;
    let until = last.parse().map_or(SIZE, |last: usize| last + 1);
    Some(from.parse().unwrap()..until)
}

fn whole() -> String {
    let head = format!("HTTP/1.1 200 OK\r\nContent-Length: {SIZE}\r\nConnection: close\r\n\r\n");
    head + &content(0..SIZE)
}

fn part(range: &Range<usize>, length: usize) -> String {
    format!(
        "HTTP/1.1 206 Partial Content\r\nContent-Range: bytes {}-{}/{SIZE}\r\nContent-Length: \
        {length}\r\nConnection: close\r\n\r\n",
        range.start,
        range.end - 1,
    )
}

/// What a good server answers.
fn served(request: &Request) -> String {
    match range(request) {
        Some(range) => part(&range, range.len()) + &content(range),
        None => whole(),
    }
}

/// The blob from a registry that was asked for a manifest before, so that its distance is known.
fn fetch(document: &str, port: u16) -> Result<String, Error> {
    fetch_with(document, port, &hasty())
}

fn fetch_with(document: &str, port: u16, patience: &Patience) -> Result<String, Error> {
    run(async {
        let registry = open(document, &format!("localhost:{port}"), patience)?;
        registry.manifest(&digest()).await?;
        let leave = Arc::new(Semaphore::new(1));
        assert!(registry.is_far());
        let permit = leave.clone().try_acquire_owned().ok();
        let mut blob = registry.blob_in_parts(&digest(), SIZE as u64, permit).await?;
        let mut bytes = Vec::new();
        while let Some(chunk) = blob.next().await? {
            assert!(!chunk.is_empty() && chunk.len() <= 512 << 10);
            bytes.extend_from_slice(&chunk);
        }
        assert_eq!(leave.available_permits(), 1, "leave that nobody needs any more");
        Ok(String::from_utf8(bytes).unwrap())
    })
}

/// The ranges of all requests for the blob, without those that look for TLS.
fn ranges(server: &Server) -> Vec<String> {
    let requests = server.requests();
    let blobs = requests.iter().filter(|request| !request.contains("/manifests/"));
    let blobs = blobs.filter(|request| request.starts_with("GET "));
    blobs.map(|request| request.header("range").unwrap_or_default().to_owned()).collect()
}

/// A registry that is far away, without TLS.
fn far(answer: impl Fn(&Request) -> String + Send + Sync + 'static) -> Server {
    Server::start(None, move |request| {
        sleep(FAR);
        match request.contains("/manifests/") {
            true => test_http::ok("{}"),
            false => answer(request),
        }
    })
}

#[test]
fn a_large_blob_that_is_far_away_comes_in_parts() {
    let (now, most) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
    let seen = most.clone();
    let server = far(move |request| {
        seen.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
        sleep(FAR);
        now.fetch_sub(1, Ordering::SeqCst);
        served(request)
    });
    assert!(fetch(&plain(server.port), server.port).unwrap() == content(0..SIZE));
    let mut ranges = ranges(&server);
    assert_eq!(ranges[0], "bytes=0-524287", "nobody unpacks it yet");
    ranges.sort();
    ranges.dedup();
    assert_eq!(ranges.len(), 1 + 12, "{ranges:?}");
    let most = most.load(Ordering::SeqCst);
    assert!((2..=8).contains(&most), "{most} at once");
}

#[test]
fn a_server_without_parts_is_asked_as_ever() {
    for (refusal, requests) in [
        (None, 1),
        (Some(head("416 Range Not Satisfiable", "")), 2),
        (Some(head("400 Bad Request", "")), 2),
        (Some(head("500 a", "")), 2),
        (Some(String::new()), 2),
        (Some(part(&(1..300), 299)), 2),
    ] {
        let shown = format!("{refusal:?}");
        let server = far(move |request| match (range(request), &refusal) {
            (Some(_), Some(refusal)) => refusal.clone(),
            _ => whole(),
        });
        assert!(fetch(&plain(server.port), server.port).unwrap() == content(0..SIZE), "{shown}");
        assert_eq!(ranges(&server).len(), requests, "{shown}");
    }
}

/// The sixth part is odd, whatever comes before and after it.
#[test]
fn what_is_left_of_odd_parts_comes_as_one_stream() {
    let sixth = (4 << 20) + (512 << 10)..(5 << 20) + (512 << 10);
    let short = part(&sixth, sixth.len()) + &content(sixth.start..sixth.end - 1);
    for odd in [
        String::new(),
        head("500 a", ""),
        head("403 Forbidden", ""),
        head("404 Not Found", ""),
        whole(),
        short,
        part(&(0..9), 9) + &content(0..9),
        part(&(sixth.start..sixth.end - 1), sixth.len() - 1) + &content(sixth.start..sixth.end - 1),
    ] {
        let shown = odd.lines().take(2).collect::<Vec<_>>().join(" ");
        let wanted = sixth.clone();
        let server = far(move |request| match range(request) {
            Some(range) if range == wanted => odd.clone(),
            _ => served(request),
        });
        assert!(fetch(&plain(server.port), server.port).unwrap() == content(0..SIZE), "{shown}");
        let rest = format!("bytes={}-", sixth.start);
        assert!(ranges(&server).contains(&rest), "{shown}");
    }
}

/// A line on which eight parts together are too slow, and one stream is not: the parts are given up
/// once, and a source with a fallback is not taken to be down.
#[test]
fn parts_that_are_too_slow_are_given_up() {
    let server = far(|request| match range(request) {
        Some(range) if range.start > 0 && range.end < SIZE => {
            format!("{}{SILENCE}", part(&range, range.len()) + &content(range.start..range.end - 1))
        }
        _ => served(request),
    });
    let patience =
        Patience { slow_start: Duration::from_secs(5), slowest_rate: 4 << 20, ..hasty() };
    let fetched = fetch_with(&plain(server.port), server.port, &patience).unwrap();
    assert!(fetched == content(0..SIZE));
    assert!(ranges(&server).contains(&"bytes=524288-".to_owned()));
}

/// A blob that the registry refuses is refused in its own words.
#[test]
fn a_refused_blob_is_refused_once() {
    let server = far(|_| head("404 Not Found", ""));
    let refused = text(&fetch(&plain(server.port), server.port).unwrap_err());
    assert!(refused.contains("not there, or the account may not see"), "{refused}");
    assert_eq!(ranges(&server).len(), 2, "once in parts, once as ever");
}

/// The address that the registry gives is asked directly, and never with its credentials; when it
/// is good no longer, the registry is asked for a new one.
#[test]
fn parts_come_from_where_the_registry_sends_the_puller() {
    let authority = Authority::new("test").unwrap();
    for expires in [false, true] {
        let storage = Server::start(Some(&authority), move |request| {
            sleep(FAR);
            let part = range(request).unwrap_or_default();
            let is_late = request.starts_with("GET /first?") && part.start > 3 << 20;
            match expires && is_late {
                true => head("403 Forbidden", ""),
                false => served(request),
            }
        });
        let (port, asked) = (storage.port, AtomicUsize::new(0));
        let registry = Server::start(Some(&authority), move |request| {
            sleep(FAR);
            let sent = request.header("authorization").unwrap_or_default();
            if !sent.starts_with("Basic ") {
                return head("401 Unauthorized", "WWW-Authenticate: Basic realm=\"test\"\r\n");
            }
            if request.contains("/manifests/") {
                return test_http::ok("{}");
            }
            let name = ["first", "second"][asked.fetch_add(1, Ordering::SeqCst).min(1)];
            let location = format!("Location: https://localhost:{port}/{name}?signed\r\n");
            head("307 Temporary Redirect", &location)
        });
        let document = entry("localhost", USER, PASSWORD, authority.certificate());
        assert!(fetch(&document, registry.port).unwrap() == content(0..SIZE));
        let asked = ranges(&registry).len();
        assert_eq!(asked, if expires { 2 } else { 1 }, "{:?}", ranges(&registry));
        assert!(ranges(&storage).len() >= 13 || expires);
        let requests = storage.requests();
        assert!(requests.iter().all(|request| request.header("authorization").is_none()));
    }
}

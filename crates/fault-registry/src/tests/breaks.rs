//! Connections that break, stall, or drip.

use std::io::Write as _;
use std::time::{Duration, Instant};

use super::{Ending, Plain, start};
use crate::{Action, End, Point, Script, What};

/// A registry that is waited for less where nothing more is to come.
fn start_for(how: End, script: Script) -> Plain {
    match how {
        End::Stall => start(script).hasty(),
        End::Reset | End::Close => start(script),
    }
}

#[test]
fn connections_end_where_the_script_says() {
    for (how, ending) in
        [(End::Reset, Ending::Reset), (End::Close, Ending::Closed), (End::Stall, Ending::Silent)]
    {
        for (at, has_status, has_head, body_length) in [
            (Point::Answer, false, false, 0),
            (Point::Head, true, false, 0),
            (Point::Body(0), true, true, 0),
            (Point::Body(1000), true, true, 1000),
        ] {
            let site =
                start_for(how, Script::new().once(What::Layer(0), [Action::Cut { at, how }]));
            let (head, body, seen) = site.ask_layer("");
            assert_eq!(seen, ending, "{at:?} {how:?}");
            assert_eq!(head.starts_with("http/1.1 200 "), has_status, "{at:?}");
            assert_eq!(head.ends_with("\r\n\r\n"), has_head, "{at:?}");
            assert_eq!(body, &site.bytes[..body_length], "{at:?} {how:?}");
            let (_, body, _) = site.ask_layer("");
            assert_eq!(body, site.bytes, "only once");
        }
    }
}

#[test]
fn connections_end_before_they_begin() {
    for (how, ending) in
        [(End::Reset, Ending::Reset), (End::Close, Ending::Closed), (End::Stall, Ending::Silent)]
    {
        let site = start_for(how, Script::new().connections(..=2, how));
        for _ in 0..2 {
            let (received, seen) = site.ask("/v2/", "");
            assert_eq!((received.len(), seen), (0, ending));
        }
        let (received, _) = site.ask("/v2/", "");
        assert!(received.starts_with(b"HTTP/1.1 200 "));
        assert_eq!(site.registry.requests().len(), 1);
        assert_eq!(site.registry.connections(), 3);
    }
}

#[test]
fn drips_and_waits_take_their_time() {
    let drip = Action::Drip { bytes: 10, pause_ms: 20 };
    let script =
        Script::new().once(What::Layer(0), [drip]).once(What::Manifest, [Action::Wait(200)]);
    let site = start(script);
    let started = Instant::now();
    let (received, _) = site.ask_up_to(&site.layer_path(), "", 400);
    // A lower bound holds on the slowest machine, and so does much less than everything.
    assert!(started.elapsed() >= Duration::from_millis(200));
    assert!(received.len() < 50_000, "{}", received.len());
    let started = Instant::now();
    site.ask_up_to(&site.manifest_path(), "", 1);
    assert!(started.elapsed() >= Duration::from_millis(200));
}

/// A registry that is dropped must not wait for those who stall.
#[test]
fn stopping_ends_what_stalls() {
    let stall = Action::cut(10, End::Stall);
    let site = start(Script::new().always(What::Any, [stall]));
    let mut stream = site.connect();
    stream.write_all(b"GET /v2/ HTTP/1.1\r\n\r\n").unwrap();
    let address = site.registry.address();
    drop(site);
    // A neighbour's child may have the listener until it becomes curl.
    let start = Instant::now();
    while std::net::TcpStream::connect(address).is_ok() {
        assert!(start.elapsed() < Duration::from_secs(60), "it still listens");
        std::thread::sleep(Duration::from_millis(10));
    }
}

//! Brokers that answer with anything but what they should, and others that stand where a broker
//! should be.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use crate::support;

use std::time::{Duration, UNIX_EPOCH};

use kbs_client::Limits;
use puller_config::{Resources, Roots};
use support::{PATIENT, ask, broker as broker_at, client, error, new_client, resources};
use test_http::End::{Close, Drip, Flood, Silence};
use test_http::pki::Authority;
use test_http::{End, Request, Server, reply};

const COOKIE: &str = "Set-Cookie: other=hunter2\r\nSet-Cookie: kbs-session-id=hunter2; Path=/\r\n";
const CHALLENGE: &str = r#"{"nonce": "hunter2", "extra-params": ""}"#;
const TOKEN: &str = r#"{"token": "hunter2"}"#;

/// A broker that does everything right up to one step, and there answers as given.
fn broker(step: &'static str, answer: &str, end: End) -> Server {
    let answer = answer.to_owned();
    Server::start(None, move |request| {
        let target = request.target.as_str();
        if target.starts_with(step) {
            return (answer.clone(), end);
        }
        let answer = match target {
            "/kbs/v0/auth" => reply("200 OK", COOKIE, CHALLENGE),
            "/kbs/v0/attest" => reply("200 OK", "", TOKEN),
            _ => reply("404 Not Found", "", ""),
        };
        (answer, Close)
    })
}

const AUTH: &str = "/kbs/v0/auth";
const ATTEST: &str = "/kbs/v0/attest";
const RESOURCE: &str = "/kbs/v0/resource/";

#[test]
fn broker_is_believed_nothing() {
    let refusal = |status, kind: &str| {
        let kind = format!("https://github.com/confidential-containers/kbs/errors/{kind}");
        let body = format!(r#"{{"type": "{kind}", "detail": "hunter2"}}"#);
        reply(status, "", &body)
    };
    let jwe = concat!(
        r#"{"protected":"eyJhbGciOiJFQ0RILUVTK0EyNTZLVyIsImVuYyI6IkEyNTZHQ00ifQ","#,
        r#""encrypted_key":"aHVudGVyMg","iv":"aHVudGVyMg","ciphertext":"aHVudGVyMg","#,
        r#""tag":"aHVudGVyMg"}"#,
    );
    let long = format!(r#"{{"nonce": "{}"}}"#, "n".repeat(300_000));
    for (step, answer, end, expected) in [
        (AUTH, refusal("404 No", "hunter2 of \u{1b}[31m"), Close, "gave nothing usable"),
        (AUTH, reply("500 Oops", "", "hunter2"), Close, "gave nothing usable"),
        (AUTH, reply("200 OK", "", CHALLENGE), Close, "sets no cookie kbs-session-id"),
        (
            AUTH,
            reply("200 OK", "Set-Cookie: session=hunter2\r\n", CHALLENGE),
            Close,
            "sets no cookie kbs-session-id",
        ),
        (
            AUTH,
            reply(
                "200 OK",
                "Set-Cookie: kbs-session-id=a\r\nSet-Cookie: kbs-session-id=b\r\n",
                CHALLENGE,
            ),
            Close,
            "two different cookies",
        ),
        (AUTH, reply("200 OK", COOKIE, "{}"), Close, "is no challenge"),
        (AUTH, reply("200 OK", COOKIE, "hunter2"), Close, "is no challenge"),
        (
            AUTH,
            reply(
                "200 OK",
                COOKIE,
                r#"{"nonce": "n", "extra-params": {"selected-hash-algorithm": "md5"}}"#,
            ),
            Close,
            "another hash",
        ),
        (AUTH, reply("200 OK", COOKIE, &long), Close, "more than 262144 bytes"),
        (AUTH, reply("303 See Other", "Location: /elsewhere\r\n", ""), Close, "redirects"),
        (AUTH, "HTTP/1.1 200 OK\r\n\r\n{".to_owned(), Flood, "more than 262144 bytes"),
        (AUTH, "HTTP/1.1 200 OK\r\n\r\n{".to_owned(), Drip, "no whole answer within"),
        (AUTH, String::new(), Silence, "no whole answer within"),
        (ATTEST, reply("200 OK", "", "{}"), Close, "no result of an attestation"),
        (ATTEST, reply("200 OK", "", "hunter2"), Close, "no result of an attestation"),
        (
            ATTEST,
            reply("307 Elsewhere", "Location: http://127.0.0.1:1/\r\n", ""),
            Close,
            "redirects",
        ),
        (ATTEST, "HTTP/1.1 200 OK\r\n\r\n{".to_owned(), Flood, "more than 262144 bytes"),
        (ATTEST, String::new(), Silence, "no whole answer within"),
        (ATTEST, String::new(), Close, "cannot be asked"),
        (RESOURCE, reply("404 No", "", "hunter2"), Close, "gave nothing usable"),
        (RESOURCE, reply("200 OK", "", "hunter2"), Close, "the guest's key does not open"),
        (RESOURCE, reply("200 OK", "", ""), Close, "the guest's key does not open"),
        (RESOURCE, reply("200 OK", "", jwe), Close, "the guest's key does not open"),
        (RESOURCE, reply("302 Found", "Location: http://127.0.0.1:1/\r\n", ""), Close, "redirects"),
        (RESOURCE, "HTTP/1.1 200 OK\r\n\r\n{".to_owned(), Flood, "more than 1414488 bytes"),
        (RESOURCE, "HTTP/1.1 200 OK\r\n\r\n{".to_owned(), Drip, "no whole answer within"),
        (RESOURCE, String::new(), Silence, "no whole answer within"),
    ] {
        let shown: String = answer.chars().take(80).collect();
        let error = error(end, |limits| {
            let server = broker(step, &answer, end);
            let error = ask(&client(&[&broker_at(&server)], limits)).unwrap_err();
            let requests = server.requests();
            let is_clean = |request: &Request| !request.contains("other=");
            assert!(requests.iter().all(is_clean), "{requests:?}");
            // Nothing is asked after the step that failed.
            let was_asked = requests.last().is_some_and(|last| last.contains(step));
            (error, was_asked)
        });
        assert!(error.contains(expected), "{step} {shown:?} {end:?}: {error}");
    }
}

/// A cookie, a token or evidence goes to the broker's own address only, and over a connection that
/// was verified.
#[test]
fn nothing_is_sent_to_who_is_not_the_broker() {
    let authority = Authority::new("Somebody else's").unwrap();
    let impostor = Server::start(Some(&authority), |_| (String::new(), Close));
    let elsewhere = Server::always(String::new());
    let plain = Server::always(reply("400 Bad Request", "", ""));
    let owner = Authority::new("The owner's").unwrap();
    for (source, expected) in [
        (format!("kbs=https://localhost:{}", impostor.port), "certificate that is not trusted"),
        (format!("kbs=https://localhost:{}", plain.port), "it does not speak TLS"),
    ] {
        let roots = Some(Roots::parse(owner.certificate()).unwrap());
        let resources = Resources { kbs_ca_certs: roots, ..resources(&[&source]) };
        let error = ask(&new_client(&resources, PATIENT).unwrap()).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
    assert!(impostor.requests().is_empty());

    let location = format!("Location: http://127.0.0.1:{}/\r\n", elsewhere.port);
    for step in [AUTH, ATTEST, RESOURCE] {
        let server = broker(step, &reply("307 Elsewhere", &location, ""), Close);
        ask(&client(&[&broker_at(&server)], PATIENT)).unwrap_err();
    }
    assert!(elsewhere.requests().is_empty());
}

/// What a caller gives up on half-way does not keep the next one from a hand-shake.
#[test]
fn hand_shake_that_is_given_up_is_made_again() {
    let server = broker(ATTEST, "", Silence);
    let client = client(
        &[&broker_at(&server)],
        Limits { request: Duration::from_secs(180), whole: Duration::from_secs(1) },
    );
    // On a slow machine a hand-shake may not get as far in a second.
    for _ in 0..60 {
        let error = ask(&client).unwrap_err();
        assert!(error.contains("for all sources were over"), "{error}");
        let requests = server.requests();
        let attested = requests.iter().filter(|request| request.contains(ATTEST));
        if attested.count() == 2 {
            return;
        }
    }
    panic!("only one hand-shake was made");
}

/// In clear anybody could set the floor of the guest's clock forward for good, and so stop all
/// pulls.
#[test]
fn time_is_taken_from_brokers_over_tls_only() {
    let authority = Authority::new("the broker's").unwrap();
    for (is_tls, date, newest) in [
        (false, "Fri, 20 Nov 2020 00:00:00 GMT", None),
        (true, "soon", None),
        (true, "Fri, 20 Nov 2020 00:00:00 GMT", Some(1_605_830_400)),
        (true, "Fri, 20 Nov 2015 00:00:00 GMT", Some(1_605_830_400)),
        (false, "Sun, 20 Nov 2996 00:00:00 GMT", Some(1_605_830_400)),
    ] {
        let header = format!("Date: {date}\r\n");
        let answer = move |_: &Request| (reply("404 No", &header, ""), Close);
        let server = Server::start(is_tls.then_some(&authority), answer);
        let scheme = if is_tls { "https" } else { "http" };
        let mut resources = resources(&[&format!("kbs={scheme}://localhost:{}", server.port)]);
        resources.kbs_ca_certs = Some(Roots::parse(authority.certificate()).unwrap());
        ask(&new_client(&resources, PATIENT).unwrap()).unwrap_err();
        assert_eq!(server.requests().len(), 1, "{date}");
        let time = kbs_client::broker_time();
        let seconds = time.map(|time| time.duration_since(UNIX_EPOCH).unwrap().as_secs());
        assert_eq!(seconds, newest, "{date}");
    }
}

//! Gateways that answer with anything but what they should.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

mod support;

use support::{OCTETS, PATIENT, ask, client, error, gateway};
use test_http::End::{Close, Drip, Flood, Silence};
use test_http::{Request, Server, reply};

/// A head that promises a body of this length.
fn promise(length: &str) -> String {
    format!("HTTP/1.1 200 OK\r\n{OCTETS}Content-Length: {length}\r\n\r\n")
}

#[test]
fn gateway_is_believed_nothing() {
    let many_headers = "X: y\r\n".repeat(200);
    let endless_header = format!("X: {}\r\n", "y".repeat(1 << 20));
    for (answer, end, expected) in [
        (reply("200 OK", OCTETS, ""), Close, "is empty"),
        (
            reply("200 OK", "Content-Type: text/html\r\n", "hunter2"),
            Close,
            "is no application/octet-stream",
        ),
        (reply("204 No Content", "", ""), Close, "status 204"),
        (
            reply("403 Forbidden", "", "hunter2"),
            Close,
            "serves the guest's loopback interface only",
        ),
        (
            reply("404 Not Found", "", "hunter2"),
            Close,
            "status 404: the gateway serves no resources",
        ),
        (
            reply("500 hunter2", "", "hunter2"),
            Close,
            "status 500: the data hub did not get",
        ),
        (
            reply("418 Teapot", "X: hunter2\r\n", "hunter2"),
            Close,
            "status 418: that is none",
        ),
        (
            reply("302 Found", "Location: http://127.0.0.1:1/hunter2\r\n", ""),
            Close,
            "redirects, which is not followed",
        ),
        (
            reply("308 Moved", "Location: /cdh/resource/a/b/c\r\n", ""),
            Close,
            "redirects, which is not followed",
        ),
        (promise("1048577"), Close, "more than 1048576 bytes"),
        (
            promise("9223372036854775807"),
            Close,
            "more than 1048576 bytes",
        ),
        (
            format!("HTTP/1.1 200 OK\r\n{OCTETS}\r\n"),
            Flood,
            "more than 1048576 bytes",
        ),
        ("HTTP/1.1 500 Oops\r\n\r\n".to_owned(), Flood, "status 500"),
        (
            format!("{}hunter2", promise("100")),
            Close,
            "cannot be asked",
        ),
        (
            format!("{}hunter2", promise("100")),
            Silence,
            "no whole answer within",
        ),
        (
            format!("HTTP/1.1 200 OK\r\n{OCTETS}\r\n"),
            Drip,
            "no whole answer within",
        ),
        (
            "HTTP/1.1 200 OK\r\nX: ".to_owned(),
            Drip,
            "no whole answer within",
        ),
        (
            "HTTP/1.1 500 Oops\r\n\r\n".to_owned(),
            Drip,
            "no whole answer within",
        ),
        (String::new(), Silence, "no whole answer within"),
        (String::new(), Close, "cannot be asked"),
        ("hunter2\r\n\r\n".to_owned(), Close, "cannot be asked"),
        (String::new(), Flood, "cannot be asked"),
        (
            reply("200 OK", &many_headers, "hunter2"),
            Close,
            "cannot be asked",
        ),
        (
            reply("200 OK", &endless_header, "hunter2"),
            Close,
            "cannot be asked",
        ),
    ] {
        let shown: String = answer.chars().take(80).collect();
        let error = error(end, |limits| {
            let server = Server::always((answer.clone(), end));
            let error = ask(&client(&[&gateway(&server)], limits)).unwrap_err();
            let requests = server.requests();
            assert!(requests.len() <= 1, "{shown:?}");
            let line = "GET /cdh/resource/repo/type/tag HTTP/1.1\r\n";
            let is_right = |request: &Request| request.starts_with(line);
            assert!(requests.iter().all(is_right), "{requests:?}");
            (error, !requests.is_empty())
        });
        assert!(error.contains(expected), "{shown:?} {end:?}: {error}");
    }
    for headers in [OCTETS, ""] {
        let server = Server::always(reply("200 OK", headers, "a secret"));
        let found = ask(&client(&[&gateway(&server)], PATIENT)).unwrap();
        assert_eq!(found, b"a secret");
    }
}

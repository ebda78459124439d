//! The kubelet's questions and a collector's, over HTTP.

use std::net::SocketAddr;

use crate::http::{Answer, Server};
use crate::status::Readiness;
use crate::{Error, Status};

/// How much `/readyz` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// Why the node is not ready. For an address that a network policy covers.
    Reason,
    /// Whether it is. For everybody else.
    Verdict,
}

/// The content type of [`crate::metrics`].
const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Answers `/healthz` and `/readyz` on `address`; port 0 takes a free one.
///
/// `/healthz` is 200 as long as the program works at all; 503 asks for a restart. `/readyz` is 200
/// while the node is as it should be, else 503, with as much as `detail` allows.
///
/// # Errors
///
/// [`Error::Listen`].
pub fn health(address: SocketAddr, status: &Status, detail: Detail) -> Result<Server, Error> {
    let status = status.clone();
    Server::start("health checks", address, move |path| answer(&status, detail, path))
}

fn answer(status: &Status, detail: Detail, path: &str) -> Answer {
    match path {
        "/healthz" if status.stuck() => Answer::unavailable("no pass for too long\n".into()),
        "/healthz" => Answer::ok("ok\n".into()),
        "/readyz" => match (status.readiness(), detail) {
            (Readiness::Ready, _) => Answer::ok("ok\n".into()),
            (other, Detail::Reason) => Answer::unavailable(other.reason()),
            (_, Detail::Verdict) => {
                Answer::unavailable("not as it should be, see the log\n".into())
            }
        },
        _ => Answer::not_found("only /healthz and /readyz are here\n"),
    }
}

/// Answers `/metrics` on `address`; port 0 takes a free one.
///
/// # Errors
///
/// [`Error::Listen`].
pub fn metrics(address: SocketAddr, status: &Status) -> Result<Server, Error> {
    let status = status.clone();
    Server::start("metrics", address, move |path| match path {
        "/metrics" => {
            let ready = status.readiness() == Readiness::Ready;
            Answer { content_type: OPEN_METRICS, ..Answer::ok(status.numbers().text(ready)) }
        }
        _ => Answer::not_found("only /metrics is here\n"),
    })
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::time::Duration;

    use super::*;
    use crate::Numbers;

    fn get(server: &Server, path: &str) -> String {
        let mut client = TcpStream::connect(server.address()).unwrap();
        write!(client, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").unwrap();
        let mut answer = String::new();
        client.read_to_string(&mut answer).unwrap();
        answer[9..].to_owned()
    }

    #[test]
    fn the_reason_is_for_those_who_may_know_it() {
        let status = Status::new(Duration::from_secs(3600));
        let any = "127.0.0.1:0".parse().unwrap();
        let [told, brief] =
            [Detail::Reason, Detail::Verdict].map(|detail| health(any, &status, detail).unwrap());
        assert!(get(&told, "/healthz").starts_with("200"));
        assert!(get(&told, "/readyz").contains("starting"));
        status.note(vec!["the secret kata/x".into()], Numbers::default());
        assert!(get(&told, "/readyz").starts_with("503"));
        assert!(get(&told, "/readyz?verbose").contains("the secret kata/x"));
        let answer = get(&brief, "/readyz");
        assert!(answer.starts_with("503") && !answer.contains("kata/x"));
        status.note(Vec::new(), Numbers::default());
        for server in [&told, &brief] {
            assert!(get(server, "/readyz").starts_with("200"));
            assert!(get(server, "/metrics").starts_with("404"));
        }
        let stuck = Status::new(Duration::ZERO);
        let server = health(any, &stuck, Detail::Reason).unwrap();
        assert!(get(&server, "/healthz").starts_with("503"));
    }

    #[test]
    fn metrics_are_elsewhere_and_say_whether_the_node_is_ready() {
        let status = Status::new(Duration::from_secs(3600));
        let server = metrics("127.0.0.1:0".parse().unwrap(), &status).unwrap();
        assert!(get(&server, "/metrics").contains("\nkata_configdev_ready 0\n"));
        status.note(Vec::new(), Numbers::default());
        let answer = get(&server, "/metrics");
        assert!(answer.contains("\nkata_configdev_ready 1\n"), "{answer}");
        assert!(answer.contains(OPEN_METRICS) && answer.ends_with("# EOF\n"));
        assert!(get(&server, "/readyz").starts_with("404"));
    }
}

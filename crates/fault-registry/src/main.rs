//! The fault-injecting registry as a program.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::{fs, thread, time::Duration};

use anyhow::{Context, Result};
use clap::Parser;
use fault_registry::{Content, FaultRegistry, Http, Request, Script, Tls};
use serde_json::json;
use test_http::pki::Identity;

/// Serves an OCI layout as a registry, and misbehaves where a script says so.
///
/// Prints {"address": ..., "base": ...} once it listens, then each request as a line of JSON (with
/// the scheme of its Authorization, never the rest). Every repository name has the layout's
/// content; tags are the layout's own, and "latest". /hops/N/PATH redirects N times before it
/// serves PATH. Runs until it is killed.
///
/// A script is JSON. A rule names what is asked for ("any", "ping", "index", "manifest", "config",
/// {"layer": 0}, "any-layer", "token", {"path": "/start"}, "unknown"), which of these requests
/// ("first" and "last", from 1; all if neither is there) and what to do. The first rule that fits
/// decides; its actions are done in order:
///
///   {"status": {"code": 503, "headers": [["Retry-After", "1"]], "body": ""}} {"code": 200}
///   {"header": {"name": "Content-Type", "value": null}} {"add-header": {"name": "A", "value":
///   "b"}} {"redirect": "{base}/hops/3{path}"} {"body": "flipped" | "endless" | {"truncated": 9} |
///   {"longer": 9} | {"text": ""}} {"length": {"off": -5} | {"text": "-5"} | "twice" | "missing"}
///   {"chunked": "plain" | "tiny" | "extensions" | "long-extension" | "trailers" |
///   "many-trailers" | "huge-size" | "bad-size" | "missing-end" | "and-length"} {"range":
///   "ignored" | "other-start" | "hidden-start" | "wrong-total" | "other-bytes" | "unnamed" |
///   "refused" | "unasked" | "multipart"} {"cut": {"at": "answer" | "head" | {"body": 1000}, "how":
///   "reset" | "close" | "stall"}} {"drip": {"bytes": 1, "pause_ms": 100}} {"wait": 1000}
///   {"many-headers": 10000} {"long-header": 1048576} {"interim": 3 | null} {"raw": "not HTTP"}
///   "schema1" {"http2": {"reset": {"code": 8, "after": 1000}} | {"go-away": {"code": 0, "after":
///   0}} | "pings" | "empty-data"}
///
/// Example: the first layer breaks off once, and tokens are wanted:
///
///   {"names": {"{other}": "https://localhost:5001"},
///    "login": {"username": "u", "password": "p", "token": "t"},
///    "connections": [{"first": 1, "last": 1, "how": "reset"}],
///    "rules": [{"what": {"layer": 0}, "first": 1, "last": 1,
///               "do": [{"cut": {"at": {"body": 1000}, "how": "close"}}]}]}
#[derive(Debug, Parser)]
#[command(verbatim_doc_comment)]
struct Options {
    /// The OCI layout to serve
    #[arg(long, value_name = "DIR")]
    layout: PathBuf,
    /// The script; without one nothing goes wrong
    #[arg(long, value_name = "FILE")]
    script: Option<PathBuf>,
    /// Where to listen
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// A certificate (PEM), for TLS
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Its key (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
    /// The name in the registry's own address, for redirects to itself
    #[arg(long, value_name = "NAME", default_value = "localhost")]
    name: String,
    /// The version of HTTP inside TLS: 1, 2 (and nothing else), or both
    #[arg(long, value_name = "VERSION", default_value = "1", value_parser = http, requires = "tls_cert")]
    http: Http,
}

fn main() -> Result<()> {
    let options = Options::parse();
    let content = Content::load(&options.layout)?;
    let script = match &options.script {
        Some(path) => read_script(path)?,
        None => Script::new(),
    };
    let identity = match (&options.tls_cert, &options.tls_key) {
        (Some(certificate), Some(key)) => {
            Some(Identity { certificate: read(certificate)?, key: read(key)? })
        }
        _ => None,
    };
    let tls =
        identity.as_ref().map(|identity| Tls { identity, name: &options.name, http: options.http });
    let registry = FaultRegistry::listen(options.listen, content, script, tls.as_ref())?;
    let (address, base) = (registry.address().to_string(), registry.base());
    println!("{}", json!({"address": address, "base": base}));
    let mut told = 0;
    loop {
        for request in registry.requests().iter().skip(told) {
            println!("{}", line(request));
            told += 1;
        }
        thread::sleep(Duration::from_millis(20));
    }
}

fn http(version: &str) -> Result<Http, &'static str> {
    match version {
        "1" => Ok(Http::One),
        "2" => Ok(Http::Two),
        "both" => Ok(Http::Both),
        _ => Err("is neither 1 nor 2 nor both"),
    }
}

fn read(path: &PathBuf) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("failed to read {}", path.display()))
}

fn read_script(path: &PathBuf) -> Result<Script> {
    serde_json::from_str(&read(path)?)
        .with_context(|| format!("failed to read the script {}", path.display()))
}

/// A request in one line, without credentials.
fn line(request: &Request) -> serde_json::Value {
    let shown = |(name, value): &(String, String)| match name.as_str() {
        "authorization" => {
            let scheme = value.split(' ').next().unwrap_or_default();
            json!([name, format!("{scheme} ...")])
        }
        _ => json!([name, value]),
    };
    json!({
        "connection": request.connection,
        "http2": request.is_http2,
        "method": request.method,
        "path": request.path,
        "query": request.query,
        "what": format!("{:?}", request.what),
        "headers": request.headers.iter().map(shown).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use crate::*;
    use fault_registry::What;

    #[test]
    fn requests_are_told_without_credentials() {
        let request = Request {
            method: "GET".to_owned(),
            path: "/v2/".to_owned(),
            query: "ns=docker.io".to_owned(),
            headers: vec![("authorization".to_owned(), "Basic c2VjcmV0".to_owned())],
            body: String::new(),
            what: What::Layer(1),
            connection: 7,
            is_http2: true,
            is_challenged: false,
        };
        let told = line(&request).to_string();
        assert!(told.contains(r#"["authorization","Basic ..."]"#), "{told}");
        assert!(told.contains(r#""what":"Layer(1)""#), "{told}");
        assert!(!told.contains("c2VjcmV0"));
    }

    #[test]
    fn a_certificate_needs_its_key() {
        let parse = |more: &[&str]| {
            let base = ["fault-registry", "--layout", "here"];
            Options::try_parse_from(base.iter().chain(more))
        };
        assert!(parse(&[]).is_ok());
        assert!(parse(&["--tls-cert", "a"]).is_err());
        assert!(parse(&["--http", "2"]).is_err());
        assert!(parse(&["--tls-cert", "a", "--tls-key", "b", "--http", "3"]).is_err());
        let options = parse(&["--tls-cert", "a", "--tls-key", "b", "--http", "both"]).unwrap();
        assert_eq!(options.http, Http::Both);
    }
}

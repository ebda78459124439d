//! Challenges and tokens: chosen, fetched, renewed, and given up.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use crate::support;

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use support::{CONTENT, PASSWORD, USER, blob, entry, fetch, hasty, text};
use test_http::pki::Authority;
use test_http::{Server, head, ok};

const SIZE: u64 = CONTENT.len() as u64;

/// A registry that is its own token server.
struct Site {
    authority: Authority,
    server: Server,
}

/// What a request is for.
enum Ask<'a> {
    /// A token; the number of requests for one so far, this one included.
    Token(usize, &'a str),
    /// Anything else, with the token that came along.
    Content(&'a str),
}

impl Site {
    /// `{port}` in an answer is the server's own port.
    fn start(answer: impl Fn(Ask<'_>) -> String + Send + Sync + 'static) -> Self {
        let authority = Authority::new("test").unwrap();
        let (own, tokens) = (Arc::new(OnceLock::new()), AtomicUsize::new(0));
        let port = own.clone();
        let server = Server::start(Some(&authority), move |request| {
            let port: &u16 = port.get().unwrap();
            let is_token = request.split(' ').nth(1).unwrap().starts_with("/token");
            let bearer =
                request.lines().find_map(|line| line.strip_prefix("authorization: Bearer "));
            let ask = if is_token {
                Ask::Token(tokens.fetch_add(1, Ordering::SeqCst) + 1, request)
            } else {
                Ask::Content(bearer.unwrap_or_default())
            };
            answer(ask).replace("{port}", &port.to_string())
        });
        own.set(server.port).unwrap();
        Self { authority, server }
    }

    fn document(&self) -> String {
        entry("localhost", USER, PASSWORD, self.authority.certificate())
    }

    fn with_identity_token(&self) -> String {
        let login = format!("username = \"{USER}\"\npassword = \"{PASSWORD}\"");
        self.document().replace(&login, "identitytoken = \"refresh me\"")
    }

    /// How many tokens were asked for, and how much else.
    fn counts(&self) -> (usize, usize) {
        let requests = self.server.requests();
        let tokens = requests.iter().filter(|request| request.contains(" /token")).count();
        (tokens, requests.len() - tokens)
    }
}

const BEARER: &str =
    "WWW-Authenticate: Bearer realm=\"https://localhost:{port}/token\",service=\"s\"\r\n";

fn challenge() -> String {
    head("401 Unauthorized", BEARER)
}

#[test]
fn one_of_several_challenges_is_answered() {
    for headers in [
        format!("WWW-Authenticate: Basic realm=\"x\"\r\n{BEARER}"),
        format!(
            "WWW-Authenticate: Negotiate YII/==\r\n{BEARER}WWW-Authenticate: Basic realm=\"x\"\r\n"
        ),
        BEARER.replace("Bearer", "Negotiate abc==, Basic realm=\"a, b\", Bearer"),
    ] {
        let site = Site::start(move |ask| match ask {
            Ask::Token(..) => ok("{\"token\":\"t\"}"),
            Ask::Content("t") => ok(CONTENT),
            Ask::Content(..) => head("401 Unauthorized", &headers),
        });
        assert!(fetch(&site.document(), site.server.port, &hasty()).is_ok());
        assert_eq!(site.counts(), (1, 2));
    }
}

#[test]
fn a_token_is_renewed_before_it_expires() {
    let site = Site::start(move |ask| match ask {
        Ask::Token(number, _) => {
            let body = format!(
                "{{\"access_token\":\"t{number}\",\"expires_in\":300,\"issued_at\":\"2015-10-21T07:23:00Z\"}}"
            );
            ok(&body).replace("Connection", "Date: Wed, 21 Oct 2015 07:28:00 GMT\r\nConnection")
        }
        Ask::Content("t1") => ok(CONTENT).replace(&CONTENT[5..], ""),
        Ask::Content("t2") => ok(CONTENT),
        Ask::Content(..) => challenge(),
    });
    assert_eq!(blob(&site.document(), site.server.port, SIZE, &hasty()).unwrap(), CONTENT);
    // Without a second challenge.
    assert_eq!(site.counts(), (2, 3));
}

#[test]
fn an_identity_token_is_a_password_where_posts_are_unknown() {
    // "<token>:refresh me"
    const BASIC: &str = "authorization: Basic PHRva2VuPjpyZWZyZXNoIG1l\r\n";
    for status in ["404 Not Found", "405 Method Not Allowed", "401 Unauthorized"] {
        let site = Site::start(move |ask| match ask {
            Ask::Token(_, request) if request.starts_with("POST ") => {
                let form = "grant_type=refresh_token&client_id=imagepuller&scope=repository%3Ateam%2Fapp%3Apull&service=s&refresh_token=refresh+me";
                assert!(request.ends_with(form), "{request}");
                head(status, "")
            }
            Ask::Token(_, request) if request.contains(BASIC) => ok("{\"token\":\"t\"}"),
            Ask::Token(..) => head("403 Forbidden", ""),
            Ask::Content("t") => ok(CONTENT),
            Ask::Content(..) => challenge(),
        });
        let fetched = fetch(&site.with_identity_token(), site.server.port, &hasty());
        if status.starts_with("401") {
            let error = fetched.unwrap_err();
            assert!(error.to_string().contains("refused the credentials"), "{error}");
            assert_eq!(site.counts().0, 1);
        } else {
            assert!(fetched.is_ok(), "{fetched:?}");
        }
    }
}

#[test]
fn a_token_server_is_not_the_guest_itself() {
    // The registry is at "localhost", and so may be its token server; but nothing of the cloud's.
    for realm in [
        "https://169.254.169.254/token",
        "https://[fd00:ec2::254]/token",
        "http://metadata.google.internal/token",
    ] {
        let site = Site::start(move |_| {
            head("401 Unauthorized", &format!("WWW-Authenticate: Bearer realm=\"{realm}\"\r\n"))
        });
        let error = fetch(&site.document(), site.server.port, &hasty()).unwrap_err();
        assert!(
            text(&error).contains("an address that only the guest or its cloud uses"),
            "{error}"
        );
        assert_eq!(site.counts(), (0, 1));
    }
}

//! Several accounts of one entry: tried in order after a refusal, each once, and at their own host
//! only.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use crate::support;

use std::fmt::Write as _;
use std::sync::{Arc, OnceLock};

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use support::{CONTENT, PASSWORD, blob, entry, fetch, hasty, open, run, text};
use test_http::pki::Authority;
use test_http::{Server, head, ok};

/// Who a request is from: the user of a password, or the bearer of a token.
#[derive(Debug, PartialEq)]
enum Who {
    Nobody,
    User(String),
    Bearer(String),
}

fn who(request: &str) -> Who {
    let header = |scheme: &str| {
        let mut lines = request.lines();
        lines.find_map(|line| line.strip_prefix(&format!("authorization: {scheme} ")))
    };
    if let Some(token) = header("Bearer") {
        return Who::Bearer(token.to_owned());
    }
    let Some(pair) = header("Basic") else {
        return Who::Nobody;
    };
    let pair = String::from_utf8(BASE64_STANDARD.decode(pair).unwrap()).unwrap();
    Who::User(pair.split_once(':').unwrap().0.to_owned())
}

struct Site {
    authority: Authority,
    server: Server,
}

impl Site {
    /// `{port}` in an answer is the server's own port; whether it is the token server that is asked
    /// is told.
    fn start(answer: impl Fn(bool, Who) -> String + Send + Sync + 'static) -> Self {
        let authority = Authority::new("test").unwrap();
        let own = Arc::new(OnceLock::new());
        let port = own.clone();
        let server = Server::start(Some(&authority), move |request| {
            let port: &u16 = port.get().unwrap();
            let is_token = request.split(' ').nth(1).unwrap().starts_with("/token");
            answer(is_token, who(request)).replace("{port}", &port.to_string())
        });
        own.set(server.port).unwrap();
        Self { authority, server }
    }

    /// A document whose entry has the accounts a0, a1 and so on.
    fn document(&self, accounts: usize) -> String {
        let mut text = entry("localhost", "a0", PASSWORD, self.authority.certificate());
        for number in 1..accounts {
            let keys = format!("username = \"a{number}\"\npassword = \"{PASSWORD}\"\n");
            write!(text, "[[registries.\"localhost\".also]]\n{keys}").unwrap();
        }
        text
    }

    /// The accounts that came, in order, each as often as it came.
    fn users(&self) -> Vec<String> {
        let requests = self.server.requests();
        let users = requests.iter().filter_map(|request| match who(request) {
            Who::User(user) => Some(user),
            _ => None,
        });
        users.collect()
    }
}

fn bearer() -> String {
    let realm = "WWW-Authenticate: Bearer realm=\"https://localhost:{port}/token\"\r\n";
    head("401 Unauthorized", realm)
}

fn basic() -> String {
    head("401 Unauthorized", "WWW-Authenticate: Basic realm=\"x\"\r\n")
}

/// A token server that refuses all but one account, with these statuses in turn.
fn choosy(good: &'static str) -> Site {
    Site::start(move |is_token, who| match (is_token, who) {
        (true, Who::User(user)) if user == good => ok(&format!("{{\"token\":\"{user}\"}}")),
        (true, Who::User(user)) if user == "a0" => head("401 Unauthorized", ""),
        (true, _) => head("403 Forbidden", ""),
        (false, Who::Bearer(token)) if token == good => ok(CONTENT),
        (false, _) => bearer(),
    })
}

#[test]
fn the_next_account_is_tried_where_the_token_server_refuses_one() {
    for (good, expected) in
        [("a0", &["a0"][..]), ("a1", &["a0", "a1"]), ("a2", &["a0", "a1", "a2"])]
    {
        let site = choosy(good);
        assert!(fetch(&site.document(3), site.server.port, &hasty()).is_ok(), "{good}");
        assert_eq!(site.users(), expected);
    }
}

/// Some registries give everybody a token and look at it only when something is asked for.
#[test]
fn the_next_account_is_tried_where_the_manifest_is_refused() {
    for refusal in ["403 Forbidden", "401 Unauthorized"] {
        let site = Site::start(move |is_token, who| match (is_token, who) {
            (true, Who::User(user)) => ok(&format!("{{\"token\":\"{user}\"}}")),
            (false, Who::Bearer(token)) if token == "a1" => ok(CONTENT),
            (false, Who::Bearer(_)) if refusal.starts_with("403") => head(refusal, ""),
            _ => bearer(),
        });
        assert!(fetch(&site.document(2), site.server.port, &hasty()).is_ok());
        let users = site.users();
        assert_eq!(users.first().unwrap(), "a0");
        assert_eq!(users.last().unwrap(), "a1");
    }
    let site = Site::start(|_, who| match who {
        Who::User(user) if user == "a1" => ok(CONTENT),
        _ => basic(),
    });
    assert!(fetch(&site.document(3), site.server.port, &hasty()).is_ok());
    assert_eq!(site.users(), ["a0", "a1"]);
}

#[test]
fn accounts_of_different_kinds_follow_each_other() {
    let site = Site::start(|is_token, who| match (is_token, who) {
        (true, Who::User(user)) => ok(&format!("{{\"token\":\"{user}\"}}")),
        (false, Who::Bearer(token)) if token == "a1" => ok(CONTENT),
        _ => bearer(),
    });
    let login = format!("username = \"a0\"\npassword = \"{PASSWORD}\"\n");
    let document = site.document(2).replacen(&login, "registrytoken = \"old\"\n", 1);
    assert!(fetch(&document, site.server.port, &hasty()).is_ok());
    assert_eq!(site.users(), ["a1"]);
    // A registry that takes passwords only has no use for the first one.
    let site = Site::start(|_, who| match who {
        Who::User(user) if user == "a1" => ok(CONTENT),
        _ => basic(),
    });
    let document = site.document(2).replacen(&login, "identitytoken = \"old\"\n", 1);
    assert!(fetch(&document, site.server.port, &hasty()).is_ok());
    assert_eq!(site.users(), ["a1"]);
}

#[test]
fn each_account_is_refused_once_and_named() {
    let site = choosy("nobody");
    let error = fetch(&site.document(3), site.server.port, &hasty()).unwrap_err();
    assert_eq!(site.users(), ["a0", "a1", "a2"]);
    let message = text(&error);
    let port = site.server.port;
    assert_eq!(
        message,
        format!(
            "its own account and \"also\" 1, 2 refused: the token server localhost:{port} of \
             localhost:{port} refused the credentials of entry \"localhost.\" (401 Unauthorized): \
             check user name and password or token in the node's imagepuller.toml"
        )
    );
    // With one account it is the error that it always was.
    let site = choosy("nobody");
    let error = fetch(&site.document(1), site.server.port, &hasty()).unwrap_err();
    assert!(text(&error).starts_with("the token server localhost:"), "{error}");
}

/// What is not about the account is not asked again as somebody else, who would learn nothing but
/// be seen.
#[test]
fn only_a_refusal_is_a_reason_for_another_account() {
    for status in ["404 Not Found", "418 Teapot", "410 Gone"] {
        let site = Site::start(move |is_token, who| match (is_token, who) {
            (true, Who::User(user)) => ok(&format!("{{\"token\":\"{user}\"}}")),
            (false, Who::Bearer(_)) => head(status, ""),
            _ => bearer(),
        });
        fetch(&site.document(3), site.server.port, &hasty()).unwrap_err();
        assert_eq!(site.users(), ["a0"], "{status}");
    }
    // A refusal before anybody was named.
    let site = Site::start(|_, _| head("403 Forbidden", ""));
    fetch(&site.document(3), site.server.port, &hasty()).unwrap_err();
    assert_eq!(site.users(), [""; 0]);
    assert_eq!(site.server.requests().len(), 1);
    // A blob: who was let in for the manifest is who pulls.
    let site = Site::start(|is_token, who| match (is_token, who) {
        (true, Who::User(user)) => ok(&format!("{{\"token\":\"{user}\"}}")),
        (false, Who::Bearer(_)) => head("403 Forbidden", ""),
        _ => bearer(),
    });
    blob(&site.document(2), site.server.port, 21, &hasty()).unwrap_err();
    assert_eq!(site.users(), ["a0"]);
}

#[test]
fn a_refusal_by_another_host_is_not_about_the_account() {
    let storage = Site::start(|_, _| head("403 Forbidden", ""));
    let port = storage.server.port;
    let site = Site::start(move |is_token, who| match (is_token, who) {
        (true, Who::User(user)) => ok(&format!("{{\"token\":\"{user}\"}}")),
        (false, Who::Bearer(_)) => {
            head("307 There", &format!("Location: https://localhost:{port}/x\r\n"))
        }
        _ => bearer(),
    });
    let skip = format!(
        "[registries.\"localhost:{port}\"]\nca-certs = '''\n{}'''\n",
        storage.authority.certificate()
    );
    let document = site.document(3) + &skip;
    fetch(&document, site.server.port, &hasty()).unwrap_err();
    assert_eq!(site.users(), ["a0"]);
    let requests = storage.server.requests();
    assert!(!requests.is_empty());
    assert!(requests.iter().all(|request| who(request) == Who::Nobody));
}

#[test]
fn what_worked_is_known_by_its_place() {
    let site = choosy("a2");
    let host = format!("localhost:{}", site.server.port);
    run(async {
        let registry = open(&site.document(3), &host, &hasty()).unwrap();
        assert_eq!(registry.account(), Some(0));
        registry.manifest(&support::digest()).await.unwrap();
        assert_eq!(registry.account(), Some(2));
        registry.manifest(&support::digest()).await.unwrap();
    });
    assert_eq!(site.users(), ["a0", "a1", "a2"]);
}

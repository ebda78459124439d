//! Where signatures are looked for, and in how many turns.

use std::slice;
use std::sync::{Condvar, Mutex};
use std::time::Duration;

use registry_client::Patience;
use serde_json::json;
use test_http::{Answer, Server};

use crate::signatures::shelf::{
    INDEX, MANIFEST, Shelf, asked, digest_of, fallback_tag, find, index, manifest, referrers,
    signature_tag,
};
use crate::support::{self, hasty};

#[test]
fn an_image_without_signatures_takes_three_requests() {
    let server = Shelf::default().serve();
    assert_eq!(find(&server, &hasty()), Ok(vec![]));
    assert_eq!(asked(&server), [fallback_tag(), signature_tag(), referrers()]);
}

#[test]
fn every_place_is_looked_at() {
    let shelf = Shelf::default().signed(&["one", "two"]);
    let by_api = shelf.clone().referred(referrers(), &["three"]).serve();
    let all = ["one", "two", "bundle three"].map(str::to_owned).to_vec();
    assert_eq!(find(&by_api, &hasty()), Ok(all.clone()));
    assert!(!asked(&by_api).contains(&fallback_tag()));
    let by_tag = shelf.clone().referred(fallback_tag(), &["three"]);
    assert_eq!(by_tag.clone().find(), Ok(all));
    // A registry with an API has moved what the tag had.
    let both = by_tag.referred(referrers(), &["four"]);
    let all = ["one", "two", "bundle four"].map(str::to_owned);
    assert_eq!(both.find(), Ok(all.to_vec()));
    let none = shelf.text(referrers(), &index(&[]));
    assert_eq!(none.find().unwrap(), ["one", "two"]);
}

/// Simple signing among the referrers, as cosign 2 writes it where it is told to.
#[test]
fn the_layers_of_referrers_are_found_by_their_types() {
    let (shelf, layer) = Shelf::default().simple("one");
    let artifact = manifest(&[layer]);
    let digest = digest_of(artifact.as_bytes());
    let shelf = shelf.text(format!("manifests/{digest}"), &artifact);
    let empty = "application/vnd.oci.empty.v1+json";
    let entry = json!({"digest": digest.to_string(), "artifactType": empty, "size": 1});
    let list = json!({"schemaVersion": 2, "manifests": [entry]}).to_string();
    assert_eq!(shelf.text(referrers(), &list).find().unwrap(), ["one"]);
}

/// The second turn does not wait for the other place: two turns, where the tag has the signature.
#[test]
fn places_are_asked_side_by_side() {
    struct Turns {
        shelf: Shelf,
        seen: Mutex<Vec<String>>,
        more: Condvar,
    }
    impl Turns {
        /// Answers once something else was asked for.
        fn after(&self, path: &str) -> bool {
            let seen = self.seen.lock().unwrap();
            let is_missing = |seen: &mut Vec<String>| !seen.iter().any(|seen| seen.contains(path));
            let wait = Duration::from_secs(60);
            let waited = self.more.wait_timeout_while(seen, wait, is_missing);
            !waited.unwrap().1.timed_out()
        }
    }
    let turns = Turns {
        shelf: Shelf::default().signed(&["one", "two"]),
        seen: Mutex::default(),
        more: Condvar::new(),
    };
    let payloads = ["one", "two"].map(|payload| digest_of(payload.as_bytes()).to_string());
    let server = Server::start(None, move |request| {
        turns.seen.lock().unwrap().push(request.target.clone());
        turns.more.notify_all();
        let [one, two] = &payloads;
        let is_in_time = match &request.target {
            tag if tag.ends_with(".sig") => turns.after("/referrers/"),
            api if api.contains("/referrers/") => turns.after(one) && turns.after(two),
            payload if payload.ends_with(one) => turns.after(two),
            payload if payload.ends_with(two) => turns.after(one),
            _ => true,
        };
        match is_in_time {
            true => turns.shelf.answer(request),
            false => Answer::new(418, &[], ""),
        }
    });
    assert_eq!(find(&server, &hasty()).unwrap(), ["one", "two"]);
    assert_eq!(asked(&server).len(), 5);
}

#[test]
fn registries_without_the_api_say_so_in_many_ways() {
    let page = "<!doctype html><title>Registry</title>";
    let found = |answer: Answer| {
        let signed = Shelf::default().referred(fallback_tag(), &["one"]);
        let unsigned = Shelf::default().at(referrers(), answer.clone());
        (signed.at(referrers(), answer).find(), unsigned.find())
    };
    for status in [404, 400, 405, 406, 501] {
        let found = found(Answer::new(status, &[], page));
        let one = vec!["bundle one".to_owned()];
        assert_eq!(found, (Ok(one), Ok(vec![])), "{status}");
    }
    let lies = [("Content-Type", INDEX)];
    for body in [page, "", "{}", "[]", "null", "{\"manifests\":{}}"] {
        let found = found(Answer::new(200, &lies, body));
        let one = vec!["bundle one".to_owned()];
        assert_eq!(found, (Ok(one), Ok(vec![])), "{body}");
    }
    // What says nothing about the API is not taken for that, but the other tag is asked too.
    for status in [401, 403, 418, 500] {
        let (signed, unsigned) = found(Answer::new(status, &[], page));
        assert_eq!(signed.unwrap(), ["bundle one"], "{status}");
        let error = unsigned.unwrap_err();
        assert!(error.contains(&status.to_string()), "{error}");
    }
}

/// Types in headers are nobody's promise, in either direction.
#[test]
fn content_types_do_not_count() {
    for kind in ["text/html", MANIFEST, INDEX, "application/json", ""] {
        let header = [("Content-Type", kind)];
        let shelf = Shelf::default().signed(&["one"]);
        let (shelf, digest) = shelf.bundle("two");
        let shelf =
            shelf.at(referrers(), Answer::new(200, &header, index(slice::from_ref(&digest))));
        assert_eq!(shelf.find().unwrap(), ["one", "bundle two"], "{kind}");
    }
    // A document is what it says itself.
    let docker = "application/vnd.docker.distribution.manifest.v2+json";
    let text = json!({"schemaVersion": 2, "mediaType": docker, "layers": []}).to_string();
    let header = [("Content-Type", MANIFEST)];
    let shelf = Shelf::default().at(signature_tag(), Answer::new(200, &header, text));
    let error = shelf.find().unwrap_err();
    let why = format!(".sig which is no OCI manifest but \"{docker}\"");
    assert!(error.contains(&why), "{error}");
}

/// A mirror is asked for what it has under its own names.
#[test]
fn mirrors_are_asked_by_their_own_names() {
    let server = Shelf::default().signed(&["one"]).serve();
    let port = server.port;
    let document = format!(
        "[registries.\"registry.corp\"]\nmirrors = [{{url = \"http://localhost:{port}\", prefix = \
        \"team\", name = \"copy\"}}]\n[registries.\"localhost:{port}\"]\nplain-http = true\n"
    );
    let found = support::run(async {
        let registry = support::open(&document, "registry.corp", &Patience::default()).unwrap();
        registry.signatures(&support::digest()).await
    });
    assert!(found.unwrap().kept.is_empty());
    let targets: Vec<_> = server.requests().iter().map(|request| request.target.clone()).collect();
    assert!(targets.len() >= 3);
    for target in targets {
        assert!(target.starts_with("/v2/copy/app/"), "{target}");
        assert!(target.ends_with("?ns=registry.corp"), "{target}");
    }
}

/// A refusal of the signatures alone would have made a pull go on as the entry's last account, to
/// which the layers are refused.
#[test]
fn a_refused_place_changes_no_account() {
    for status in [401, 403] {
        let shelf = Shelf::default().referred(referrers(), &["one"]);
        let content = format!("manifests/{}", support::digest());
        let shelf = shelf.text(content, support::CONTENT);
        let shelf = shelf.at(signature_tag(), Answer::new(status, &[CHALLENGE], ""));
        let server = guarded(shelf, "first");
        support::run(async {
            let registry = of_two_accounts(&server);
            registry.manifest(&support::digest()).await.unwrap();
            let found = registry.signatures(&support::digest()).await;
            assert_eq!(found.unwrap().kept.len(), 1, "{status}");
            assert_eq!(registry.account(), Some(0), "{status}");
        });
    }
}

/// An image that the store has is not asked for, so signatures may come first.
#[test]
fn where_nobody_was_let_in_the_next_account_is_tried() {
    let unsigned = Shelf::default;
    for shelf in [
        unsigned().signed(&["one"]),
        unsigned().referred(referrers(), &["one"]),
        unsigned().referred(fallback_tag(), &["one"]),
    ] {
        let server = guarded(shelf, "second");
        support::run(async {
            let registry = of_two_accounts(&server);
            let found = registry.signatures(&support::digest()).await;
            assert_eq!(found.unwrap().kept.len(), 1);
            assert_eq!(registry.account(), Some(1));
        });
    }
}

const CHALLENGE: (&str, &str) = ("WWW-Authenticate", "Basic realm=\"test\"");

/// A server that lets only one user read.
fn guarded(shelf: Shelf, user: &'static str) -> Server {
    use base64::Engine as _;
    let pair = base64::prelude::BASE64_STANDARD.encode(format!("{user}:x"));
    let expected = format!("Basic {pair}");
    Server::start(None, move |request| match request.header("authorization") {
        None => Answer::new(401, &[CHALLENGE], ""),
        Some(sent) if sent == expected => shelf.answer(request),
        Some(_) => Answer::new(403, &[], ""),
    })
}

fn of_two_accounts(server: &Server) -> registry_client::registry::Registry {
    let name = format!("localhost:{}", server.port);
    let account = |user: &str| format!("username = \"{user}\"\npassword = \"x\"\n");
    let document = format!(
        "[registries.\"{name}\"]\nplain-http = true\n{}[[registries.\"{name}\".also]]\n{}",
        account("first"),
        account("second"),
    );
    support::open(&document, &name, &hasty()).unwrap()
}

//! Scopes that say less than their author thinks.

use serde_json::json;

use super::place::{Place, policy};

/// A scope that was meant to reject and is for no image: the default would let the image run.
#[test]
fn privileged_a_scope_that_no_image_can_have_lets_nothing_run() {
    vm_harness::needs_root!();
    let place = Place::start();
    let (image, name) = (place.site.image(), place.name("team/app"));
    let accept = || json!([{"type": "insecureAcceptAnything"}]);
    let with = |scopes: &[String]| {
        let reject = |scope: &String| (scope.clone(), json!([{"type": "reject"}]));
        let scopes: serde_json::Map<_, _> = scopes.iter().map(reject).collect();
        place.policy(&json!({"default": accept(), "transports": {"docker": scopes}}), "");
    };
    with(&[]);
    place.puller.pull(&image, "open");
    with(std::slice::from_ref(&name));
    place.puller.refuse(&image, 65, &["rejects it"]);
    let scopes = [
        place.name("team/*"),
        place.name("team/"),
        place.name("Team"),
        format!("https://{name}"),
        image[..image.len() - 1].to_owned(),
        "team/app".to_owned(),
    ];
    let unusable = ["[image-policy] text", "has scopes that no image can have"];
    for scope in &scopes {
        with(std::slice::from_ref(scope));
        let all = [&unusable[..], &[scope]].concat();
        place.puller.refuse(&image, 65, &all);
    }
    with(&scopes);
    let all: Vec<_> = scopes.iter().map(String::as_str).collect();
    let all = [&unusable[..], &all].concat();
    place.puller.refuse(&image, 65, &all);
}

/// The host writes name, digest and mirror: such a scope runs what the host likes.
#[test]
fn privileged_the_log_names_scopes_that_accept_anything() {
    vm_harness::needs_root!();
    let place = Place::start();
    let (image, team) = (place.site.image(), place.name("team"));
    let accepting = |scope: &str| policy(&[(scope, json!({"type": "insecureAcceptAnything"}))]);
    let said = |words: &str| {
        let log = place.puller.log();
        let lines = log.lines().filter(|line| line.contains(words));
        lines.filter(|line| line.contains("accepts anything")).count()
    };
    let (of_policy, of_pull) = ("transports.docker.", "decides for");
    place.policy(&accepting(&team), "");
    place.puller.pull(&image, "first");
    place.puller.pull(&image, "second");
    assert_eq!((said(of_policy), said(of_pull)), (1, 2), "{}", place.puller.log());
    assert_eq!(said(&format!("decides for {image}")), 2, "{}", place.puller.log());
    // Each policy anew, and what has nothing of the kind not at all.
    place.policy(&accepting(&place.host()), "");
    place.puller.pull(&image, "host");
    assert_eq!((said(of_policy), said(of_pull)), (2, 3), "{}", place.puller.log());
    place.policy(&accepting(&image), "");
    place.puller.pull(&image, "digest");
    assert_eq!((said(of_policy), said(of_pull)), (2, 3), "{}", place.puller.log());
    place.policy(&json!({"default": [{"type": "insecureAcceptAnything"}]}), "");
    place.puller.pull(&image, "default");
    assert_eq!((said("default (line"), said(of_pull)), (1, 4), "{}", place.puller.log());
}

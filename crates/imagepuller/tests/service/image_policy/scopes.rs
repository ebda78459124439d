//! Scopes that say less than their author thinks.

use serde_json::json;

use super::place::Place;

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
        place.policy(
            &json!({"default": accept(), "transports": {"docker": scopes}}),
            "",
        );
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

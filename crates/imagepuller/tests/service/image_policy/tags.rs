//! Tags that a signature may give a meaning.

use serde_json::{Value, json};

use super::place::{Place, policy, signed_by};

/// Pulls by a name; gives the digest of what runs.
fn pull(place: &Place, image: &str, bundle: &str) -> String {
    let output = place.puller.request(image, bundle);
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{image}: {error}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

#[test]
fn privileged_a_tag_is_resolved_where_the_owner_allows_it() {
    vm_harness::needs_root!();
    let place = Place::start();
    let name = place.name("team/app");
    let (tag, first) = (format!("{name}:1"), place.site.layout.manifest.clone());
    let by_team = policy(&[
        (&place.name("team"), signed_by("team.pub", "matchRepository")),
        (&place.name("open"), json!({"type": "insecureAcceptAnything"})),
    ]);
    place.sign(&place.team, &first, &name, "team/app");
    let no_digest = ["no digest", "the image policy"];
    place.policy(&by_team, "");
    place.puller.refuse(&tag, 65, &[&no_digest[..], &["allow-tags"]].concat());
    place.policy(&by_team, &format!("allow-tags = [\"{}\"]\n", place.name("other")));
    place.puller.refuse(&tag, 65, &no_digest);
    let allowed = format!("allow-tags = [\"{}\"]\n", place.host());
    place.policy(&by_team, &allowed);
    assert_eq!(pull(&place, &tag, "tag"), first);
    // Where nothing is signed, nothing says which content is right.
    let open = format!("{}:1", place.name("open/app"));
    place.puller.refuse(&open, 65, &["is not resolved", "insecureAcceptAnything"]);

    // The tag moves: to what nobody signed, then to what the team signed.
    let second = place.push("team/app:1", "second");
    place.puller.refuse(&tag, 65, &["no signature was found", "@sha256:...: "]);
    place.sign(&place.team, &second, &name, "team/app");
    assert_eq!(pull(&place, &tag, "moved"), second);
    // A host that hands on the older one gets it, unless the owner refuses that.
    let older = format!("{tag}@{first}");
    assert_eq!(pull(&place, &older, "older"), first);
    place.policy(&by_team, &format!("{allowed}refuse = [\"{first}\"]\n"));
    place.puller.refuse(&older, 65, &["refuse of [image-policy]"]);

    // Pins come first, and the policy must hold besides.
    let pinned = |digest: &str| format!("[pins]\n\"{tag}\" = \"{digest}\"\n");
    place.policy(&by_team, &pinned(&first));
    assert_eq!(pull(&place, &tag, "pinned"), first);
    place.policy(&by_team, &format!("{allowed}{}", pinned(&first)));
    assert_eq!(pull(&place, &tag, "pinned-allowed"), first);
    let third = place.push("team/app:3", "third");
    place.policy(&by_team, &pinned(&third));
    place.puller.refuse(&tag, 65, &["the image policy refuses", "no signature was found"]);
    let measured = super::place::document(&by_team, &allowed);
    place.measured(&format!("only-pins = true\n{measured}"));
    place.puller.refuse(&tag, 65, &["only-pins = true"]);

    // Without the registry a tag means nothing, whatever is in the store.
    place.policy(&by_team, &allowed);
    let Place { site, puller, .. } = place;
    drop(site.registry);
    puller.refuse(&tag, 69, &["cannot reach localhost"]);
    puller.pull(&format!("{name}@{second}"), "by-digest");
}

/// The host writes the name: it may drop the tag, or take another.
#[test]
fn privileged_a_dropped_tag_leads_past_no_scope() {
    vm_harness::needs_root!();
    let place = Place::start();
    let name = place.name("team/app");
    let (one, loose) = (format!("{name}:1"), format!("{name}:loose"));
    let digest = place.site.layout.manifest.clone();
    let of_tags: Value = json!({
        "default": [{"type": "insecureAcceptAnything"}],
        "transports": {"docker": {
            &one: [signed_by("team.pub", "matchExact")],
            &loose: [{"type": "insecureAcceptAnything"}],
        }},
    });
    place.policy(&of_tags, "");
    let none = ["no signature was found"];
    for image in [
        format!("{one}@{digest}"),
        format!("{name}@{digest}"),
        format!("{name}:renamed@{digest}"),
        // The host writes the tag, also the one that the owner opened.
        format!("{loose}@{digest}"),
    ] {
        place.puller.refuse(&image, 65, &none);
    }
    place.sign(&place.team, &digest, &format!("{name}:2"), "team/app");
    place.puller.refuse(&format!("{name}@{digest}"), 65, &["is for"]);
    place.sign(&place.team, &digest, &one, "team/app");
    for (bundle, image) in [
        ("tag", format!("{one}@{digest}")),
        ("dropped", format!("{name}@{digest}")),
        ("renamed", format!("{name}:renamed@{digest}")),
        ("loose", format!("{loose}@{digest}")),
    ] {
        assert_eq!(pull(&place, &image, bundle), digest);
    }
}

/// The owner says which content a tag has, and that nothing is asked of the tag: so it runs. The
/// host gains nothing by it: no other content under this tag, and no other tag before this content.
#[test]
fn privileged_a_pinned_tag_that_accepts_anything_runs_what_is_pinned() {
    vm_harness::needs_root!();
    let place = Place::start();
    let name = place.name("team/app");
    let (tag, first) = (format!("{name}:1"), place.site.layout.manifest.clone());
    let second = place.push("team/app:1", "second");
    let accepts = || json!({"type": "insecureAcceptAnything"});
    let of_tag = policy(&[(&tag, accepts()), (&format!("{name}:2"), accepts())]);
    let rejected = ["the default rejects it"];
    // Without a pin the digest is the host's.
    place.policy(&of_tag, "");
    place.puller.refuse(&format!("{tag}@{first}"), 65, &rejected);
    place.policy(&of_tag, &format!("[pins]\n\"{tag}\" = \"{first}\"\n"));
    assert_eq!(pull(&place, &tag, "pinned"), first);
    assert_eq!(pull(&place, &format!("{tag}@{first}"), "written"), first);
    let pins = ["the measured document pins"];
    place.puller.refuse(&format!("{tag}@{second}"), 65, &pins);
    for other in [
        format!("{name}@{first}"),
        format!("{name}:2@{first}"),
        format!("{name}:2@{second}"),
        format!("{name}:new@{first}"),
    ] {
        place.puller.refuse(&other, 65, &rejected);
    }
    // A pin of the repository says nothing of a tag, which the host chooses then.
    place.policy(&of_tag, &format!("[pins]\n\"{name}\" = \"{first}\"\n"));
    for image in [tag.clone(), format!("{tag}@{first}")] {
        place.puller.refuse(&image, 65, &rejected);
    }
    // What else the owner says of the content holds besides.
    let of_digest =
        policy(&[(&tag, accepts()), (&format!("{name}@{first}"), json!({"type": "reject"}))]);
    place.policy(&of_digest, &format!("[pins]\n\"{tag}\" = \"{first}\"\n"));
    place.puller.refuse(&tag, 65, &["rejects it"]);
}

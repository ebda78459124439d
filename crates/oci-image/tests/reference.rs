//! References: what is read, what is refused and with which words, and the same answers as the
//! grammar that others use.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use oci_image::digest::Digest;
use oci_image::reference::{
    ImageReference, InvalidReference, MAX_REFERENCE_BYTES, TaggedReference,
};
use oci_spec::distribution::Reference;
use proptest::prelude::*;
use registry_config::RegistryHost;
use test_command::hold_cases;

const HEX: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

#[test]
fn references_are_read_or_refused_with_words_of_their_own() {
    hold_cases("references", |text| {
        let text = text.trim_end_matches('\n').replace("HEX", HEX);
        let answer = match ImageReference::parse(&text) {
            Ok(read) => read.to_string(),
            Err(error) => {
                assert!(!format!("{error} {error:?}").contains("hunter2"), "{text}");
                error.to_string()
            }
        };
        answer.replace(HEX, "HEX")
    });
}

/// What a file of cases cannot hold, or not well.
#[test]
fn lengths_and_spaces_are_checked() {
    use InvalidReference as Invalid;
    let with_digest = |name: &str| format!("{name}@sha256:{HEX}");
    let longest = format!("a.corp/{}", "r".repeat(255));
    assert!(ImageReference::parse(&with_digest(&format!("{longest}:{}", "t".repeat(128)))).is_ok());
    for (text, why) in [
        (String::new(), Invalid::Empty),
        (with_digest(" registry.corp/app"), Invalid::Space),
        (format!("{}\n", with_digest("app")), Invalid::Space),
        (with_digest("registry.corp/a\u{a0}b"), Invalid::Space),
        (with_digest(&format!("app:{}", "t".repeat(129))), Invalid::Tag),
        (
            with_digest(&format!("a.corp/{}", "r".repeat(256))),
            Invalid::RepositoryTooLong { length: 256 },
        ),
        (with_digest(&"r".repeat(248)), Invalid::RepositoryTooLong { length: 256 }),
        ("r".repeat(MAX_REFERENCE_BYTES + 1), Invalid::TooLong { length: MAX_REFERENCE_BYTES + 1 }),
    ] {
        assert_eq!(ImageReference::parse(&text).unwrap_err(), why, "{text}");
    }
}

#[test]
fn a_tag_is_pinned_by_the_digest_that_was_found_and_never_in_place_of_another() {
    let found = Digest::parse(&format!("sha256:{}", "f".repeat(64))).unwrap();
    for (text, shown) in [
        ("registry.corp/app:1.2", "registry.corp/app:1.2"),
        ("busybox", "docker.io/library/busybox:latest"),
        ("[::1]:5000/app", "[::1]:5000/app:latest"),
    ] {
        let tagged = TaggedReference::parse(text).unwrap();
        assert_eq!(tagged.to_string(), shown);
        let (name, tag) = shown.rsplit_once(':').unwrap();
        assert_eq!(tagged.tag(), tag);
        assert_eq!(name, format!("{}/{}", tagged.registry(), tagged.repository()));
        assert_eq!(tagged.pin(found.clone()).to_string(), format!("{name}@{found}"));
    }
    for text in [format!("app:1.2@sha256:{HEX}"), format!("app@sha256:{HEX}")] {
        let error = TaggedReference::parse(&text).unwrap_err();
        assert_eq!(error, InvalidReference::HasDigest);
    }
}

/// Texts near the grammar: each part often right, sometimes not.
fn nearly_a_reference() -> impl Strategy<Value = String> {
    let host = prop_oneof![
        Just(String::new()),
        "(docker|index[.]docker|registry-1[.]docker)[.]io(:(443|5000))?/",
        "[a-zA-Z0-9]([a-zA-Z0-9-]{0,6}[a-zA-Z0-9])?([.][a-zA-Z0-9-]{1,5}){0,3}(:[0-9]{1,6})?/",
        "[a-z0-9._-]{1,8}/",
        Just("localhost/".to_owned()),
        "[0-9]{1,3}([.][0-9]{1,3}){1,3}(:[0-9]{2})?/",
    ];
    let path = prop_oneof![
        4 => "[a-z0-9]{1,4}(([.]|_|__|-{1,3})[a-z0-9]{1,3}){0,2}(/[a-z0-9]{1,4}){0,3}",
        1 => "[a-zA-Z0-9./_-]{0,8}",
        1 => "[a-z]{240,256}",
    ];
    let tag = prop_oneof![Just(String::new()), ":[a-zA-Z0-9_.-]{0,6}", ":[a-z]{126,129}"];
    let digest = prop_oneof![
        6 => "@sha256:[0-9a-f]{64}",
        2 => "@sha512:[0-9a-f]{128}",
        1 => "@sha256:[0-9a-fA-F]{63,65}",
        1 => "(@[a-z0-9+]{0,6}:[0-9a-f]{0,64})?",
    ];
    (host, path, tag, digest).prop_map(|parts| [parts.0, parts.1, parts.2, parts.3].concat())
}

/// Both parsers on one text. Ours may only refuse what cannot be asked for: a registry that is no
/// host name, and the upper case that the other parser takes for a repository of Docker Hub.
fn compare(text: &str) -> Result<(), TestCaseError> {
    let ours = ImageReference::parse(text);
    let Ok(theirs) = text.parse::<Reference>() else {
        // What only ours reads is written with an IPv6 address, or with an underscore in a host
        // that has a port.
        if let Ok(ours) = ours {
            let host = text.split_once('/').map_or("", |(host, _)| host);
            let is_ours = host.starts_with('[') || host.contains('_');
            prop_assert!(is_ours, "only ours reads {text} as {ours}");
        }
        return Ok(());
    };
    let digest = theirs.digest().and_then(|digest| Digest::parse(digest).ok());
    match (ours, digest) {
        (Ok(ours), Some(digest)) => {
            prop_assert_eq!(ours.digest(), &digest);
            let registry = RegistryHost::parse(theirs.registry()).unwrap();
            prop_assert_eq!(ours.registry(), &registry);
            let theirs = theirs.repository();
            if registry.is_docker_hub() && !theirs.contains('/') {
                prop_assert_eq!(ours.repository(), format!("library/{theirs}"));
            } else {
                prop_assert_eq!(ours.repository(), theirs);
            }
        }
        (Ok(ours), None) => prop_assert!(false, "only ours sees a digest in {text}: {ours}"),
        (Err(InvalidReference::Registry(_)), _) => {
            prop_assert!(RegistryHost::parse(theirs.registry()).is_err(), "{text}");
        }
        (Err(InvalidReference::UppercaseRegistry | InvalidReference::Uppercase), _) => {
            let repository = theirs.repository();
            prop_assert_ne!(repository.to_lowercase(), repository, "{}", text);
        }
        // Docker Hub's "library/" counts, and the other parser does not know all of Docker Hub's
        // names.
        (Err(InvalidReference::RepositoryTooLong { length: 256.. }), _) => {
            prop_assert!(theirs.repository().len() + "library/".len() > 255, "{text}");
        }
        (Err(error), digest) => prop_assert!(digest.is_none(), "{text}: {error}"),
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    /// Everything that others read with a digest is read here, and means the same image.
    #[test]
    fn nothing_that_others_read_is_refused(text in nearly_a_reference()) {
        compare(&text)?;
    }

    /// What is read survives its own display, and a tag does not get into it beside a digest.
    #[test]
    fn a_reference_is_what_it_shows(text in nearly_a_reference()) {
        if let Ok(read) = ImageReference::parse(&text) {
            let shown = read.to_string();
            let again = ImageReference::parse(&shown).unwrap();
            prop_assert_eq!(again.to_string(), shown);
            prop_assert_eq!(again.registry(), read.registry());
            prop_assert_eq!(again.repository(), read.repository());
            prop_assert_eq!(again.digest(), read.digest());
        }
        if let Ok(read) = TaggedReference::parse(&text) {
            let again = TaggedReference::parse(&read.to_string()).unwrap();
            prop_assert_eq!(again.tag(), read.tag());
            prop_assert_eq!(again.to_string(), read.to_string());
        }
    }
}

/// The examples of the other grammar's own documentation, and the corners that random texts seldom
/// reach.
#[test]
fn known_spellings_mean_the_same_to_both() {
    for name in [
        "busybox",
        "test.com:tag",
        "test.com:5000",
        "test.com/repo:tag",
        "test:5000/repo",
        "sub-dom1.foo.com/bar/baz/quux:some-long-tag",
        "b.gcr.io/test.example.com/my-app:test.example.com",
        "xn--7o8h.com/myimage:xn--7o8h.com",
        "foo_bar.com:8080",
        "foo/foo_bar.com:8080",
        "foo_bar.com/foo",
        "opensuse/leap:15.3",
        "docker.io/a",
        "index.docker.io/a",
        "a--b.c/d",
        "1/2",
        "1.2.3.4/5",
        "localhost",
        "a/localhost/b",
        "a-b/c",
    ] {
        compare(&format!("{name}@sha256:{HEX}")).unwrap();
        compare(&format!("{name}@sha512:{HEX}{HEX}")).unwrap();
        compare(name).unwrap();
    }
}

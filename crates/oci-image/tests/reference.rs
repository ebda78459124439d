//! References: what is read, what is refused and with which words, and the same answers as the
//! grammar that others use.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use oci_image::digest::{Digest, InvalidDigest};
use oci_image::reference::{
    ImageReference, InvalidReference, MAX_REFERENCE_BYTES, TaggedReference,
};
use oci_spec::distribution::Reference;
use proptest::prelude::*;
use puller_config::{InvalidName, RegistryHost};

const HEX: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";

#[test]
fn references_with_a_digest_are_read() {
    for (text, expected) in [
        ("registry.corp:5000/team/app", "registry.corp:5000/team/app"),
        ("registry.corp:5000/team/app:1.2", "registry.corp:5000/team/app"),
        ("busybox", "docker.io/library/busybox"),
        ("busybox:1.36", "docker.io/library/busybox"),
        ("team/app", "docker.io/team/app"),
        ("library/busybox", "docker.io/library/busybox"),
        ("docker.io/busybox", "docker.io/library/busybox"),
        ("docker.io/team/app", "docker.io/team/app"),
        ("index.docker.io/busybox", "docker.io/library/busybox"),
        ("registry-1.docker.io/library/busybox", "docker.io/library/busybox"),
        ("registry-1.docker.io/busybox", "docker.io/library/busybox"),
        ("docker.io:443/busybox", "docker.io:443/library/busybox"),
        ("docker.io:5000/busybox", "docker.io:5000/busybox"),
        ("localhost/app", "localhost/app"),
        ("localhost:5000/app", "localhost:5000/app"),
        ("127.0.0.1/app", "127.0.0.1/app"),
        ("127.0.0.1:5000/app", "127.0.0.1:5000/app"),
        ("[::1]/app", "[::1]/app"),
        ("[::1]:5000/team/app:1.2", "[::1]:5000/team/app"),
        ("[2001:DB8:0::1]:443/app", "[2001:db8::1]:443/app"),
        ("Registry.Corp/team/app", "registry.corp/team/app"),
        ("TEAM:5000/app", "team:5000/app"),
        ("team:5000/app", "team:5000/app"),
        ("my_registry.corp/app", "my_registry.corp/app"),
        ("xn--n3h.com/app:xn--n3h.com", "xn--n3h.com/app"),
        ("test.com:5000", "docker.io/library/test.com"),
        ("ghcr.io/a/b/c/d__e.f-g---h", "ghcr.io/a/b/c/d__e.f-g---h"),
        ("app:_1-.x", "docker.io/library/app"),
    ] {
        let read = ImageReference::parse(&format!("{text}@sha256:{HEX}"))
            .unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(read.to_string(), format!("{expected}@sha256:{HEX}"), "{text}");
    }
    assert!(ImageReference::parse(&format!("app@sha512:{HEX}{HEX}")).is_ok());
    let longest = format!("a.corp/{}", "r".repeat(255));
    assert!(ImageReference::parse(&format!("{longest}:{}@sha256:{HEX}", "t".repeat(128))).is_ok());
}

#[test]
fn a_reference_without_digest_says_how_to_pin_it() {
    for (text, name, tag) in [
        ("registry.corp:5000/team/app:1.2", "registry.corp:5000/team/app", "1.2"),
        ("busybox", "docker.io/library/busybox", "latest"),
        ("[::1]:5000/app", "[::1]:5000/app", "latest"),
    ] {
        let error = ImageReference::parse(text).unwrap_err();
        assert_eq!(
            error,
            InvalidReference::NoDigest { name: name.to_owned(), tag: tag.to_owned() }
        );
        let words = error.to_string();
        assert!(words.contains(&format!("docker://{name}:{tag}")), "{words}");
        assert!(words.contains(&format!("{name}@sha256:")), "{words}");
    }
}

#[test]
fn every_mistake_has_its_own_words() {
    use InvalidReference as Invalid;
    let with_digest = |name: &str| format!("{name}@sha256:{HEX}");
    let digest = |error| Invalid::Digest(error);
    let length = |found| digest(InvalidDigest::Length { expected: 64, found });
    for (text, why) in [
        (String::new(), Invalid::Empty),
        ("@".to_owned(), digest(InvalidDigest::Algorithm)),
        (with_digest(""), Invalid::NoRepository),
        (with_digest(":1.2"), Invalid::NoRepository),
        (with_digest("registry.corp/"), Invalid::NoRepository),
        (with_digest("registry.corp/:1.2"), Invalid::NoRepository),
        (with_digest("[::1]:5000"), Invalid::NoRepository),
        (with_digest("App"), Invalid::Uppercase),
        (with_digest("registry.corp/App"), Invalid::Uppercase),
        (with_digest("team/App"), Invalid::Uppercase),
        (with_digest("Team/app"), Invalid::UppercaseRegistry),
        (with_digest("registry.corp./app"), Invalid::TrailingDot),
        (with_digest("registry.corp.:5000/app"), Invalid::TrailingDot),
        // Read as the host "_", it would come back as a repository of Docker Hub.
        (with_digest("_./app"), Invalid::TrailingDot),
        (with_digest("https://registry.corp/app"), Invalid::Scheme),
        (with_digest("docker://registry.corp/app"), Invalid::Scheme),
        (with_digest("user:password@registry.corp/app"), Invalid::UserInfo),
        (with_digest("user@registry.corp/app"), Invalid::UserInfo),
        (with_digest(" registry.corp/app"), Invalid::Space),
        (format!("{}\n", with_digest("app")), Invalid::Space),
        (with_digest("registry.corp/a\u{a0}b"), Invalid::Space),
        (format!("app@sha256:{HEX}@sha256:{HEX}"), length(64 + 1 + 7 + 64)),
        (format!("app@sha256:{}", &HEX[1..]), length(63)),
        (format!("app@sha256:{HEX}0"), length(65)),
        (format!("app@sha256:{}", HEX.to_uppercase()), digest(InvalidDigest::Uppercase)),
        (format!("app@sha384:{HEX}{}", &HEX[..32]), digest(InvalidDigest::Algorithm)),
        (format!("app@md5:{}", &HEX[..32]), digest(InvalidDigest::Weak)),
        (format!("app@sha1:{}", &HEX[..40]), digest(InvalidDigest::Weak)),
        (format!("app@{HEX}"), digest(InvalidDigest::Algorithm)),
        (with_digest("registry.corp/../app"), Invalid::Repository),
        (with_digest("registry.corp//app"), Invalid::Repository),
        (with_digest("registry.corp/app/"), Invalid::Repository),
        (with_digest("/app"), Invalid::Repository),
        (with_digest("app."), Invalid::Repository),
        (with_digest("a..b"), Invalid::Repository),
        (with_digest("a___b"), Invalid::Repository),
        (with_digest("a._b"), Invalid::Repository),
        (with_digest("-a"), Invalid::Repository),
        (with_digest("caf\u{e9}"), Invalid::Repository),
        (with_digest("a%2fb"), Invalid::Repository),
        (with_digest("a?b"), Invalid::Repository),
        (with_digest("app:"), Invalid::Tag),
        (with_digest("app:-1"), Invalid::Tag),
        (with_digest("app:1:2"), Invalid::Tag),
        (with_digest("app:caf\u{e9}"), Invalid::Tag),
        (with_digest("registry.corp/app:1/2"), Invalid::Tag),
        (with_digest(&format!("app:{}", "t".repeat(129))), Invalid::Tag),
        (
            with_digest(&format!("a.corp/{}", "r".repeat(256))),
            Invalid::RepositoryTooLong { length: 256 },
        ),
        (with_digest(&"r".repeat(248)), Invalid::RepositoryTooLong { length: 256 }),
        ("r".repeat(MAX_REFERENCE_BYTES + 1), Invalid::TooLong { length: MAX_REFERENCE_BYTES + 1 }),
        (with_digest("registry.corp:99999/app"), Invalid::Registry(InvalidName::Port)),
        (with_digest("app:1.2/b"), Invalid::Registry(InvalidName::Port)),
        (with_digest("::1/app"), Invalid::Registry(InvalidName::Ipv6)),
        (with_digest("[::1/app"), Invalid::Registry(InvalidName::Ipv6)),
        (with_digest("[fe80::1%eth0]/app"), Invalid::Registry(InvalidName::Ipv6)),
        (with_digest("192.0.2/app"), Invalid::Registry(InvalidName::NumericLabel)),
        (with_digest("../app"), Invalid::Registry(InvalidName::EmptyLabel)),
    ] {
        assert_eq!(ImageReference::parse(&text).unwrap_err(), why, "{text}");
    }
}

#[test]
fn a_password_is_in_no_message() {
    for text in [
        "user:hunter2@registry.corp/app",
        "https://user:hunter2@registry.corp/app",
        "user:hunter2@registry.corp/app@sha256:00",
        "user:hunter2@registry.corp",
        "user:hunter2/app",
        "registry.corp/app:hunter2 x",
        "registry.corp/app@hunter2",
    ] {
        let error = ImageReference::parse(text).unwrap_err();
        assert!(!format!("{error} {error:?}").contains("hunter2"), "{text}");
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

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use super::*;

#[test]
fn a_pattern_matches_what_the_kubelet_matches() {
    for (pattern, image, expected) in [
        ("registry.corp", "registry.corp/team/app", true),
        ("registry.corp", "registry.corp", true),
        ("registry.corp", "other.corp/app", false),
        ("registry.corp", "Registry.corp/app", false),
        ("Registry.corp", "Registry.corp/app", true),
        // Labels: equally many, each by its glob.
        ("*.corp", "registry.corp/app", true),
        ("*.corp", "a.registry.corp/app", false),
        ("*.*.corp", "a.registry.corp/app", true),
        ("*.corp", "corp/app", false),
        ("*", "localhost/app", true),
        ("*", "registry.corp/app", false),
        (
            "*.dkr.ecr.*.amazonaws.com",
            "123456789012.dkr.ecr.eu-central-1.amazonaws.com/probe",
            true,
        ),
        (
            "*.dkr.ecr.*.amazonaws.com",
            "123456789012.dkr.ecr.cn-north-1.amazonaws.com.cn/probe",
            false,
        ),
        ("k8s.*", "k8s.io/app", true),
        ("prefix.*.io", "prefix.kubernetes.io/app", true),
        ("*-good.k.io", "prefix-good.k.io/app", true),
        ("*-good.k.io", "prefix-bad.k.io/app", false),
        ("reg*y.corp", "registry.corp/app", true),
        ("r*s*y.corp", "rsrsrsyry.corp/app", true),
        ("r*s*x.corp", "rsrsrsyry.corp/app", false),
        ("%E4%B8%AD.corp", "\u{4e2d}.corp/app", true),
        // Ports: equal as texts, both ways.
        ("registry.corp:5000", "registry.corp:5000/app", true),
        ("registry.corp:5000", "registry.corp:5001/app", false),
        ("registry.corp:5000", "registry.corp/app", false),
        ("registry.corp", "registry.corp:5000/app", false),
        ("registry.corp:443", "registry.corp/app", false),
        ("registry.corp:05000", "registry.corp:5000/app", false),
        ("*:5000", "localhost:5000/app", true),
        // Paths: a prefix of the text.
        ("registry.corp/team", "registry.corp/team/app", true),
        ("registry.corp/team", "registry.corp/teams", true),
        ("registry.corp/team/", "registry.corp/team", false),
        ("registry.corp/te*", "registry.corp/team", false),
        ("registry.corp/te%61m", "registry.corp/team", true),
        ("registry.corp?query", "registry.corp/app", true),
        ("reg?stry.corp", "registry.corp/app", false),
        ("robot@registry.corp", "registry.corp/app", true),
        ("[::1]:5000", "[::1]:5000/app", true),
        // Without a port the brackets are a class of characters.
        ("[::1]", "[::1]/app", false),
        ("https://registry.corp", "registry.corp/app", false),
    ] {
        let [one, other] = [pattern, image].map(|text| Pattern::parse(text).unwrap());
        assert_eq!(one.matches(&other), expected, "{pattern} and {image}");
    }
}

#[test]
fn what_is_no_url_is_no_pattern() {
    let long = "a".repeat(MAX_PATTERN_BYTES + 1);
    for text in [
        "registry corp",
        "registry.corp:http",
        "registry.corp/%zz",
        "registry.corp/%4",
        "reg\\*.corp",
        "[::1",
        "[::1]x",
        "reg[0-9].corp",
        "[a.b]",
        "[192.0.2.1]:5000",
        "::1",
        "reg.corp:5000:6000",
        "%5b.corp",
        "reg%2ecorp",
        "reg%20.corp",
        "us er@reg.corp",
        "reg.corp#%zz",
        "a\nb",
        "registry.corp/\u{7f}",
        "a{b}.corp",
        &long,
    ] {
        assert_eq!(Pattern::parse(text), Err(InvalidPattern), "{text}");
    }
}

/// Pattern, image, and what the kubelet 1.36.3 itself says of the two (built with Go 1.26.8).
#[test]
fn the_kubelets_own_verdicts_hold() {
    const RECORDED: &str = include_str!("../../../tests/data/kubelet/matchimages.tsv");
    let mut rows = 0;
    for line in RECORDED.lines() {
        let [pattern, image, verdict] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let found = match (Pattern::parse(pattern), Pattern::parse(image)) {
            (Ok(pattern), Ok(image)) if pattern.matches(&image) => "true",
            (Ok(_), Ok(_)) => "false",
            // An image like this is none, and no plugin is asked about it.
            (Ok(_), Err(_)) => "false",
            (Err(_), _) => "badpattern",
        };
        assert_eq!(found, verdict, "{pattern:?} and {image:?}");
        rows += 1;
    }
    assert_eq!(rows, 167);
}

#[test]
fn a_pattern_without_globs_names_its_registry() {
    for (pattern, registry) in [
        ("gcr.io", Some("gcr.io")),
        ("reg.corp:5000/team", Some("reg.corp:5000")),
        ("[::1]:5000", Some("[::1]:5000")),
        ("*.gcr.io", None),
        ("192.168.1.*", None),
        ("/team", None),
    ] {
        let found = Pattern::parse(pattern).unwrap().registry();
        assert_eq!(found.map(|host| host.to_string()).as_deref(), registry);
    }
}

//! The table of `docs/image-policy.md`: which scope decides for which name that a host may write.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use image_policy::ruling::{Quantity, Ruling};
use image_policy::{Conditions, Policy};
use oci_image::named::NamedReference;

const PAGE: &str = include_str!("../../../docs/image-policy.md");
const DIGEST: &str = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

/// What scopes ask for, in the words of the page.
const ASKED: [(&str, &str); 3] = [
    ("signed", r#"{"type":"sigstoreSigned","keyPath":"/k"}"#),
    ("accepts", r#"{"type":"insecureAcceptAnything"}"#),
    ("rejects", r#"{"type":"reject"}"#),
];

/// A name or a scope of the page in full.
fn full(text: &str) -> String {
    text.trim()
        .trim_matches('`')
        .replace("app", "r.test/team/app")
        .replace("@D", &format!("@{DIGEST}"))
}

/// `above` is the scope of the repository, the namespace or the host, or the default.
fn policy(above: (&str, &str), scopes: &[(String, &str)]) -> Policy {
    let asked = |word: &str| ASKED.iter().find(|(known, _)| *known == word).unwrap().1;
    let (place, word) = above;
    let mut all = Vec::new();
    let mut default = "rejects";
    match place {
        "" => default = word,
        place => all.push(format!("{place:?}:[{}]", asked(word))),
    }
    let scopes = scopes.iter();
    all.extend(scopes.map(|(scope, word)| format!("{:?}:[{}]", full(scope), asked(word))));
    let text = format!(
        r#"{{"default":[{}],"transports":{{"docker":{{{}}}}}}}"#,
        asked(default),
        all.join(",")
    );
    Policy::parse(text.as_bytes()).unwrap()
}

fn named(text: &str) -> NamedReference {
    NamedReference::parse(&full(text)).unwrap()
}

/// What decides, in the words of the page.
fn deciding(ruling: &Ruling<'_>, above: &str) -> String {
    let between = match ruling.quantity() {
        Quantity::Each => " and ",
        Quantity::One => " or ",
    };
    let above = match above {
        "" => "the default".to_owned(),
        above => format!("scope {above:?}"),
    };
    let name = full("app");
    let clauses = ruling.clauses().iter().map(|clause| {
        let words = clause.to_string();
        if words == above {
            return "above".to_owned();
        }
        let scope = words.trim_start_matches("scope ").trim_matches('"');
        let rest = scope.strip_prefix(&name).unwrap();
        format!("`{}`", rest.replace(DIGEST, "D"))
    });
    clauses.collect::<Vec<_>>().join(between)
}

/// The rows of a table: the cells between its bars.
fn rows() -> Vec<Vec<&'static str>> {
    let table = PAGE.split("| scopes of `app` |").nth(1).unwrap();
    let lines = table.lines().take_while(|line| line.contains('|'));
    lines.map(|line| line.trim_matches('|').split('|').map(str::trim).collect()).collect()
}

#[test]
fn the_page_says_which_scope_decides() {
    let rows = rows();
    let (names, rest) = rows.split_first().unwrap();
    let allowed = Conditions::parse(&[String::new()], &[]).unwrap();
    let mut cells = 0;
    for row in &rest[1..] {
        let (scopes, expected) = row.split_first().unwrap();
        let scopes: Vec<_> = scopes
            .split(',')
            .filter_map(|scope| scope.trim().split_once(' '))
            .map(|(scope, word)| (format!("app{}", scope.trim_matches('`')), word))
            .collect();
        assert_eq!(names.len(), expected.len(), "{row:?}");
        for (name, expected) in names.iter().zip(expected) {
            cells += 1;
            for place in ["", "r.test", "r.test/team", "r.test/team/app"] {
                for (word, _) in ASKED {
                    let policy = policy((place, word), &scopes);
                    let name = named(name);
                    let decides = deciding(&policy.ruling(&name), place);
                    // Of the scopes above only one that is signed lets a tag resolve.
                    let is_resolved = policy.may_resolve_tag(&name, &allowed).is_ok();
                    let found = match is_resolved || decides == "above" {
                        true => decides.as_str(),
                        false => "not resolved",
                    };
                    assert_eq!(found, *expected, "{name} of {row:?}, {place:?} {word}");
                }
            }
        }
    }
    assert!(cells >= 100, "{cells}");
}

/// Every set of scopes of two tags and of the digest, with every scope above, and every name that
/// the host may write for one content, unsigned.
#[test]
fn no_name_leads_to_less_than_what_is_asked_for() {
    const WORDS: [Option<&str>; 4] = [None, Some("signed"), Some("accepts"), Some("rejects")];
    let names = ["app@D", "app:a@D", "app:b@D", "app:new@D"];
    for at in 0..4_usize.pow(3) {
        let [a, b, digest] = [at % 4, at / 4 % 4, at / 16].map(|at| WORDS[at]);
        let written = [("app:a", a), ("app:b", b), ("app@D", digest)];
        let scopes: Vec<_> = written
            .iter()
            .filter_map(|(scope, word)| Some(((*scope).to_owned(), (*word)?)))
            .collect();
        let without: Vec<_> = scopes
            .iter()
            .filter(|(scope, word)| scope.contains('@') || *word != "accepts")
            .cloned()
            .collect();
        for (above, _) in ASKED {
            let (with, without) = (policy(("", above), &scopes), policy(("", above), &without));
            for name in names {
                let case = format!("{name} {scopes:?} {above}");
                let decides = deciding(&with.ruling(&named(name)), "");
                let alike = deciding(&without.ruling(&named(name)), "");
                assert_eq!(decides, alike, "a tag that accepts says nothing: {case}");
                let is_demanded =
                    [a, b].iter().any(|word| matches!(word, Some("signed" | "rejects")));
                let may_run = match digest {
                    Some(word) => word == "accepts",
                    None => !is_demanded && above == "accepts",
                };
                assert!(!runs_unsigned(&with, name) || may_run, "{case}");
            }
        }
    }
}

fn runs_unsigned(policy: &Policy, name: &str) -> bool {
    let reference = named(name);
    let contents = [reference.digest().unwrap().clone()];
    let key = |_: &str| Ok(include_bytes!("data/signatures/keys/skopeo-s.pub").to_vec());
    let ruling = policy.ruling(&reference);
    ruling.judge(&contents, &[], &key, &Conditions::default()).is_ok()
}

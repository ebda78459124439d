//! Several mirrors: which are asked for a repository, in which order, under which name, as whom.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use registry_config::Credentials;

use crate::settings::tests::{entry, host, login, settings};
use crate::{Error, Reason, Route};

/// The sources of an image of `r.corp`: host, name of the repository, user.
fn asked(document: &str, repository: &str) -> Vec<String> {
    let plan = settings("", document).plan(&host("r.corp"), repository).unwrap();
    let Route { sources, .. } = plan.fill(None, None).unwrap();
    let show = |source: &crate::Source| {
        let who = match source.credentials(0) {
            Credentials::Basic { username, .. } => username,
            _ => "nobody",
        };
        let name = source.repository.as_deref().unwrap_or(repository);
        format!("{} {name} {who}", source.host())
    };
    sources.iter().map(show).collect()
}

#[test]
fn mirrors_are_asked_in_order_and_only_for_what_they_have() {
    let mirrors = "mirrors = [\"https://m1\", {url = \"https://m2/cache\", prefix = \"team\"}]\n";
    let fallback = "mirror-fallback = true\n";
    for (keys, repository, expected) in [
        (mirrors.to_owned(), "team/app", &["m1 team/app nobody", "m2 team/app nobody"][..]),
        (mirrors.to_owned(), "teams/app", &["m1 teams/app nobody"]),
        (format!("{mirrors}{fallback}"), "app", &["m1 app nobody", "r.corp app nobody"]),
        // Credentials are lent to each, and none are left for the registry.
        (
            format!("{mirrors}{fallback}{}", login("u")),
            "team",
            &["m1 team u", "m2 team u", "r.corp team nobody"],
        ),
    ] {
        assert_eq!(asked(&entry("r.corp", &keys), repository), expected, "{keys}");
    }
    // Where no mirror has the repository, nothing is lent and the registry itself is asked.
    let only = format!("{}mirrors = [{{url = \"https://m2\", prefix = \"team\"}}]\n", login("u"));
    assert_eq!(asked(&entry("r.corp", &only), "app"), ["r.corp app u"]);
    assert_eq!(asked(&entry("r.corp", &only), "team/app"), ["m2 team/app u"]);
    // Of several mirrors one may have an entry of its own.
    let own = entry("r.corp", &format!("{mirrors}{fallback}{}", login("u")))
        + &entry("m1", &login("own"));
    let plan = settings("", &own).plan(&host("r.corp"), "app").unwrap();
    assert!(!matches!(plan.registry().account(), crate::Account::Anonymous(_)));
    assert_eq!(asked(&own, "app"), ["m1 app own", "r.corp app u"]);
    assert_eq!(asked(&own, "team"), ["m1 team own", "m2 team u", "r.corp team nobody"]);
    let plan = settings("", &own).plan(&host("r.corp"), "team").unwrap();
    let crate::Account::Anonymous(Reason::LentAway { mirror, .. }) = plan.registry().account()
    else {
        panic!("{:?}", plan.registry().account());
    };
    assert_eq!(mirror, "m2");
}

#[test]
fn each_source_but_the_last_has_another_one_behind_it() {
    let keys = "mirrors = [\"https://m1\", \"https://m2\"]\n";
    for (fallback, expected) in [(false, &[true, false][..]), (true, &[true, true, false])] {
        let document = entry("r.corp", &format!("{keys}mirror-fallback = {fallback}\n"));
        let plan = settings("", &document).plan(&host("r.corp"), "app").unwrap();
        let sources = plan.fill(None, None).unwrap().sources;
        let found: Vec<_> = sources.iter().map(|source| source.has_fallback).collect();
        assert_eq!(found, expected);
    }
}

#[test]
fn repositories_have_other_names_at_mirrors_and_their_own_at_the_registry() {
    let keys = "mirrors = [{url = \"https://m1\", prefix = \"team\", name = \"t\"}, \
        {url = \"https://m2/p\", name = \"hub\"}]\nmirror-fallback = true\n";
    let document = entry("r.corp", keys);
    assert_eq!(
        asked(&document, "team/app"),
        ["m1 t/app nobody", "m2 hub/team/app nobody", "r.corp team/app nobody"]
    );
    assert_eq!(asked(&document, "app"), ["m2 hub/app nobody", "r.corp app nobody"]);
    let plan = settings("", &document).plan(&host("r.corp"), "team/app").unwrap();
    let source = &plan.fill(None, None).unwrap().sources[1];
    let name = source.repository.as_deref().unwrap();
    let url = source.url("https", name, "manifests", "x").unwrap();
    assert_eq!(url.as_str(), "https://m2/p/v2/hub/team/app/manifests/x?ns=r.corp");
}

/// Of a name without its prefix nothing may be left.
#[test]
fn a_mirror_without_a_name_for_the_repository_is_passed_over() {
    let list = "{url = \"https://m1\", prefix = \"team\", name = \"\"}";
    let [one, two] =
        [format!("mirrors = [{list}]\n"), format!("mirrors = [{list}, \"https://m2\"]\n")];
    let fallback = format!("{one}mirror-fallback = true\n");
    assert_eq!(asked(&entry("r.corp", &one), "team/app"), ["m1 app nobody"]);
    assert_eq!(asked(&entry("r.corp", &two), "team"), ["m2 team nobody"]);
    assert_eq!(asked(&entry("r.corp", &fallback), "team"), ["r.corp team nobody"]);
    let error = settings("", &entry("r.corp", &one)).plan(&host("r.corp"), "team").unwrap_err();
    assert!(matches!(error, Error::NoName { .. }), "{error}");
    assert!(error.to_string().contains("entry \"r.corp.\""), "{error}");
}

/// What registries.conf says by `blocked`, beside mirrors and without.
#[test]
fn the_registry_itself_is_asked_where_the_items_say_so() {
    let item = |rest: &str| format!("{{url = \"https://m\", {rest}}}");
    let [kept, open, wide] =
        ["prefix = \"a\", fallback = false", "prefix = \"b\", fallback = true", "fallback = false"]
            .map(item);
    let blocked = "{prefix = \"c/d\", fallback = false}";
    let [mirror, both] = [&["m"][..], &["m", "r.corp"]];
    for (items, fallback, repository, expected) in [
        (vec![&*kept, &*open], true, "a/x", mirror),
        (vec![&kept, &open], true, "b/x", both),
        (vec![&kept, &open], false, "b/x", both),
        (vec![&kept, &open], true, "ab", &["r.corp"]),
        (vec![&open, &wide], true, "b", &["m", "m"]),
        (vec![&wide], true, "x", mirror),
        (vec!["'https://m'", blocked], true, "c", both),
        (vec![blocked], false, "c/de", &["r.corp"]),
        // Nobody is asked.
        (vec!["'https://m'", blocked], true, "c/d", &[]),
        (vec![blocked], true, "c/d/e", &[]),
    ] {
        let keys = format!("mirrors = [{}]\nmirror-fallback = {fallback}\n", items.join(", "));
        let plan = settings("", &entry("r.corp", &keys)).plan(&host("r.corp"), repository);
        let plan = match plan {
            Err(Error::Blocked { prefix, .. }) if expected.is_empty() => {
                assert_eq!(prefix, "c/d");
                continue;
            }
            plan => plan.unwrap(),
        };
        let sources = plan.fill(None, None).unwrap().sources;
        let hosts: Vec<_> = sources.iter().map(crate::Source::host).collect();
        assert_eq!(hosts, expected, "{keys} {repository}");
        let fallbacks: Vec<_> = sources.iter().map(|source| source.has_fallback).collect();
        assert_eq!(fallbacks.last(), Some(&false));
        assert!(fallbacks.iter().rev().skip(1).all(|has| *has));
    }
}

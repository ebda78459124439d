//! Credentials for some repositories of a host, and the way there by the host's entry.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use docker_config::DockerConfig;
use registry_config::Credentials;

use crate::settings::tests::{entry, host, login, settings};
use crate::{Account, Error, Reason, Route};

const REFERENCE: &str = "credentials-uri = \"kbs:///default/credential/test\"\n";
const SKIP: &str = "insecure-skip-verify = true\n";

fn user(credentials: &Credentials) -> &str {
    match credentials {
        Credentials::Basic { username, .. } => username,
        Credentials::Anonymous => "nobody",
        other => panic!("{other:?}"),
    }
}

/// The sources of an image of `r.corp`, as `host as user by entry`.
fn asked(measured: &str, configuration: &str, repository: &str) -> Vec<String> {
    let plan = settings(measured, configuration).plan(&host("r.corp"), repository).unwrap();
    let Route { sources, .. } = plan.fill(None, None).unwrap();
    let show = |source: &crate::Source| {
        let who = user(source.credentials(0));
        let (by, _) = source.authority.credentials_source();
        format!("{source} as {who} by {by}")
    };
    sources.iter().map(show).collect()
}

#[test]
fn the_longest_entry_says_who_and_the_hosts_entry_how() {
    let document = entry("r.corp", &format!("{}{SKIP}", login("host")))
        + &entry("r.corp/team", &login("team"))
        + &entry("r.corp/team/secret", &login("secret"))
        + &entry("r.corp/open", "");
    for (repository, who, by) in [
        ("app", "host", "entry \"r.corp.\""),
        ("team", "team", "entry \"r.corp/team\""),
        ("team/app", "team", "entry \"r.corp/team\""),
        ("team/secret/app", "secret", "entry \"r.corp/team/secret\""),
        ("teams/app", "host", "entry \"r.corp.\""),
        ("open/app", "nobody", "entry \"r.corp/open\""),
    ] {
        let expected = format!("registry r.corp as {who} by {by}");
        assert_eq!(asked("", &document, repository), [expected]);
        let plan = settings("", &document).plan(&host("r.corp"), repository).unwrap();
        assert!(plan.authority().registry.insecure_skip_verify, "{repository}");
        assert_eq!(plan.authority().to_string(), "entry \"r.corp.\"");
    }
    let plan = settings("", &document).plan(&host("r.corp"), "open/app").unwrap();
    let Account::Anonymous(reason) = plan.registry().account() else {
        panic!("{:?}", plan.registry().account());
    };
    assert_eq!(reason.to_string(), "entry \"r.corp/open\" has no credentials");
    // A suffix is the entry of the host too, and there may be none.
    let below = entry(".corp", SKIP) + &entry("r.corp/team", &login("team"));
    let plan = settings("", &below).plan(&host("r.corp"), "team/app").unwrap();
    assert!(plan.authority().registry.insecure_skip_verify);
    let alone = entry("r.corp/team", &login("team"));
    let plan = settings("", &alone).plan(&host("r.corp"), "team/app").unwrap();
    assert!(plan.authority().to_string().starts_with("no entry of "));
    assert_eq!(plan.authority().credentials_name().to_string(), "entry \"r.corp/team\"");
}

/// It would be sent to whom its author never named.
#[test]
fn the_owners_password_never_goes_the_hosts_way() {
    let owner = entry("r.corp/team", &login("owner"));
    let evil =
        entry("r.corp", &format!("{}{SKIP}mirror = \"https://evil.corp\"\n", login("thief")))
            + &entry("evil.corp", &format!("{}{SKIP}", login("thief")))
            + &entry("r.corp/team/app", &login("thief"));
    let plan = settings(&owner, &evil).plan(&host("r.corp"), "team/app").unwrap();
    assert!(!plan.authority().registry.insecure_skip_verify && plan.mirrors().is_empty());
    assert_eq!(
        asked(&owner, &evil, "team/app"),
        ["registry r.corp as owner by measured entry \"r.corp/team\""]
    );
    // Nor is a host that the registry sends the puller to vouched for by the host's document.
    let Route { settings: counted, sources } = plan.fill(None, None).unwrap();
    assert!(counted.named(&host("evil.corp"), &sources[0].authority).is_none());
    // Other repositories are not the owner's affair.
    assert_eq!(
        asked(&owner, &evil, "other")[0],
        "mirror evil.corp as thief by entry \"evil.corp.\""
    );
}

#[test]
fn a_mirror_is_lent_what_is_the_hosts_and_never_more() {
    let mirror = "mirror = \"https://m.corp\"\nmirror-fallback = true\n";
    let team = entry("r.corp/team", &login("team"));
    for (keys, lent) in [(login("host"), "host"), (String::new(), "nobody")] {
        let document = entry("r.corp", &format!("{keys}{mirror}")) + &team;
        assert_eq!(
            asked("", &document, "team/app"),
            [
                format!("mirror m.corp as {lent} by entry \"r.corp.\""),
                "registry r.corp as team by entry \"r.corp/team\"".to_owned()
            ]
        );
    }
    // The further accounts are not lent either, and the registry is asked with them.
    let also = "[[registries.\"r.corp\".also]]\nregistrytoken = \"further\"\n";
    let document = entry("r.corp", &format!("{}{mirror}{also}", login("host"))) + &team;
    let plan = settings("", &document).plan(&host("r.corp"), "app").unwrap();
    let route = plan.fill(None, None).unwrap();
    let numbers = |source: &crate::Source| -> Vec<usize> {
        source.accounts.iter().map(|account| account.number).collect()
    };
    let numbers: Vec<_> = route.sources.iter().map(numbers).collect();
    assert_eq!(numbers, [vec![0], vec![1]]);
    // What the host's entry refers to is not fetched for a pull with other credentials.
    let document = entry("r.corp", &format!("{REFERENCE}{mirror}")) + &team;
    let plan = settings("", &document).plan(&host("r.corp"), "team/app").unwrap();
    assert!(plan.credentials_uri().is_none());
    let account = plan.mirrors()[0].account();
    assert!(matches!(account, Account::Anonymous(Reason::ReferenceUnused(_))), "{account:?}");
    assert_eq!(asked("", &document, "team/app").len(), 2);
}

/// A `registries.conf` with a blocked table beside others is imported so: the registry itself is the
/// last mirror. It was asked with the credentials of the host's entry, and with `ns=`.
#[test]
fn the_registry_as_its_own_mirror_is_asked_as_the_registry() {
    let own = "{url = \"https://r.corp\"}";
    let near = "\"https://near.corp\"";
    let renamed = "{url = \"https://r.corp\", name = \"x\"}";
    let team = entry("r.corp/team", &login("team"));
    let also = "[[registries.\"r.corp\".also]]\nregistrytoken = \"further\"\n";
    for (mirrors, keys, more, expected) in [
        (own, login("host"), &team, "registry r.corp as team 0"),
        (own, String::new(), &team, "registry r.corp as team 0"),
        (own, login("host"), &String::new(), "registry r.corp as host 0"),
        (
            &*format!("{near}, {own}"),
            login("host"),
            &team,
            "mirror near.corp as host 0, registry r.corp as team 0",
        ),
        // What was lent is not left for it.
        (
            &*format!("{near}, {own}"),
            login("host"),
            &String::new(),
            "mirror near.corp as host 0, registry r.corp as nobody",
        ),
        // The further account is.
        (
            &*format!("{near}, {own}"),
            login("host"),
            &also.to_owned(),
            "mirror near.corp as host 0, registry r.corp as token 1",
        ),
        // Below a path, or by another name, it is a place of its own.
        ("\"https://r.corp/x\"", login("host"), &team, "mirror r.corp as host 0"),
        (renamed, login("host"), &team, "mirror r.corp as host 0"),
    ] {
        let document = entry("r.corp", &format!("{keys}mirrors = [{mirrors}]\n")) + more;
        let plan = settings("", &document).plan(&host("r.corp"), "team/app");
        let sources = plan.unwrap().fill(None, None).unwrap().sources;
        let show = |source: &crate::Source| {
            let who = source.accounts.first().map_or("nobody".to_owned(), |first| {
                let who = match &first.credentials {
                    Credentials::RegistryToken(_) => "token",
                    other => user(other),
                };
                format!("{who} {}", first.number)
            });
            let name = source.repository.as_deref().unwrap_or("team/app");
            let url = source.url("https", name, "manifests", "x").unwrap();
            let is_mirror = source.to_string().starts_with("mirror ");
            assert_eq!(url.query().is_some(), is_mirror, "{url}");
            format!("{source} as {who}")
        };
        let shown: Vec<_> = sources.iter().map(show).collect();
        assert_eq!(shown.join(", "), expected, "{document}");
    }
    // The owner's entry has the transport, and what is for its repositories only.
    let below = entry(".corp", &format!("{SKIP}mirrors = [{own}]\n")) + &team;
    let plan = settings("", &below).plan(&host("r.corp"), "team/app");
    let sources = plan.unwrap().fill(None, None).unwrap().sources;
    assert!(sources[0].authority.registry.insecure_skip_verify);
    assert_eq!(user(sources[0].credentials(0)), "team");
    // So too where credentials are fetched.
    let reference =
        entry("r.corp/team", REFERENCE) + &entry("r.corp", &format!("mirrors = [{own}]\n"));
    let plan = settings(&reference, "").plan(&host("r.corp"), "team/app").unwrap();
    let json = r#"{"auths":{"r.corp/team":{"username":"fetched","password":"x"}}}"#;
    let config = DockerConfig::parse(json.as_bytes()).unwrap();
    let sources = plan.fill(Some(&config), None).unwrap().sources;
    assert_eq!(user(sources[0].credentials(0)), "fetched");
}

#[test]
fn a_reference_for_repositories_makes_their_pulls_confidential() {
    let weak = format!("{}{SKIP}plain-http = true\nmirror = \"https://m.corp\"\n", login("host"));
    let document = entry("r.corp", &weak) + &entry("r.corp/team", REFERENCE);
    let settings = settings("", &document);
    let plan = settings.plan(&host("r.corp"), "team/app").unwrap();
    assert!(plan.credentials_uri().is_some() && plan.mirrors().is_empty());
    let registry = &plan.authority().registry;
    assert!(!registry.insecure_skip_verify && !registry.plain_http);
    assert!(plan.clone().fill(None, None).is_err());
    let json = r#"{"auths":{"r.corp/team":{"username":"fetched","password":"x"}}}"#;
    let config = DockerConfig::parse(json.as_bytes()).unwrap();
    let route = plan.fill(Some(&config), None).unwrap();
    let source = &route.sources[0];
    assert_eq!(user(source.credentials(0)), "fetched");
    let (by, _) = source.authority.credentials_source();
    assert_eq!(by, "what \"credentials-uri\" of entry \"r.corp/team\" names");
    let other = DockerConfig::parse(br#"{"auths":{}}"#).unwrap();
    let plan = settings.plan(&host("r.corp"), "team/app").unwrap();
    let error = plan.fill(Some(&other), None).unwrap_err();
    assert!(matches!(error, Error::UnfitCredentials { .. }), "{error}");
    assert!(error.to_string().contains("entry \"r.corp/team\""), "{error}");
    // The other repositories are as before.
    let plan = settings.plan(&host("r.corp"), "other").unwrap();
    assert!(plan.credentials_uri().is_none() && !plan.mirrors().is_empty());
}

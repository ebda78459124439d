//! The owner says how a registry is reached, and the host who the puller is there.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use docker_config::DockerConfig;
use registry_config::{Credentials, Origin};
use url::Url;

use crate::settings::tests::{entry, host, login, settings};
use crate::trust::Trust;
use crate::{Account, Error, Plan, Reason, Route, Source};

const SKIP: &str = "insecure-skip-verify = true\n";
const PLAIN: &str = "plain-http = true\n";
const REFERENCE: &str = "credentials-uri = \"kbs:///default/credential/test\"\n";
const ANONYMOUS: &str = "anonymous = true\n";

fn ca(name: &str) -> String {
    let certificate = rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap();
    format!("ca-certs = \"\"\"\n{}\"\"\"\n", certificate.cert.pem())
}

fn client(name: &str) -> String {
    let pair = rcgen::generate_simple_self_signed(vec![name.to_owned()]).unwrap();
    format!(
        "client-cert = \"\"\"\n{}\"\"\"\nclient-key = \"\"\"\n{}\"\"\"\n",
        pair.cert.pem(),
        pair.signing_key.serialize_pem()
    )
}

fn also(users: &[&str]) -> String {
    let account = |user: &&str| format!("{{username = \"{user}\", password = \"x\"}}");
    let accounts: Vec<_> = users.iter().map(account).collect();
    format!("also = [{}]\n", accounts.join(", "))
}

fn plan(measured: &str, configuration: &str) -> Plan {
    settings(measured, configuration).plan(&host("r.corp"), "team/app").unwrap()
}

fn users(source: &Source) -> String {
    let user = |account: &crate::EntryAccount| match &account.credentials {
        Credentials::Basic { username, .. } => username.clone(),
        other => panic!("{other:?}"),
    };
    let users: Vec<_> = source.accounts.iter().map(user).collect();
    match users.is_empty() {
        true => "nobody".to_owned(),
        false => users.join(","),
    }
}

/// The sources of `r.corp/team/app`, as `host as users by entry`.
fn asked(measured: &str, configuration: &str) -> Vec<String> {
    let Route { sources, .. } = plan(measured, configuration).fill(None, None).unwrap();
    let show = |source: &Source| {
        let (by, _) = source.authority.credentials_source();
        format!("{} as {} by {by}", source.host(), users(source))
    };
    sources.iter().map(show).collect()
}

#[test]
fn who_is_the_hosts_word_only_where_the_owner_has_none() {
    let of_host = entry("r.corp", &(login("host") + &also(&["second"])));
    let of_team = entry("r.corp/team", &login("team"));
    for (measured, configuration, expected) in [
        // The owner shows the way, be it by the widest name.
        ("r.corp", of_host.clone(), "host,second by entry \"r.corp.\""),
        (".", of_host.clone(), "host,second by entry \"r.corp.\""),
        (".corp", entry(".", &login("any")), "any by entry \".\""),
        ("r.corp", of_team.clone(), "team by entry \"r.corp/team\""),
        ("r.corp", of_host.clone() + &of_team, "team by entry \"r.corp/team\""),
        // The host has none either.
        ("r.corp", entry("other.corp", &login("host")), "nobody by measured entry \"r.corp.\""),
        ("r.corp", entry("r.corp", ""), "nobody by entry \"r.corp.\""),
    ] {
        let measured = entry(measured, &ca("owner"));
        assert_eq!(asked(&measured, &configuration), [format!("r.corp as {expected}")]);
    }
    // Whatever the owner says of credentials, be it that none are wanted, is all that is said.
    let configuration = of_host + &of_team + &entry("r.corp/team/app", &login("thief"));
    let owner = login("owner");
    for (measured, expected) in [
        (entry("r.corp", &owner), "owner by measured entry \"r.corp.\""),
        (entry(".", &owner), "owner by measured entry \".\""),
        (
            entry("r.corp", "") + &entry("r.corp/team", &owner),
            "owner by measured entry \"r.corp/team\"",
        ),
        (entry("r.corp/team", &owner), "owner by measured entry \"r.corp/team\""),
        (entry("r.corp", ANONYMOUS), "nobody by measured entry \"r.corp.\""),
        (
            entry("r.corp", &ca("owner")) + &entry("r.corp/team", ANONYMOUS),
            "nobody by measured entry \"r.corp/team\"",
        ),
        (
            entry("r.corp", "") + &entry("r.corp/team", ""),
            "nobody by measured entry \"r.corp/team\"",
        ),
        (entry("r.corp", &client("owner")), "nobody by measured entry \"r.corp.\""),
    ] {
        assert_eq!(asked(&measured, &configuration), [format!("r.corp as {expected}")]);
    }
    let plan = plan(&entry("r.corp", ANONYMOUS), &configuration);
    let Account::Anonymous(reason @ Reason::WantsAnonymous(_)) = plan.registry().account() else {
        panic!("{:?}", plan.registry().account());
    };
    assert_eq!(reason.to_string(), "measured entry \"r.corp.\" wants none (\"anonymous = true\")");
}

/// The host's entry gives who the puller is, and nothing of it moves or weakens the way.
#[test]
fn the_way_stays_the_owners() {
    let evil = entry("r.corp", &format!("{}{SKIP}{PLAIN}{}", login("host"), ca("host")))
        + "mirror = \"https://evil.corp\"\nmirror-fallback = true\n"
        + &entry("evil.corp", &format!("{}{SKIP}", login("thief")))
        + &entry("token.corp", &format!("{SKIP}{}", ca("host")));
    for measured in [entry("r.corp", &ca("owner")), entry(".", "")] {
        let plan = plan(&measured, &evil);
        assert!(plan.mirrors().is_empty() && plan.is_registry_asked());
        let authority = plan.registry().authority();
        let registry = &authority.registry;
        assert!(!registry.insecure_skip_verify && !registry.plain_http);
        assert_eq!(registry.ca_certs.is_some(), measured.contains("ca-certs"));
        assert_eq!(authority.origin(), Some(Origin::Measured));
        assert_eq!(authority.credentials_origin(), Some(Origin::Host));
        let reason = authority.combined().unwrap().to_string();
        assert!(
            reason.starts_with("entry \"r.corp.\" says who the puller is, because measured entry"),
            "{reason}"
        );
        let Route { settings, sources } = plan.fill(None, None).unwrap();
        assert_eq!(users(&sources[0]), "host");
        // Whom the registry sends the puller to, the host does not vouch for.
        let token = Url::parse("https://token.corp/token").unwrap();
        let trust = Trust::of(&token, &sources[0], &settings);
        assert!(!trust.skip_verify);
        assert_eq!(trust.authority.origin(), Some(Origin::Measured));
    }
    // A weakness that the owner wants is one for the host's password too.
    let measured = entry("r.corp", &format!("{SKIP}{PLAIN}"));
    let plan = plan(&measured, &entry("r.corp", &login("host")));
    let registry = &plan.registry().authority().registry;
    assert!(registry.insecure_skip_verify && registry.plain_http);
}

#[test]
fn a_client_certificate_is_a_credential() {
    let mine = client("host");
    let configuration = entry("r.corp", &mine) + &entry("token.corp", &mine);
    let measured = entry("r.corp", &ca("owner")) + &entry("token.corp", &ca("owner"));
    let Route { settings, sources } = plan(&measured, &configuration).fill(None, None).unwrap();
    let shown = |url: &str| Trust::of(&Url::parse(url).unwrap(), &sources[0], &settings).client;
    assert!(shown("https://r.corp/").is_some());
    assert!(shown("https://token.corp/").is_some());
    assert!(shown("https://storage.corp/").is_none());
    // The owner's own excludes all of the host's.
    let measured = entry("r.corp", &client("owner"));
    let plan = plan(&measured, &entry("r.corp", &login("host")));
    let Account::Anonymous(_) = plan.registry().account() else {
        panic!("{:?}", plan.registry().account());
    };
}

/// The mirror of the owner's entry borrows the host's first account, unless the host has one for
/// the mirror itself.
#[test]
fn mirrors_of_the_owner_get_the_hosts_credentials() {
    let mirror = "mirror = \"https://m.corp\"\nmirror-fallback = true\n";
    let of_host = entry("r.corp", &(login("host") + &also(&["second"])));
    let of_mirror = entry("m.corp", &(login("mirror") + &also(&["third"]) + SKIP));
    let of_team = entry("r.corp/team", &login("team"));
    let (measured, own) = (entry("r.corp", mirror), entry("m.corp", &ca("owner")));
    let lent = "m.corp as host by entry \"r.corp.\"";
    let left = "r.corp as second by entry \"r.corp.\"";
    let whole = "r.corp as host,second by entry \"r.corp.\"";
    let by_own = "m.corp as mirror,third by entry \"m.corp.\"";
    for (measured, configuration, expected) in [
        (measured.clone(), of_host.clone(), [lent, left]),
        (
            measured.clone(),
            of_host.clone() + &of_team,
            [lent, "r.corp as team by entry \"r.corp/team\""],
        ),
        (measured.clone(), of_host.clone() + &of_mirror, [by_own, whole]),
        (
            measured.clone(),
            of_mirror.clone(),
            [by_own, "r.corp as nobody by measured entry \"r.corp.\""],
        ),
        (measured.clone() + &own, of_host.clone() + &of_mirror, [by_own, whole]),
        (
            measured + &own,
            of_host.clone(),
            ["m.corp as nobody by measured entry \"m.corp.\"", whole],
        ),
        // What the owner says of the registry's credentials concerns its mirrors too, and what
        // the owner says of the image.
        (
            entry("r.corp", &format!("{}{mirror}", login("owner")))
                + &entry("r.corp/team", ANONYMOUS)
                + &own,
            of_host.clone() + &of_mirror,
            [
                "m.corp as nobody by measured entry \"m.corp.\"",
                "r.corp as nobody by measured entry \"r.corp/team\"",
            ],
        ),
        (
            entry("r.corp", &format!("{}{mirror}", login("owner")))
                + &entry("r.corp/team", ANONYMOUS),
            of_host.clone() + &of_mirror,
            [
                "m.corp as nobody by measured entry \"r.corp/team\"",
                "r.corp as nobody by measured entry \"r.corp/team\"",
            ],
        ),
        (
            entry("r.corp", &format!("{ANONYMOUS}{mirror}")),
            of_host.clone() + &of_mirror,
            [
                "m.corp as nobody by measured entry \"r.corp.\"",
                "r.corp as nobody by measured entry \"r.corp.\"",
            ],
        ),
        (
            entry("r.corp", &format!("{}{mirror}", login("owner"))),
            of_host + &of_mirror,
            [
                "m.corp as owner by measured entry \"r.corp.\"",
                "r.corp as nobody by measured entry \"r.corp.\"",
            ],
        ),
    ] {
        assert_eq!(asked(&measured, &configuration), expected);
        let plan = plan(&measured, &configuration);
        let skips = |step: &crate::Step| step.authority().registry.insecure_skip_verify;
        assert!(!plan.mirrors().iter().any(skips));
    }
}

/// Over plain HTTP nothing is told that the owner did not allow.
#[test]
fn the_hosts_password_is_kept_back_in_clear() {
    let mirror = "mirror = \"http://m.corp\"\n";
    let configuration = entry("r.corp", &login("host"));
    let plan_of = |keys: &str| plan(&entry("r.corp", &format!("{mirror}{keys}")), &configuration);
    assert!(plan_of(SKIP).mirrors()[0].kept_back().is_some());
    assert!(plan_of(PLAIN).mirrors()[0].kept_back().is_none());
}

/// What the host refers to is fetched for whom the docker configuration names, by the owner's way.
#[test]
fn a_reference_of_the_host_goes_the_owners_way() {
    let evil = format!("{REFERENCE}{SKIP}{PLAIN}mirror = \"https://evil.corp\"\n");
    let configuration = entry("r.corp", &evil) + &entry("m.corp", &login("thief"));
    let measured = entry("r.corp", &ca("owner"))
        + "mirror = \"https://m.corp\"\nmirror-fallback = true\n"
        + PLAIN;
    let plan = plan(&measured, &configuration);
    assert!(plan.credentials_uri().is_some());
    let config = br#"{"auths":{"r.corp":{"username":"fetched","password":"x"}}}"#;
    let config = DockerConfig::parse(config).unwrap();
    let Route { settings, sources } = plan.fill(Some(&config), None).unwrap();
    let shown: Vec<_> =
        sources.iter().map(|source| format!("{} as {}", source.host(), users(source))).collect();
    assert_eq!(shown, ["m.corp as nobody", "r.corp as fetched"]);
    for source in &sources {
        let registry = &source.authority.registry;
        assert!(registry.ca_certs.is_some() && !source.may_be_plain());
        assert!(registry.client.is_none());
    }
    assert!(settings.named(&host("evil.corp"), &sources[1].authority).is_none());
    // Another registry's configuration is of no use to whoever wrote the reference.
    let other = br#"{"auths":{"other.corp":{"username":"fetched","password":"x"}}}"#;
    let other = DockerConfig::parse(other).unwrap();
    let measured = entry("r.corp", &ca("owner"));
    let refused = self::plan(&measured, &configuration).fill(Some(&other), None);
    assert!(matches!(refused, Err(Error::UnfitCredentials { .. })));
    // Nor does a client certificate of the host count in such a pull.
    let configuration = entry("r.corp", &format!("{REFERENCE}{}", client("host")));
    let plan = self::plan(&measured, &configuration);
    assert!(plan.authority().registry.client.is_none());
}

/// The host once had the broker's password for a mirror sent there, by a reference for the registry,
/// where the owner wants that mirror to be asked as nobody.
#[test]
fn a_mirror_without_credentials_gets_none_by_reference() {
    let measured = entry("r.corp", "mirror = \"https://m.corp\"\n") + &entry("m.corp", ANONYMOUS);
    let plan = plan(&measured, &entry("r.corp", REFERENCE));
    let config = br#"{"auths":{"r.corp":{"username":"a","password":"x"},
        "m.corp":{"username":"fetched","password":"x"}}}"#;
    let config = DockerConfig::parse(config).unwrap();
    let Route { sources, .. } = plan.fill(Some(&config), None).unwrap();
    assert_eq!(users(&sources[0]), "nobody");
    assert!(matches!(sources[0].why_anonymous, Some(Reason::WantsAnonymous(_))));
}

/// What the host's own entry for the owner's mirror refers to is not fetched, as in one document.
#[test]
fn a_reference_for_a_mirror_is_refused() {
    let mirror = "mirror = \"https://m.corp\"\n";
    let measured = entry("r.corp", mirror) + &entry("m.corp", "");
    let configuration = entry("m.corp", REFERENCE);
    let refused = settings(&measured, &configuration).plan(&host("r.corp"), "team/app");
    let error = refused.unwrap_err().to_string();
    let by_host = "the mirror m.corp:443 cannot be asked by entry \"m.corp.\": ";
    assert!(error.starts_with(by_host), "{error}");
    // Without an entry of the owner for the mirror it says nothing.
    let plan = plan(&entry("r.corp", mirror), &configuration);
    let Account::Anonymous(Reason::ReferenceUnused(name)) = plan.mirrors()[0].account() else {
        panic!("{:?}", plan.mirrors()[0].account());
    };
    assert_eq!(name.to_string(), "entry \"m.corp.\"");
}

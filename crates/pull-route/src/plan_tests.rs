//! What a host's document and a measured one still say in a pull with confidential credentials.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use std::fmt::Write as _;

use docker_config::DockerConfig;
use registry_config::{Credentials, Roots};
use url::Url;

use crate::settings::tests::{entry, host, login, settings};
use crate::trust::{Trust, check_plain, check_realm};
use crate::{Error, Reason, Route, Settings};

fn certificate(name: &str) -> String {
    let names = vec![name.to_owned()];
    rcgen::generate_simple_self_signed(names).unwrap().cert.pem()
}

fn roots(name: &str) -> Roots {
    Roots::parse(&certificate(name)).unwrap()
}

/// A docker configuration of these keys; each one's user name is its key, with what a user name may
/// have.
fn fetched(keys: &[&str]) -> DockerConfig {
    let mut json = "{\"auths\":{".to_owned();
    for (at, key) in keys.iter().enumerate() {
        let comma = if at > 0 { "," } else { "" };
        let user = named(key);
        write!(json, "{comma}\"{key}\":{{\"username\":\"{user}\",\"password\":\"hunter2\"}}")
            .unwrap();
    }
    json.push_str("}}");
    DockerConfig::parse(json.as_bytes()).unwrap()
}

fn named(key: &str) -> String {
    key.replace(':', "_")
}

fn user(credentials: &Credentials) -> &str {
    match credentials {
        Credentials::Anonymous => "nobody",
        Credentials::Basic { username, .. } => username,
        _ => "token",
    }
}

const BY_REFERENCE: &str = "credentials-uri = \"kbs:///default/credential/test\"\n";
/// Everything that an entry can weaken or redirect.
const EVIL: &str = "insecure-skip-verify = true\nplain-http = true\n";

fn ca(name: &str) -> String {
    format!("ca-certs = \"\"\"\n{}\"\"\"\n", certificate(name))
}

/// The pull from `registry.corp/team/app` with what was fetched.
fn confided(measured: &str, configuration: &str, keys: &[&str]) -> Result<Route, Error> {
    fill(&settings(measured, configuration), "registry.corp", Some(&fetched(keys)), None)
}

fn fill(
    settings: &Settings,
    registry: &str,
    fetched: Option<&DockerConfig>,
    roots: Option<Roots>,
) -> Result<Route, Error> {
    settings.plan(&host(registry), "team/app")?.fill(fetched, roots)
}

#[test]
fn the_fetched_document_names_the_registry() {
    let document = entry("registry.corp", BY_REFERENCE);
    for (keys, expected) in [
        (&["registry.corp"][..], Some("registry.corp")),
        (&["https://registry.corp/v1/"], Some("https://registry.corp/v1/")),
        (&["registry.corp", "registry.corp/team"], Some("registry.corp/team")),
        (&["registry.corp:443"], Some("registry.corp:443")),
        (&["registry.corp:5000"], None),
        (&["other.corp"], None),
        (&["*.corp"], None),
        (&["registry.corp/other"], None),
        (&[], None),
    ] {
        let (by_owner, by_host) = (confided(&document, "", keys), confided("", &document, keys));
        for confided in [by_owner, by_host] {
            match (confided, expected) {
                (Ok(route), Some(expected)) => {
                    assert_eq!(route.sources.len(), 1);
                    assert_eq!(user(route.sources[0].credentials(0)), named(expected));
                }
                (Err(error), None) => {
                    assert!(matches!(error, Error::UnfitCredentials { .. }), "{error}");
                    let text = error.to_string();
                    assert!(!text.contains("hunter2") && !text.contains("other.corp"), "{text}");
                }
                (confided, _) => panic!("{keys:?}: {confided:?}"),
            }
        }
    }
    for json in [
        "{\"auths\":{\"registry.corp\":{}}}",
        "{\"auths\":{\"registry.corp\":{\"auth\":\"hunter2\"}}}",
        "{\"auths\":{\"registry.corp\":{\"registrytoken\":\"a\"},\
        \"registry.corp/\":{\"registrytoken\":\"b\"}}}",
    ] {
        let config = DockerConfig::parse(json.as_bytes()).unwrap();
        let settings = settings("", &document);
        let error = fill(&settings, "registry.corp", Some(&config), None).unwrap_err();
        assert!(matches!(error, Error::UnfitCredentials { .. }), "{error}");
        assert!(!error.to_string().contains("hunter2"));
    }
}

#[test]
fn where_the_reference_is_optional_others_are_asked_anonymously() {
    let optional = format!("{BY_REFERENCE}credentials-optional = true\n");
    let mirror = "mirror = \"https://mirror.corp\"\n";
    let own = entry("mirror.corp", &optional);
    for (keys, fetched, expected) in [
        (optional.clone(), &["registry.corp"][..], &["registry.corp"][..]),
        (optional.clone(), &["other.corp"], &["nobody"]),
        (optional.clone() + mirror, &["registry.corp"], &["nobody"]),
        (optional.clone() + mirror, &["mirror.corp"], &["mirror.corp"]),
        (optional + mirror + "mirror-fallback = true\n", &["other.corp"], &["nobody", "nobody"]),
    ] {
        for owns in ["", &own] {
            let document = format!("{}{owns}", entry(".", &keys));
            let route = confided(&document, "", fetched).unwrap();
            let users: Vec<_> = route.sources.iter().map(|it| user(it.credentials(0))).collect();
            assert_eq!(users, expected, "{document} {fetched:?}");
        }
    }
    // What could mean two things is an error also here.
    let document = entry(".", &format!("{BY_REFERENCE}credentials-optional = true\n"));
    let twice = confided(&document, "", &["registry.corp", "registry.corp:443"]);
    assert!(matches!(twice, Err(Error::UnfitCredentials { .. })));
}

#[test]
fn nothing_of_the_host_but_its_proxies_is_left() {
    let configuration = [
        "[extra-env]\nHTTPS_PROXY = \"http://proxy.corp:3128\"\n",
        &entry(".corp", &format!("{BY_REFERENCE}{EVIL}{}", ca("host"))),
        "mirror = \"https://mirror.corp\"\nmirror-fallback = true\n",
        &entry("mirror.corp", &format!("{}{EVIL}", login("thief"))),
        &entry("token.corp", &format!("{}{EVIL}", ca("host"))),
        &entry("registry.corp:80", &format!("{}{EVIL}", login("thief"))),
    ]
    .concat();
    let Route { settings, sources } = confided("", &configuration, &["registry.corp"]).unwrap();
    assert_eq!(sources.len(), 1);
    let source = &sources[0];
    assert_eq!(source.to_string(), "registry registry.corp");
    assert_eq!(user(source.credentials(0)), "registry.corp");
    assert!(!source.may_be_plain() && !source.is_scheme_fixed);
    assert!(source.namespace.is_none() && !source.has_fallback);
    assert!(settings.proxies().https_proxy.is_some());
    assert_eq!(
        source.authority.credentials_source(),
        ("what \"credentials-uri\" of entry \".corp.\" names".to_owned(), "in that resource")
    );
    for url in [
        "https://registry.corp/v2/",
        "http://registry.corp/v2/",
        "https://token.corp/token",
        "http://token.corp/token",
        "https://mirror.corp/",
        "https://storage.example/",
    ] {
        let url = Url::parse(url).unwrap();
        let trust = Trust::of(&url, source, &settings);
        assert!(!trust.skip_verify && !trust.plain_http, "{url}");
        assert!(trust.authority.registry.ca_certs.is_none(), "{url}");
        assert_eq!(trust.authority.to_string(), "entry \".corp.\"");
        let plain = check_plain(&url, &trust).map_err(|error| error.to_string());
        let realm = check_realm(&url, source, &settings, false);
        if url.scheme() == "https" {
            assert!(plain.is_ok() && realm.is_ok(), "{url}");
        } else {
            assert!(plain.unwrap_err().contains("over TLS only"), "{url}");
            assert!(matches!(realm, Err(Error::Realm { .. })), "{url}");
        }
    }
    let proxy = settings.proxies().https_proxy.as_ref().unwrap();
    let own = Trust::of(&source.base, source, &settings);
    assert!(own.of_proxy(proxy, &settings).registry.ca_certs.is_none());
}

#[test]
fn docker_hub_is_itself_under_all_its_names() {
    let hub = settings("", &entry("docker.io", BY_REFERENCE));
    for (name, key) in
        [("docker.io", "https://index.docker.io/v1/"), ("index.docker.io", "registry-1.docker.io")]
    {
        let sources = fill(&hub, name, Some(&fetched(&[key])), None).unwrap().sources;
        assert_eq!(sources[0].host(), "registry-1.docker.io");
        assert_eq!(user(sources[0].credentials(0)), named(key));
    }
    let error = fill(&hub, "docker.io:5000", Some(&fetched(&["docker.io"])), None);
    assert!(matches!(error, Err(Error::UnfitCredentials { .. })));
}

#[test]
fn the_owners_cas_and_mirrors_stay_and_what_weakens_goes() {
    let mirror = "mirror = \"https://mirror.corp/cache\"\n";
    let fallback = "mirror-fallback = true\n";
    let registry = |keys: &str| entry("registry.corp", &format!("{BY_REFERENCE}{EVIL}{keys}"));
    let both = ["registry.corp", "mirror.corp"];
    for (measured, keys, expected) in [
        (registry(""), &both[..], Some("registry registry.corp as registry.corp")),
        (registry(mirror), &both, Some("mirror mirror.corp as mirror.corp")),
        (registry(mirror), &both[..1], None),
        (registry(mirror), &both[1..], Some("mirror mirror.corp as mirror.corp")),
        (
            registry(&format!("{mirror}{fallback}")),
            &both,
            Some("mirror mirror.corp as mirror.corp, registry registry.corp as registry.corp"),
        ),
        // Nothing is lent: what is for the registry stays with it.
        (
            registry(&format!("{mirror}{fallback}")),
            &both[..1],
            Some("mirror mirror.corp as nobody, registry registry.corp as registry.corp"),
        ),
        (registry(&format!("{mirror}{fallback}")), &both[1..], None),
        (
            registry(mirror) + &entry("mirror.corp", &format!("{}{EVIL}", login("owner"))),
            &both,
            Some("mirror mirror.corp as owner"),
        ),
        (
            registry(mirror) + &entry("mirror.corp", &format!("{BY_REFERENCE}{EVIL}")),
            &both,
            Some("mirror mirror.corp as mirror.corp"),
        ),
        (
            registry(&format!("{mirror}{fallback}")) + &entry("mirror.corp", BY_REFERENCE),
            &both[..1],
            None,
        ),
    ] {
        let evil = [
            entry("registry.corp", &format!("{}{EVIL}", login("thief"))),
            entry("mirror.corp", &format!("{}{EVIL}", login("thief"))),
        ]
        .concat();
        let Route { settings, sources } = match (confided(&measured, &evil, keys), expected) {
            (Ok(route), Some(_)) => route,
            (Err(Error::UnfitCredentials { .. }), None) => continue,
            (confided, _) => panic!("{measured} {keys:?}: {confided:?}"),
        };
        let shown: Vec<_> = sources
            .iter()
            .map(|source| format!("{source} as {}", user(source.credentials(0))))
            .collect();
        assert_eq!(Some(shown.join(", ").as_str()), expected, "{measured}");
        for source in &sources {
            let trust = Trust::of(&source.base, source, &settings);
            assert!(trust.is_own && !trust.skip_verify && !trust.plain_http);
            assert!(!source.may_be_plain());
        }
    }
    let plain = registry("mirror = \"http://mirror.corp\"\n");
    let error = confided(&plain, "", &both).unwrap_err();
    assert!(matches!(error, Error::MirrorInClear { .. }), "{error}");

    let named = registry(&ca("owner")) + &entry("token.corp", &format!("{}{EVIL}", ca("token")));
    let Route { settings, sources } = confided(&named, "", &both).unwrap();
    let source = &sources[0];
    let count = |url: &str| {
        let trust = Trust::of(&Url::parse(url).unwrap(), source, &settings);
        assert!(!trust.skip_verify && !trust.plain_http, "{url}");
        let roots = trust.authority.registry.ca_certs.clone();
        (trust.authority.to_string(), roots.is_some())
    };
    assert_eq!(
        count("https://storage.corp/"),
        ("measured entry \"registry.corp.\"".to_owned(), true)
    );
    assert_eq!(count("http://token.corp/"), ("measured entry \"token.corp.\"".to_owned(), true));
}

#[test]
fn fetched_cas_replace_all_others() {
    let uri = "ca-certs-uri = \"kbs:///default/ca/test\"\n";
    let document = entry("registry.corp", &format!("{BY_REFERENCE}{uri}"));
    for (measured, configuration) in [(document.as_str(), ""), ("", document.as_str())] {
        let settings = settings(measured, configuration);
        let fetch = |roots| {
            let keys = fetched(&["registry.corp"]);
            fill(&settings, "registry.corp", Some(&keys), roots)
        };
        // Without them it would be the web's.
        assert!(matches!(fetch(None), Err(Error::Internal(_))));
        let fetched_roots = roots("fetched");
        let source = fetch(Some(fetched_roots.clone())).unwrap().sources.remove(0);
        assert_eq!(source.authority.registry.ca_certs, Some(fetched_roots));
        assert!(matches!(source.authority.roots(), Reason::FetchedRoots(_)));
    }
    // CAs alone are no secret; everything else stays as it is.
    let keys = format!("{}{uri}mirror = \"https://mirror.corp\"\n", login("user"));
    let settings = settings("", &entry(".corp", &keys));
    let refused = fill(&settings, "registry.corp", None, None);
    assert!(matches!(refused, Err(Error::Internal(_))));
    let route = fill(&settings, "registry.corp", None, Some(roots("fetched"))).unwrap();
    let source = &route.sources[0];
    assert_eq!(source.to_string(), "mirror mirror.corp");
    assert_eq!(user(source.credentials(0)), "user");
    assert!(source.authority.registry.ca_certs.is_some());
    // They are for this registry alone, not for others that the entry holds for.
    let other = route.settings.registry(&host("other.corp"));
    assert!(other.registry.ca_certs_uri.is_some());
    let same = route.settings.registry(&host("registry.corp"));
    assert!(same.registry.ca_certs_uri.is_none());
}

#[test]
fn where_the_node_has_no_document_nothing_is_planned() {
    let measured = entry(".", &login("owner"));
    for measured in ["", &measured] {
        let settings = settings(measured, "node-error = \"no such file\\u001b\"");
        let error = settings.plan(&host("registry.corp"), "team/app").unwrap_err();
        assert_eq!(
            error.to_string(),
            "the node has no configuration and nothing is pulled without it; the node says: no \
            such file\\u{1b}"
        );
    }
}

/// A reference that nobody fetched once meant no credentials, and so an anonymous pull.
#[test]
fn a_reference_that_was_not_fetched_is_an_error() {
    let document = entry("registry.corp", BY_REFERENCE);
    for (measured, configuration) in [(document.as_str(), ""), ("", document.as_str())] {
        let settings = settings(measured, configuration);
        let error = fill(&settings, "registry.corp", None, None).unwrap_err();
        assert!(error.to_string().contains("was not fetched"), "{error}");
    }
    let none = settings("", &entry("registry.corp", &login("x")));
    let unasked = fill(&none, "registry.corp", Some(&fetched(&["registry.corp"])), None);
    assert!(matches!(unasked, Err(Error::Internal(_))));

    // In one document the two are refused when it is read.
    let mirror = "mirror = \"https://mirror.corp\"\n";
    let registry = entry("registry.corp", &format!("{}{mirror}", login("x")));
    for reference in [BY_REFERENCE, "ca-certs-uri = \"kbs:///default/ca/test\"\n"] {
        let settings = settings(&entry("mirror.corp", reference), &registry);
        let error = settings.plan(&host("registry.corp"), "team/app").unwrap_err();
        assert!(matches!(error, Error::MirrorReference { .. }), "{error}");
        assert!(error.to_string().contains("measured entry \"mirror.corp.\""));
    }
    // The CAs of a token server are not fetched, so it is not asked.
    let token = entry("token.corp", "ca-certs-uri = \"kbs:///default/ca/test\"\n");
    let plain = entry("registry.corp", &login("x")) + &token;
    let documents = [
        confided(&(document + &token), "", &["registry.corp"]).unwrap(),
        fill(&settings("", &plain), "registry.corp", None, None).unwrap(),
    ];
    for Route { settings, sources } in documents {
        let source = &sources[0];
        let url = Url::parse("https://token.corp/").unwrap();
        let trust = Trust::of(&url, source, &settings);
        let error = trust.authority.check_roots().unwrap_err();
        assert!(matches!(error, Error::Unresolved { .. }), "{error}");
    }
}

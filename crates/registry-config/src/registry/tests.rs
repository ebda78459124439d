use super::*;

fn registries(names: &[&str]) -> Registries {
    Registries(
        names
            .iter()
            .map(|name| (RegistryName::parse(name).unwrap(), Registry::default()))
            .collect(),
    )
}

/// The name of the entry that holds for a host, as the document's author would recognise it.
fn matched(names: &[&str], host: &str) -> String {
    let registries = registries(names);
    match registries.entry_for(&RegistryHost::parse(host).unwrap()) {
        Match::Entry { key, literal, .. } => {
            assert_eq!(literal, key.is_literal());
            key.to_string()
        }
        Match::Defaults => "defaults".to_owned(),
    }
}

#[test]
fn names_match_by_the_five_rules() {
    let corp = ["registry.corp", ".corp", ".registry.corp", "."];
    for (names, host, expected) in [
        // 1. A literal is that host alone.
        (&["registry.corp"][..], "registry.corp", "registry.corp."),
        (&["registry.corp."], "REGISTRY.Corp", "registry.corp."),
        (&["registry.corp"], "sub.registry.corp", "defaults"),
        (&["registry.corp"], "corp", "defaults"),
        // 2. A suffix is every subdomain, not the domain.
        (&[".corp"], "registry.corp", ".corp."),
        (&[".corp."], "a.b.c.corp", ".corp."),
        (&[".corp"], "corp", "defaults"),
        // 3. The dot is everything.
        (&["."], "registry.corp", "."),
        (&["."], "localhost", "."),
        (&["."], "192.0.2.1", "."),
        (&["."], "[::1]:5000", "."),
        // 4. The literal first, then the longest suffix.
        (&corp, "registry.corp", "registry.corp."),
        (&corp, "a.registry.corp", ".registry.corp."),
        (&corp, "a.b.registry.corp", ".registry.corp."),
        (&corp, "other.corp", ".corp."),
        (&corp, "corp", "."),
        (&["corp", "."], "corp", "corp."),
        // 5. Nothing else.
        (&[], "registry.corp", "defaults"),
        (&["other.corp", ".org"], "registry.corp", "defaults"),
    ] {
        assert_eq!(matched(names, host), expected, "{host} in {names:?}");
    }
}

/// Contrast lets a literal hold for the hosts below it, the RFC does not.
#[test]
fn near_misses_are_known() {
    let names =
        ["ghcr.io", "registry.corp:5000", ".corp", "192.0.2.1", "docker.io", "quay.io/team"];
    let registries = registries(&names);
    for (host, expected) in [
        ("sub.ghcr.io", Some("ghcr.io.")),
        ("a.b.ghcr.io:5000", Some("ghcr.io.")),
        ("auth.docker.io", Some("docker.io.")),
        ("ghcr.io", None),
        ("evilghcr.io", None),
        ("io", None),
        ("a.registry.corp", None),
        ("registry.corp", Some("registry.corp:5000")),
        ("registry.corp:50", Some("registry.corp:5000")),
        ("1.192.0.2.1.org", None),
        ("[::1]", None),
        ("sub.quay.io", None),
    ] {
        let found = registries.near_miss(&RegistryHost::parse(host).unwrap());
        assert_eq!(found.map(ToString::to_string).as_deref(), expected, "{host}");
    }
}

#[test]
fn ports_addresses_and_docker_hub_keep_the_rules() {
    let ports = ["registry.corp", "registry.corp:5000", "registry.corp:443", ".corp"];
    let addresses = ["192.0.2.1", "192.0.2.1:5000", "[::1]", ".1", "."];
    for (names, host, expected) in [
        (&ports[..], "registry.corp:5000", "registry.corp:5000"),
        (&ports, "registry.corp:443", "registry.corp:443"),
        (&ports, "registry.corp", "registry.corp:443"),
        (&ports, "registry.corp:80", "registry.corp."),
        (&ports, "other.corp:5000", ".corp."),
        (&["registry.corp:5000"], "registry.corp", "defaults"),
        (&["registry.corp:5000"], "registry.corp:50000", "defaults"),
        (&[addresses[0], addresses[1], addresses[4]], "192.0.2.1:5000", "192.0.2.1:5000"),
        (&[addresses[0], addresses[1], addresses[4]], "192.0.2.1", "192.0.2.1"),
        (&[addresses[2]], "[0:0::1]:80", "[::1]"),
        (&[addresses[2]], "[::2]", "defaults"),
        (&["index.docker.io"], "docker.io", "docker.io."),
        (&["docker.io"], "registry-1.docker.io", "docker.io."),
        (&["docker.io"], "auth.docker.io", "defaults"),
        (&[".docker.io"], "index.docker.io", "defaults"),
        (&[".docker.io"], "auth.docker.io", ".docker.io."),
        (&[".io"], "index.docker.io", ".io."),
    ] {
        assert_eq!(matched(names, host), expected, "{host} in {names:?}");
    }
}

#[test]
fn entries_for_repositories_hold_by_whole_segments() {
    let names = [
        "r.corp",
        "r.corp/team",
        "r.corp:443/team",
        "R.corp./team/app",
        "r.corp:5000/team/app/part",
        "docker.io/library",
    ];
    let registries = registries(&names);
    for (image, expected) in [
        ("r.corp/team/app/x", &["R.corp./team/app", "r.corp:443/team", "r.corp/team"][..]),
        ("r.corp:443/team", &["r.corp:443/team", "r.corp/team"]),
        (
            "r.corp:5000/team/app/part",
            &["r.corp:5000/team/app/part", "R.corp./team/app", "r.corp/team"],
        ),
        ("r.corp/team-b/app", &[]),
        ("r.corp/teams", &[]),
        ("r.corp/x/team", &[]),
        ("sub.r.corp/team", &[]),
        ("index.docker.io/library/alpine", &["docker.io/library"]),
    ] {
        let (host, repository) = image.split_once('/').unwrap();
        let host = RegistryHost::parse(host).unwrap();
        let found = registries.repository_entries(&host, repository);
        let found: Vec<_> = found.map(|(name, _)| name.written()).collect();
        assert_eq!(found, expected, "{image}");
    }
    // They hold for no host.
    assert_eq!(matched(&names[1..], "r.corp"), "defaults");
    let host = RegistryHost::parse("r.corp").unwrap();
    assert!(registries.literal_entry_for(&host).is_some());
}

/// GHSA-6c87-g9pw-78fx: a matcher compared characters instead of labels, so whoever registered
/// a domain that merely ended in a configured name was sent that name's credentials. Its repair
/// still let literals match their subdomains.
#[test]
fn credentials_stay_at_the_label_boundary() {
    for (name, host) in [
        ("example.com", "notexample.com"),
        ("example.com", "evil-example.com"),
        ("example.com", "evil.example.com"),
        ("example.com", "example.com.evil.org"),
        (".example.com", "notexample.com"),
        (".example.com", "not.anexample.com"),
        (".example.com", "example.com"),
        (".example.com", "example.com.evil.org"),
        (".com", "examplecom"),
        ("192.0.2.1", "1.192.0.2.1.evil.org"),
        ("docker.io", "notdocker.io"),
    ] {
        assert_eq!(matched(&[name], host), "defaults", "{host} by {name}");
    }
}

#[test]
fn all_matches_are_known_by_the_text_that_was_written() {
    let names = ["Registry.corp", "registry.corp:443", ".CORP", ".", ".other", "index.docker.io"];
    let registries = registries(&names);
    for (host, expected) in [
        ("registry.corp", &["registry.corp:443", "Registry.corp", ".CORP", "."][..]),
        ("registry.corp:80", &["Registry.corp", ".CORP", "."]),
        ("docker.io", &["index.docker.io", "."]),
        ("192.0.2.1", &["."]),
    ] {
        let host = RegistryHost::parse(host).unwrap();
        let written: Vec<_> = registries.matches(&host).map(|(key, _)| key.written()).collect();
        assert_eq!(written, expected, "{host}");
    }
}

#[test]
fn only_literals_name_a_host() {
    let registries = registries(&["registry.corp", "registry.corp:5000", ".corp", "."]);
    let named = |host| {
        let host = RegistryHost::parse(host).unwrap();
        registries.literal_entry_for(&host).map(|(key, _)| key.to_string())
    };
    assert_eq!(named("registry.corp:5000").as_deref(), Some("registry.corp:5000"));
    assert_eq!(named("registry.corp").as_deref(), Some("registry.corp."));
    assert_eq!(named("other.corp"), None);
    assert_eq!((registries.len(), registries.is_empty(), registries.iter().count()), (4, false, 4));
}

/// An entry of everything that an entry may have.
fn full() -> Registry {
    let root = include_str!("../../tests/data/root.pem");
    let key = "-----BEGIN PRIVATE KEY-----\nYQ==\n-----END PRIVATE KEY-----\n";
    let text = format!(
        "[registries.r]\nusername = \"u\"\npassword = \"p\"\n\
         addresses = ['10.0.0.1']\nmirrors = ['https://m.corp', {{prefix = 'a', fallback = false}}]\n\
         mirror-fallback = true\nplain-http = true\ninsecure-skip-verify = true\n\
         also = [{{username = \"v\", password = \"p\"}}]\nca-certs = '''\n{root}'''\n\
         client-cert = '''\n{root}'''\nclient-key = '''\n{key}'''\n"
    );
    let document = crate::Document::parse(text.as_bytes()).unwrap().document;
    let host = RegistryHost::parse("r").unwrap();
    let uri = ResourceUri::parse("kbs:///default/a/b").unwrap();
    Registry {
        credentials_uri: Some(uri.clone()),
        credentials_optional: true,
        wants_anonymous: true,
        ca_certs_uri: Some(uri),
        ..document.registries.literal_entry_for(&host).unwrap().1.clone()
    }
}

/// What an entry has, in order.
fn parts(registry: &Registry) -> Vec<&'static str> {
    let parts = [
        ("credentials", !registry.credentials.is_anonymous()),
        ("also", !registry.also.is_empty()),
        ("credentials-uri", registry.credentials_uri.is_some()),
        ("credentials-optional", registry.credentials_optional),
        ("anonymous", registry.wants_anonymous),
        ("client", registry.client.is_some()),
        ("ca-certs", registry.ca_certs.is_some()),
        ("ca-certs-uri", registry.ca_certs_uri.is_some()),
        ("insecure-skip-verify", registry.insecure_skip_verify),
        ("plain-http", registry.plain_http),
        ("addresses", !registry.addresses.is_empty()),
        ("mirrors", !registry.mirrors.is_empty()),
        ("blocked", !registry.blocked.is_empty()),
        ("mirror-fallback", registry.mirror_fallback),
    ];
    parts.into_iter().filter_map(|(name, is_there)| is_there.then_some(name)).collect()
}

/// Trust rules 8 and 11: what of an entry counts beside fetched credentials, at a mirror, and with
/// the credentials of another document.
#[test]
fn an_entry_hands_on_what_may_go_there() {
    let (full, none) = (full(), Registry::default());
    let references = ["credentials-uri", "credentials-optional", "ca-certs-uri", "addresses"];
    let owners = ["anonymous", "client", "ca-certs", "mirrors", "blocked", "mirror-fallback"];
    let credentials = ["credentials", "also", "credentials-uri", "credentials-optional"];
    let credentials = [&credentials[..], &["anonymous", "client"]].concat();
    let all = parts(&full);
    assert_eq!(all.len(), 14);
    let without = |left_out: &[&str]| -> Vec<_> {
        all.iter().copied().filter(|name| !left_out.contains(name)).collect()
    };
    let but = |kept: &[&str]| without(&without(kept));
    for (handed_on, expected) in [
        (full.in_confidential_pull(Origin::Host), but(&references)),
        (full.in_confidential_pull(Origin::Measured), but(&[&references[..], &owners].concat())),
        (full.lent_to_mirror(), without(&["also", "client", "insecure-skip-verify", "addresses"])),
        (none.with_credentials_of(&full), but(&credentials)),
        (full.with_credentials_of(&none), without(&credentials)),
    ] {
        assert_eq!(parts(&handed_on), expected);
    }
}

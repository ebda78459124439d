//! Two documents, and which of them counts.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use std::net::IpAddr;

use registry_config::{Checked, RegistryHost};

use super::*;

pub(crate) fn settings(measured: &str, configuration: &str) -> Settings {
    let placed = |path: &str, checked: Checked| PlacedDocument {
        document: Arc::new(checked.document),
        path: path.into(),
        is_present: true,
    };
    Settings::new(
        placed("measured.toml", Document::parse_measured(measured.as_bytes()).unwrap()),
        placed("imagepuller.toml", Document::parse(configuration.as_bytes()).unwrap()),
    )
}

pub(crate) fn host(text: &str) -> RegistryHost {
    RegistryHost::parse(text).unwrap()
}

pub(crate) fn entry(name: &str, keys: &str) -> String {
    format!("[registries.\"{name}\"]\n{keys}")
}

pub(crate) fn login(user: &str) -> String {
    format!("username = \"{user}\"\npassword = \"hunter2\"\n")
}

#[test]
fn what_the_owner_says_of_a_host_is_all_that_is_said() {
    for (measured, configuration, expected) in [
        ("", "", "no entry of"),
        ("", "a.corp", "entry \"a.corp.\""),
        ("a.corp", "", "measured entry \"a.corp.\""),
        ("a.corp", "a.corp:443", "measured entry \"a.corp.\""),
        (".corp", "a.corp", "measured entry \".corp.\""),
        (".", "a.corp", "measured entry \".\""),
        ("b.corp", "a.corp", "entry \"a.corp.\""),
        ("b.corp", ".", "entry \".\""),
    ] {
        let document = |name: &str| match name {
            "" => String::new(),
            name => entry(name, &login("x")),
        };
        let settings = settings(&document(measured), &document(configuration));
        let shown = settings.registry(&host("a.corp")).to_string();
        assert!(shown.starts_with(expected), "{measured} {configuration}: {shown}");
    }
}

/// An entry of the owner freed each port of its host, and the host answers for names.
#[test]
fn the_owner_frees_a_host_at_its_port_alone() {
    let mirror = "mirror = \"http://mirror.corp:81/x\"\nplain-http = true\n";
    let owner = entry("a.corp", "")
        + &entry("a.corp:5000", "")
        + &entry("b.corp/team", &login("u"))
        + &entry("c.corp:443", mirror)
        + &entry(".below.corp", "");
    let proxy = "[extra-env]\nHTTPS_PROXY = \"http://proxy.corp:3128\"\n";
    let of_host = format!("{proxy}{}", entry("host.corp", ""));
    let of_owner = settings(&owner, &of_host);
    let url = |text: &str| Url::parse(text).unwrap();
    for (text, may) in [
        ("https://a.corp/", true),
        ("http://a.corp/", true),
        ("https://a.corp:5000/", true),
        ("http://a.corp:5000/", true),
        ("https://a.corp:80/", false),
        ("https://a.corp:5001/", false),
        ("https://b.corp/v2/other/", true),
        ("https://b.corp:5000/", false),
        ("https://c.corp/", true),
        ("http://c.corp/", false),
        ("http://mirror.corp:81/", true),
        ("http://mirror.corp/", false),
        ("https://x.below.corp/", false),
        ("https://host.corp/", false),
        ("http://proxy.corp:3128/", false),
    ] {
        assert_eq!(of_owner.may_be_near(&url(text)), may, "{text}");
        assert!(of_owner.clone().with_any_address(true).may_be_near(&url(text)));
    }
    assert!(!of_owner.may_proxies_be_near());
    assert!(settings(&format!("{proxy}{owner}"), &of_host).may_proxies_be_near());

    // What a server sends the puller to is judged in the same way.
    let local = settings(&entry("localhost:5000", ""), "");
    let from = url("https://registry.corp/");
    assert!(!local.leads_astray(&from, &url("https://localhost:5000/")));
    assert!(local.leads_astray(&from, &url("https://localhost:5001/")));
    let person = local.with_any_address(true);
    assert!(person.leads_astray(&from, &url("https://localhost:5001/")));
}

/// The address of one host must not become that of another one, and the owner's entry says alone
/// where a host is.
#[test]
fn addresses_are_those_of_their_entrys_host_alone() {
    let at = |name: &str, last: u8| entry(name, &format!("addresses = [\"10.0.0.{last}\"]\n"));
    let mirror =
        "mirror = \"https://m.corp\"\nmirror-fallback = true\naddresses = [\"10.0.0.1\"]\n";
    let of_host = entry("a.corp", mirror) + &at("blobs.corp", 2);
    let reference = at("a.corp", 1) + "credentials-uri = \"kbs:///a/b/c\"\n";
    for (measured, configuration, url, expected) in [
        ("", &of_host, "https://a.corp/v2/", &[1][..]),
        ("", &of_host, "https://m.corp/v2/", &[]),
        ("", &of_host, "https://blobs.corp/x", &[2]),
        ("", &of_host, "https://blobs.corp:5000/x", &[2]),
        ("", &of_host, "https://other.corp/x", &[]),
        ("", &(of_host.clone() + &at("m.corp", 3)), "https://m.corp/v2/", &[3]),
        (&at("a.corp", 4), &of_host, "https://a.corp/v2/", &[4]),
        (&entry("a.corp", ""), &of_host, "https://a.corp/v2/", &[]),
        (&entry(".corp", ""), &of_host, "https://blobs.corp/x", &[]),
        // Name and certificate are verified by what the host does not write.
        ("", &reference, "https://a.corp/v2/", &[1]),
    ] {
        let settings = settings(measured, configuration);
        let plan = settings.plan(&host("a.corp"), "app").unwrap();
        let url = Url::parse(url).unwrap();
        let mut steps = plan.mirrors().iter().chain([plan.registry()]);
        let own = steps.find(|step| step.source.is_own(&url));
        let source = &own.unwrap_or(plan.registry()).source;
        let trust = crate::Trust::of(&url, source, &settings);
        let expected: Vec<IpAddr> =
            expected.iter().map(|last| IpAddr::from([10, 0, 0, *last])).collect();
        assert_eq!(trust.addresses, expected, "{measured}{configuration}{url}");
        // The host's are never near, also of a host that the owner names.
        let is_owners = trust.authority.origin() == Some(Origin::Measured);
        assert!(is_owners || !settings.may_addresses_be_near(&url, &trust.authority));
    }
    let owner = "mirror = \"https://b.corp\"\n";
    let settings = settings(&(entry("o.corp", owner) + &at("a.corp", 1)), &at("b.corp", 1));
    for (name, is_owners) in [("a.corp", true), ("b.corp", false)] {
        let url = Url::parse(&format!("https://{name}")).unwrap();
        let by = settings.registry(&host(name));
        assert!(settings.may_be_near(&url));
        assert_eq!(settings.may_addresses_be_near(&url, &by), is_owners);
        assert!(settings.clone().with_any_address(true).may_addresses_be_near(&url, &by));
    }
}

/// A host that the puller is sent to: the host's entry for it counts only where the owner says
/// nothing.
#[test]
fn entries_of_other_hosts_count_by_who_is_in_charge() {
    let both = |measured: &[&str], configuration: &[&str]| {
        let document = |names: &[&str]| -> String {
            names.iter().map(|name| entry(name, &login("x"))).collect()
        };
        settings(&document(measured), &document(configuration))
    };
    for (measured, configuration, expected) in [
        (&[][..], &["a.corp", "token.corp"][..], "entry \"token.corp.\""),
        (&["token.corp"], &["a.corp"], "measured entry \"token.corp.\""),
        (&["token.corp"], &["a.corp", "token.corp"], "measured entry \"token.corp.\""),
        (&["a.corp"], &["token.corp"], "none"),
        (&["a.corp", "token.corp"], &[], "measured entry \"token.corp.\""),
        (&["."], &["token.corp"], "none"),
        (&[".corp"], &["a.example", "token.corp"], "none"),
        (&[], &["a.corp", ".corp"], "none"),
    ] {
        let settings = both(measured, configuration);
        let under = settings.registry(&host("a.corp"));
        let named = settings.named(&host("token.corp"), &under);
        let shown = named.map_or("none".to_owned(), |named| named.to_string());
        assert_eq!(shown, expected, "{measured:?} {configuration:?}");
    }
}

#[test]
fn the_owners_proxies_replace_the_hosts_as_a_whole() {
    let proxy = |variable: &str, host: &str| format!("[extra-env]\n{variable} = \"{host}\"\n");
    let of_host = proxy("HTTPS_PROXY", "http://host.corp:1");
    for (measured, expected) in [
        (String::new(), Some("host.corp")),
        ("[registries]\n".to_owned(), Some("host.corp")),
        ("[extra-env]\n".to_owned(), None),
        ("extra-env = {}\n".to_owned(), None),
        (proxy("HTTPS_PROXY", ""), None),
        (proxy("OTHER", "x"), None),
        (proxy("HTTPS_PROXY", "http://owner.corp:1"), Some("owner.corp")),
        (proxy("HTTP_PROXY", "http://owner.corp:1"), None),
        (proxy("NO_PROXY", "x.corp"), None),
    ] {
        let settings = settings(&measured, &of_host);
        let https = settings.proxies().https_proxy.as_ref();
        let name = https.map(|proxy| proxy.host().name());
        assert_eq!(name.as_deref(), expected, "{measured}");
    }
}

#[test]
fn keys_of_both_documents_are_told_apart() {
    let keys = |uri: &str| format!("[decryption-keys]\nkeys = [\"kbs:///default/key/{uri}\"]\n");
    let settings = settings(&keys("owner"), &keys("host"));
    let shown: Vec<_> = settings
        .decryption_keys(&host("r.corp"), "app")
        .map(|placed| format!("{placed}: {:?}", placed.key))
        .collect();
    assert_eq!(
        shown,
        [
            "key 1 of [decryption-keys] in the measured document: kbs:///default/key/owner",
            "key 1 of [decryption-keys] in the node's document: kbs:///default/key/host"
        ]
    );
    let none = Settings::new(PlacedDocument::default(), PlacedDocument::default());
    assert_eq!(none.decryption_keys(&host("r.corp"), "app").count(), 0);
}

/// Of a document for many teams one pull once tried, and fetched, the keys of all.
#[test]
fn keys_for_other_repositories_are_not_tried() {
    let table = |name: &str| {
        let tag = name.replace(['/', ':', '.'], "-");
        format!("[decryption-keys.\"{name}\"]\nkeys = [\"kbs:///a/b/{tag}\"]\n")
    };
    let names = ["r.corp", "r.corp/team", "r.corp/team/app", "r.corp:5000/team", "other.corp"];
    let text: String = names.into_iter().map(table).collect();
    let all = "[decryption-keys]\nkeys = [\"kbs:///a/b/all\"]\n";
    let settings = settings(&table("r.corp/team"), &format!("{all}{text}"));
    for (image, expected) in [
        ("r.corp/team/app/x", "r-corp-team r-corp-team-app r-corp-team r-corp all"),
        ("r.corp/team", "r-corp-team r-corp-team r-corp all"),
        ("r.corp/teams/app", "r-corp all"),
        ("r.corp:5000/team/x", "r-corp-team r-corp-5000-team r-corp-team r-corp all"),
        ("sub.r.corp/team", "all"),
        ("other.corp/team", "other-corp all"),
    ] {
        let (registry, repository) = image.split_once('/').unwrap();
        let registry = host(registry);
        let keys = settings.decryption_keys(&registry, repository);
        let shown: Vec<_> =
            keys.map(|placed| format!("{:?}", placed.key).replace("kbs:///a/b/", "")).collect();
        assert_eq!(shown.join(" "), expected, "{image}");
    }
    let registry = host("r.corp");
    let places: Vec<_> =
        settings.decryption_keys(&registry, "team").map(|placed| placed.to_string()).collect();
    assert_eq!(places[0], "key 1 of [decryption-keys.\"r.corp/team\"] in the measured document");
}

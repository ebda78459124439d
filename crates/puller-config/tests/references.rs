//! The keys by which a guest gets secrets that the host does not have: what they mean, what is
//! wrong with them, how they are shown.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

mod keys;
mod resources;

use puller_config::{
    AttesterKind, Checked, Credentials, Document, EventLog, MAX_RESOURCE_SOURCES,
    MAX_RESOURCES_FROM, Problems, Registry, SecretReference,
};

const ROOT: &str = include_str!("data/root.pem");
const SEALED: &str = "sealed.aHVudGVyMg.aHVudGVyMg.aHVudGVyMg";

/// Both readers of a document.
type Reader = fn(&[u8]) -> Result<Checked, Problems>;
const HOST: Reader = Document::parse;
const OWNER: Reader = Document::parse_measured;

fn problems(read: Reader, text: &str) -> String {
    read(text.as_bytes()).expect_err("a document with problems").to_string()
}

fn checked(read: Reader, text: &str) -> (Document, Vec<String>) {
    let checked = read(text.as_bytes()).unwrap_or_else(|problems| panic!("{text}\n{problems}"));
    let warnings = checked.warnings.iter().map(ToString::to_string).collect();
    (checked.document, warnings)
}

/// The only entry of a document, whose keys begin on line 2, with the warnings about it.
fn entry(read: Reader, keys: &str) -> (Registry, Vec<String>) {
    let (document, warnings) = checked(read, &format!("[registries.r]\n{keys}"));
    let (_, registry) = document.registries.iter().next().unwrap();
    (registry.clone(), warnings)
}

/// A reference with its secret, for comparison.
fn exposed(reference: &SecretReference) -> &str {
    match reference {
        SecretReference::Resource(uri) => uri.path(),
        SecretReference::Sealed(text) => text.expose(),
    }
}

#[test]
fn entry_refers_to_its_credentials_and_roots() {
    for (keys, credentials, roots) in [
        ("credentials-uri = \"kbs:///a/b/c\"", Some("a/b/c"), None),
        (&*format!("credentials-uri = \"{SEALED}\""), Some(SEALED), None),
        (&*format!("password = \"{SEALED}\""), Some(SEALED), None),
        (&*format!("auth = \"{SEALED}\""), Some(SEALED), None),
        (&*format!("identitytoken = \"{SEALED}\""), Some(SEALED), None),
        (&*format!("registrytoken = \"{SEALED}\""), Some(SEALED), None),
        ("ca-certs-uri = \"kbs:///a/b/c\"", None, Some("a/b/c")),
        (
            &*format!("credentials-uri = \"kbs:///a/b/d\"\nca-certs-uri = \"{SEALED}\""),
            Some("a/b/d"),
            Some(SEALED),
        ),
    ] {
        for read in [HOST, OWNER] {
            let (registry, warnings) = entry(read, keys);
            assert_eq!(registry.credentials_uri.as_ref().map(exposed), credentials, "{keys}");
            assert_eq!(registry.ca_certs_uri.as_ref().map(exposed), roots, "{keys}");
            assert!(matches!(registry.credentials, Credentials::Anonymous), "{keys}");
            assert_eq!(warnings, Vec::<String>::new(), "{keys}");
        }
    }
}

#[test]
fn references_are_checked_by_key() {
    let beside = "line 2: registries.r.credentials-uri: stands beside credentials in the same \
    entry; write one or the other";
    let alone = |line, key| {
        format!(
            "line {line}: registries.r.{key}: a sealed secret holds a whole docker configuration, \
            user name included: leave out the other credentials of the entry"
        )
    };
    let malformed = |key| {
        format!(
            "line 2: registries.r.{key}: a sealed secret is \"sealed.\" and three parts with dots \
            between them, each base64url without padding, without line ends"
        )
    };
    let uri = "credentials-uri = \"kbs:///a/b/c\"\n";
    let password = format!("password = \"{SEALED}\"\n");
    for (keys, expected) in [
        (
            "credentials-uri = 1".to_owned(),
            "line 2: registries.r.credentials-uri: expected string, found integer".to_owned(),
        ),
        (
            "credentials-uri = \"kbs://default/key/1\"".to_owned(),
            "line 2: registries.r.credentials-uri: the repository stands where the broker's host \
            would: three slashes are meant, as in \"kbs:///default/key/1\""
                .to_owned(),
        ),
        (
            "ca-certs-uri = \"cckbc:///a/b/c\"".to_owned(),
            "line 2: registries.r.ca-certs-uri: \"cckbc://\" is no longer in use: \
            write \"kbs:///repository/type/tag\""
                .to_owned(),
        ),
        ("credentials-uri = \"sealed.hunter2\"".to_owned(), malformed("credentials-uri")),
        ("password = \"sealed.hunter2\"".to_owned(), malformed("password")),
        ("registrytoken = \"sealed.\"".to_owned(), malformed("registrytoken")),
        (format!("{uri}username = \"a\"\npassword = \"b\""), beside.to_owned()),
        // Half a pair would be a problem of its own, but it is not what is wrong here.
        (format!("{uri}password = \"b\""), beside.to_owned()),
        (format!("{uri}identitytoken = \"b\""), beside.to_owned()),
        (format!("{uri}{password}"), beside.to_owned()),
        (format!("{password}username = \"a\""), alone(2, "password")),
        (format!("{password}auth = \"YTpi\""), alone(2, "password")),
        (format!("registrytoken = \"{SEALED}\"\n{password}"), alone(3, "password")),
        (
            format!("ca-certs-uri = \"kbs:///a/b/c\"\nca-certs = '''\n{ROOT}'''"),
            "line 2: registries.r.ca-certs-uri: stands beside \"ca-certs\"; write one or the \
            other"
                .to_owned(),
        ),
        (
            "Credentials_URI = \"kbs:///a/b/c\"".to_owned(),
            "line 2: registries.r.Credentials_URI: unknown key; did you \
            mean \"credentials-uri\"?"
                .to_owned(),
        ),
    ] {
        for read in [HOST, OWNER] {
            let shown = problems(read, &format!("[registries.r]\n{keys}"));
            assert_eq!(shown, expected, "{keys}");
        }
    }
}

#[test]
fn plugins_of_the_broker_are_the_owners_to_name() {
    let plugin = "kbs+nebula-ca:///credential?name=a";
    for (keys, line, key) in [
        (
            format!("[registries.r]\ncredentials-uri = \"{plugin}\""),
            2,
            "registries.r.credentials-uri",
        ),
        (format!("[registries.r]\nca-certs-uri = \"{plugin}\""), 2, "registries.r.ca-certs-uri"),
        (
            format!("[decryption-keys]\nkeys = [\"kbs:///a/b/c\",\n\"{plugin}\"]"),
            3,
            "decryption-keys.keys, item 2",
        ),
    ] {
        assert_eq!(
            problems(HOST, &keys),
            format!(
                "line {line}: {key}: names a plugin of the key broker, which only the measured \
                document may; the host's names resources, \"kbs:///repository/type/tag\""
            )
        );
        assert_eq!(checked(OWNER, &keys).1, Vec::<String>::new(), "{keys}");
        // The plugin that is meant where none is named.
        let resource = keys.replace(plugin, "kbs+resource:///a/b/c");
        checked(HOST, &resource);
    }
    for (text, names_plugin) in
        [(plugin, true), ("kbs+resource:///a/b/c", false), ("kbs:///a/b/c", false), (SEALED, false)]
    {
        let reference = SecretReference::parse(text).unwrap();
        assert_eq!(reference.names_plugin(), names_plugin, "{text}");
    }
}

#[test]
fn what_a_confidential_pull_does_not_take_is_said() {
    let unheard = |line, key| {
        format!(
            "line {line}: registries.r.{key}: has no effect on a pull that uses \"credentials-uri\""
        )
    };
    let forbids =
        "line 2: registries.r.ca-certs: has no PEM certificate: nobody is trusted, which \
    forbids the registry"
            .to_owned();
    let roots = format!("ca-certs = '''\n{ROOT}'''");
    for (key, of_host, of_owner) in [
        ("plain-http = true", vec![unheard(2, "plain-http")], vec![unheard(2, "plain-http")]),
        (
            "insecure-skip-verify = true",
            vec![unheard(2, "insecure-skip-verify")],
            vec![unheard(2, "insecure-skip-verify")],
        ),
        ("plain-http = false\ninsecure-skip-verify = false", vec![], vec![]),
        ("mirror = \"https://m.corp\"", vec![unheard(2, "mirror")], vec![]),
        (&*roots, vec![unheard(2, "ca-certs")], vec![]),
        ("ca-certs = \"none\"", vec![unheard(2, "ca-certs")], vec![forbids]),
        ("ca-certs-uri = \"kbs:///a/b/d\"", vec![], vec![]),
    ] {
        let keys = format!("{key}\ncredentials-uri = \"kbs:///a/b/c\"");
        assert_eq!(entry(HOST, &keys).1, of_host, "{keys}");
        assert_eq!(entry(OWNER, &keys).1, of_owner, "{keys}");
    }
    // Such credentials go to the registries that they name, not to every one.
    let everywhere = "[registries.\".\"]\ncredentials-uri = \"kbs:///a/b/c\"";
    assert_eq!(checked(HOST, everywhere).1, Vec::<String>::new());
    let (_, warnings) = entry(HOST, "ca-certs-uri = \"kbs:///a/b/c\"\ninsecure-skip-verify = true");
    assert_eq!(
        warnings,
        ["line 2: registries.r.ca-certs-uri: does not hold for the registry's own host because \
            of \"insecure-skip-verify\", only for the other hosts of a pull"]
    );
}

/// Whoever writes a host believes that it is asked.
#[test]
fn host_of_a_reference_is_noted() {
    let note = "names the host of a broker, which is ignored: \"sources\" of the measured \
        document's [resources] names the brokers; write \"kbs:///\"";
    for (text, key) in [
        (
            "[registries.r]\ncredentials-uri = \"kbs://kbs.corp:80/a/b/c\"",
            "registries.r.credentials-uri",
        ),
        ("[registries.r]\nca-certs-uri = \"kbs://h/a/b/c\"", "registries.r.ca-certs-uri"),
        ("[decryption-keys]\nkeys = [\"kbs://h/a/b/c\"]", "decryption-keys.keys, item 1"),
    ] {
        for read in [HOST, OWNER] {
            let warnings = checked(read, text).1;
            assert_eq!(warnings, [format!("line 2: {key}: {note}")], "{text}");
        }
        let without = text.replace("kbs.corp:80", "").replace("//h/", "///");
        assert!(checked(HOST, &without).1.is_empty(), "{without}");
    }
}

#[test]
fn secrets_in_measured_data_are_public() {
    let published = |place| {
        vec![format!(
            "line {place}: is known to the host and to everyone who verifies the guest, because \
            measured data is public; refer to it instead"
        )]
    };
    for (text, expected) in [
        (
            "[registries.r]\nusername = \"a\"\npassword = \"b\"",
            published("3: registries.r.password"),
        ),
        ("[registries.r]\nauth = \"YTpi\"", published("2: registries.r.auth")),
        (
            "[decryption-keys]\nkeys = [\"kbs:///a/b/c\",\n \"a2V5\"]",
            published("3: decryption-keys.keys, item 2"),
        ),
        ("[decryption-keys]\nkeys = [\"kbs:///a/b/c\"]", vec![]),
    ] {
        assert_eq!(checked(OWNER, text).1, expected, "{text}");
        assert_eq!(checked(HOST, text).1, Vec::<String>::new(), "{text}");
    }
}

#[test]
fn references_are_shown_and_what_they_hold_is_not() {
    let text = format!(
        "\
[registries.a]
credentials-uri = \"kbs://h/a/b/c\"
ca-certs-uri = \"{SEALED}\"
[registries.b]
password = \"{SEALED}\"
[decryption-keys]
keys = [\"aHVudGVyMg==\", \"aHVudGVyMg==:aHVudGVyMg==\", \"kbs:///a/b/c\", \"{SEALED}\"]
[resources]
sources = [\"cdh=unix:///run/cdh.sock\", \"kbs=https://kbs.corp\"]
kbs-attester = \"aa=unix:/run/aa.sock\"
kbs-token-file = \"/run/token\"
kbs-ca-certs = '''
{ROOT}'''
unwrap = [\"cdh=unix:///run/cdh.sock\"]
unwrap-always = true
[resources.from]
\"a/b/c\" = \"offline=/a\"
"
    );
    let (document, _) = checked(OWNER, &text);
    let expected = "\
[extra-env]

[registries.\"a.\"]
credentials-uri = \"kbs:///a/b/c\"
ca-certs-uri = \"sealed.[redacted]\"
insecure-skip-verify = false
plain-http = false

[registries.\"b.\"]
credentials-uri = \"sealed.[redacted]\"
insecure-skip-verify = false
plain-http = false

[decryption-keys]
keys = [\"[redacted]\", \"[redacted]:[redacted]\", \"kbs:///a/b/c\", \"sealed.[redacted]\"]

[resources]
sources = [\"cdh=unix:/run/cdh.sock\", \"kbs=https://kbs.corp\"]
kbs-ca-certs = [\"sha256:3e9113832283becf0fecd54ec0d5ef5d04ed3493f4c3c7721dd5301f5a510480\"]
kbs-token-file = \"/run/token\"
kbs-attester = \"aa=unix:/run/aa.sock\"
unwrap = [\"cdh=unix:/run/cdh.sock\"]
unwrap-always = true

[resources.from]
\"a/b/c\" = \"offline=/a\"
";
    assert_eq!(document.redacted(), expected);
    let json = serde_json::to_string(&document).unwrap();
    for shown in [json, format!("{document:?}")] {
        assert!(!shown.contains("aHVudGVyMg") && !shown.contains("hunter2"), "{shown}");
    }
}

//! What a valid document means, what it warns about, and how it is shown.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use puller_config::{
    Checked, Credentials, Document, PolicyDialect, PolicyPart, PolicySource, Registry, RegistryHost,
};

const ROOT: &str = include_str!("data/root.pem");

fn checked(text: &str) -> Checked {
    Document::parse(text.as_bytes()).unwrap_or_else(|problems| panic!("{text}\n{problems}"))
}

/// The only entry of a document, with the warnings about it.
fn entry(keys: &str) -> (Registry, Vec<String>) {
    let Checked { document, warnings, .. } = checked(&format!("[registries.r]\n{keys}"));
    let (_, registry) = document.registries.iter().next().unwrap();
    (registry.clone(), warnings.iter().map(ToString::to_string).collect())
}

/// Credentials with their secrets, for comparison.
fn exposed(credentials: &Credentials) -> String {
    match credentials {
        Credentials::Anonymous => "anonymous".to_owned(),
        Credentials::Basic { username, password } => {
            format!("basic {username} {}", password.expose())
        }
        Credentials::RegistryToken(token) => format!("bearer {}", token.expose()),
        Credentials::IdentityToken { username, token } => {
            format!("refresh {username:?} {}", token.expose())
        }
    }
}

#[test]
fn empty_document_is_no_configuration() {
    for text in ["", "# nothing\n", "[extra-env]\n[registries]\n", "\u{feff}[registries]\n"] {
        let Checked { document, warnings, .. } = checked(text);
        assert!(
            document.registries.is_empty() && document.extra_env.http_proxy.is_none(),
            "{text:?}"
        );
        assert!(warnings.is_empty(), "{text:?}");
    }
}

#[test]
fn an_empty_table_of_proxies_is_one() {
    for (text, expected) in [
        ("", false),
        ("[registries]", false),
        ("[extra-env]", true),
        ("extra-env = {}", true),
        ("[extra-env]\nOTHER = \"\"", true),
        ("[extra-env]\nHTTPS_PROXY = \"p\"", true),
    ] {
        assert_eq!(checked(text).document.has_extra_env, expected, "{text:?}");
    }
}

#[test]
fn credentials_follow_their_precedence() {
    let superseded = |line, key, stronger| {
        vec![format!("line {line}: registries.r.{key}: has no effect beside \"{stronger}\"")]
    };
    for (keys, expected, warnings) in [
        ("", "anonymous", vec![]),
        ("username = \"a\"\npassword = \"b:c\"", "basic a b:c", vec![]),
        ("username = \"a\"\npassword = '''\n{\n\t1\n}\n'''", "basic a {\n\t1\n}\n", vec![]),
        ("auth = \"YTpi\"", "basic a b", vec![]),
        ("auth = \"YTp7CgkxDQp9Cg==\"", "basic a {\n\t1\r\n}\n", vec![]),
        ("auth = \"YTpiOmM=\"", "basic a b:c", vec![]),
        ("auth = \"YTpiOmM\"", "basic a b:c", vec![]),
        ("auth = \"YTo=\"", "basic a ", vec![]),
        ("auth = \"OmI=\"", "basic  b", vec![]),
        ("auth = \"w6k6w6k=\"", "basic \u{e9} \u{e9}", vec![]),
        ("auth = \"YTpi\"\nusername = \"a\"\npassword = \"b\"", "basic a b", vec![]),
        ("identitytoken = \"t t\"", "refresh None t t", vec![]),
        ("identitytoken = \"t\"\nusername = \"a\"", "refresh Some(\"a\") t", vec![]),
        ("identitytoken = \"t\"\nauth = \"YTo=\"", "refresh Some(\"a\") t", vec![]),
        (
            "identitytoken = \"t\"\nauth = \"OmI=\"",
            "refresh None t",
            superseded(3, "auth", "identitytoken"),
        ),
        (
            "identitytoken = \"t\"\nauth = \"YTpi\"",
            "refresh Some(\"a\") t",
            superseded(3, "auth", "identitytoken"),
        ),
        (
            "identitytoken = \"t\"\nusername = \"a\"\npassword = \"b\"",
            "refresh Some(\"a\") t",
            superseded(4, "password", "identitytoken"),
        ),
        ("registrytoken = \"t\"", "bearer t", vec![]),
        (
            "identitytoken = \"i\"\nregistrytoken = \"t\"",
            "bearer t",
            superseded(2, "identitytoken", "registrytoken"),
        ),
        (
            "registrytoken = \"t\"\nauth = \"YTpi\"",
            "bearer t",
            superseded(3, "auth", "registrytoken"),
        ),
        (
            "username = \"a\"\npassword = \"b\"\nregistrytoken = \"t\"",
            "bearer t",
            [
                superseded(2, "username", "registrytoken"),
                superseded(3, "password", "registrytoken"),
            ]
            .concat(),
        ),
    ] {
        let (registry, found) = entry(keys);
        assert_eq!(exposed(&registry.credentials), expected, "{keys}");
        assert_eq!(found, warnings, "{keys}");
    }
}

#[test]
fn flags_and_mirror_are_off_unless_written() {
    let (registry, _) = entry("");
    assert!(registry.ca_certs.is_none() && registry.mirrors.is_empty());
    assert_eq!(
        (registry.insecure_skip_verify, registry.plain_http, registry.mirror_fallback),
        (false, false, false)
    );

    let keys = "insecure-skip-verify = true\nplain-http = true\nmirror \
    = \"https://m.corp/p\"\nmirror-fallback = true\n";
    let (registry, warnings) = entry(keys);
    assert_eq!(
        (registry.insecure_skip_verify, registry.plain_http, registry.mirror_fallback),
        (true, true, true)
    );
    assert_eq!(registry.mirrors[0].url().as_str(), "https://m.corp/p");
    assert_eq!(warnings, Vec::<String>::new());

    let (registry, _) = entry("mirror = \"https://m.corp\"\nmirror-fallback = false");
    assert!(!registry.mirror_fallback);
}

#[test]
fn roots_replace_or_forbid() {
    let (registry, warnings) = entry(&format!("ca-certs = '''\n{ROOT}'''"));
    let roots = registry.ca_certs.unwrap();
    assert_eq!((roots.certificates().len(), roots.is_beside_web()), (1, false));
    assert_eq!(warnings, Vec::<String>::new());

    let (registry, _) = entry(&format!("ca-certs = '''\n{ROOT}'''\nweb-roots = true"));
    assert!(registry.ca_certs.unwrap().is_beside_web());

    let (registry, warnings) = entry("ca-certs = \"none\"\ninsecure-skip-verify = true");
    assert!(registry.ca_certs.unwrap().trusts_nobody());
    assert_eq!(
        warnings,
        ["line 2: registries.r.ca-certs: has no PEM certificate: nobody is trusted, which \
            forbids the registry"]
    );
}

#[test]
fn proxies_are_read_in_either_case() {
    for (variables, http, https, no_proxy) in [
        ("HTTP_PROXY = \"http://p:1\"", Some("http://p:1"), None, None),
        (
            "http_proxy = \"p:1\"\nHTTPS_PROXY = \"https://u:w@q\"",
            Some("http://p:1"),
            Some("https://u:w@q"),
            None,
        ),
        (
            "HTTPS_PROXY = \"p:80\"\nhttps_proxy = \"p:80\"\nno_proxy = \".corp, 10.0.0.0/8\"",
            None,
            Some("http://p:80"),
            Some(".corp, 10.0.0.0/8"),
        ),
        ("HTTPS_PROXY = \"\"\nNO_PROXY = \"\"", None, None, None),
    ] {
        let Checked { document, warnings, .. } = checked(&format!("[extra-env]\n{variables}"));
        let env = &document.extra_env;
        assert_eq!(env.http_proxy.as_ref().map(|proxy| proxy.url()), http, "{variables}");
        assert_eq!(env.https_proxy.as_ref().map(|proxy| proxy.url()), https, "{variables}");
        assert_eq!(env.no_proxy.as_deref(), no_proxy, "{variables}");
        assert!(warnings.is_empty(), "{variables}");
    }
}

#[test]
fn what_may_not_be_meant_is_said_by_line() {
    let text = format!(
        "\
[registries.\".\"]
auth = \"YTpi\"
[registries.a]
auth = \"YTpi\"
plain-http = true
insecure-skip-verify = true
ca-certs = '''
{ROOT}'''
[registries.\".docker.io\"]
[extra-env]
Http_Proxy = \"x\"
PATH = \"hunter2\"
[registries.b]
plain-http = false
insecure-skip-verify = false
username = \"u\"
password = \"p\"
[registries.c]
plain-http = true
insecure-skip-verify = true
"
    );
    let warnings: Vec<_> = checked(&text).warnings.iter().map(ToString::to_string).collect();
    assert_eq!(
        warnings,
        [
            "line 1: registries.\".\": sends the credentials to every registry without an entry of \
            its own",
            "line 5: registries.a.plain-http: sends the credentials unencrypted where the registry \
            answers over plain HTTP",
            "line 6: registries.a.insecure-skip-verify: sends the credentials to whoever answers \
            in the registry's place",
            "line 7: registries.a.ca-certs: does not hold for the registry's own host because \
            of \"insecure-skip-verify\", only for the other hosts of a pull",
            "line 20: registries.\".docker.io\": does not match Docker Hub itself, whose name \
            is \"docker.io\" in all its spellings",
            "line 22: extra-env.Http_Proxy: has no effect: only HTTP_PROXY, HTTPS_PROXY and \
            NO_PROXY do, in upper or lower case",
            "line 23: extra-env.PATH: has no effect: only HTTP_PROXY, HTTPS_PROXY and NO_PROXY do, \
            in upper or lower case",
        ]
    );
}

/// Port 80 was taken without a word, and pulls ended in time-outs.
#[test]
fn a_proxy_without_a_port_is_legal_and_told() {
    for (value, is_told) in [
        ("proxy.corp", true),
        ("http://u:p@proxy.corp/", true),
        ("proxy.corp:80", false),
        ("http://proxy.corp:3128", false),
        ("https://proxy.corp", false),
        ("socks5://proxy.corp", false),
    ] {
        let warnings = checked(&format!("[extra-env]\nHTTPS_PROXY = \"{value}\"\n")).warnings;
        let told: Vec<_> = warnings.iter().map(ToString::to_string).collect();
        let expected = "line 2: extra-env.HTTPS_PROXY: has no port, so that the proxy is asked at \
            port 80; write it, as in :3128";
        let expected: &[&str] = if is_told { &[expected] } else { &[] };
        assert_eq!(told, expected, "{value}");
    }
}

#[test]
fn inline_tables_and_dotted_keys_are_the_same_document() {
    for text in [
        "registries = { \"r.corp\" = { username = \"a\", password = \"b\" } }",
        "registries.\"r.corp\".username = \"a\"\nregistries.\"r.corp\".password = \"b\"",
        "[registries]\n'r.corp'.username = 'a'\n'r.corp'.password = 'b'",
    ] {
        let document = checked(text).document;
        let host = RegistryHost::parse("r.corp").unwrap();
        let (_, registry) = document.registries.literal_entry_for(&host).unwrap();
        assert_eq!(exposed(&registry.credentials), "basic a b", "{text}");
    }
}

#[test]
fn document_is_shown_without_secrets() {
    let text = format!(
        "\
[extra-env]
https_proxy = \"http://robot:hunter2@proxy.corp:3128\"
NO_PROXY = \".corp\"
[registries.\"R.corp:5000\"]
auth = \"cm9ib3Q6aHVudGVyMg==\"
ca-certs = '''
{ROOT}'''
mirror = \"https://m.corp/p\"
[registries.\".\"]
ca-certs = \"none\"
[registries.a]
auth = \"aHVudGVyMjo=\"
[registries.b]
identitytoken = \"hunter2\"
username = \"robot\"
[registries.c]
registrytoken = \"hunter2\"
"
    );
    let document = checked(&text).document;
    let fingerprint = "sha256:3e9113832283becf0fecd54ec0d5ef5d04ed3493f4c3c7721dd5301f5a510480";
    let expected = format!(
        "\
[extra-env]
HTTPS_PROXY = \"http://[redacted]@proxy.corp:3128\"
NO_PROXY = \".corp\"

[registries.\".\"]
ca-certs = []
insecure-skip-verify = false
plain-http = false

[registries.\"a.\"]
username = \"[redacted]\"
password = \"[redacted]\"
insecure-skip-verify = false
plain-http = false

[registries.\"b.\"]
username = \"robot\"
identitytoken = \"[redacted]\"
insecure-skip-verify = false
plain-http = false

[registries.\"c.\"]
registrytoken = \"[redacted]\"
insecure-skip-verify = false
plain-http = false

[registries.\"r.corp:5000\"]
username = \"robot\"
password = \"[redacted]\"
ca-certs = [\"{fingerprint}\"]
insecure-skip-verify = false
plain-http = false
mirror = \"https://m.corp/p\"
mirror-fallback = false
"
    );
    assert_eq!(document.redacted(), expected);

    let json = serde_json::to_value(&document).unwrap();
    assert_eq!(json["registries"]["r.corp:5000"]["ca-certs"][0], fingerprint);
    assert_eq!(json["registries"]["b."]["identitytoken"], "[redacted]");
    assert!(!json.to_string().contains("hunter2"));
    assert!(!format!("{document:?}").contains("hunter2"));
    assert_eq!(Document::default().redacted(), "[extra-env]\n\n[registries]\n");
}

/// The seconds are those of GNU date.
#[test]
fn the_least_time_counts_from_1970_in_utc() {
    for (value, seconds) in [
        ("1970-01-01T00:00:00Z", 0),
        ("2000-02-29T23:59:59Z", 951_868_799),
        ("2100-03-01T00:00:00Z", 4_107_542_400),
        ("2026-11-22T01:30:00.9+01:30", 1_795_305_600),
        ("2024-02-29 12:00:00-08:00", 1_709_236_800),
        ("9999-12-31T23:59:59Z", 253_402_300_799),
    ] {
        let text = format!("clock-not-before = {value}\n");
        let checked = Document::parse_measured(text.as_bytes()).unwrap();
        let moment = checked.document.clock_not_before.unwrap();
        let since = moment.time().duration_since(std::time::UNIX_EPOCH).unwrap();
        assert_eq!(since.as_secs(), seconds, "{value}");
        let shown = format!("clock-not-before = \"{moment}\"\n");
        assert!(checked.document.redacted().starts_with(&shown), "{value}");
    }
}

#[test]
fn limits_of_pulls_are_completed_key_by_key() {
    let parse = |text: &str| {
        let checked = Document::parse_measured(text.as_bytes());
        checked.unwrap().document
    };
    assert_eq!(parse("").limits, None);
    let mut upper = parse("[limits]\nattempts = 0\nstall-timeout = 1_000\n");
    let below = parse("[limits]\nattempts = 100\nlayers-at-once = 0x10\n");
    assert_eq!(upper.complete(below).unwrap(), ["limits.attempts"]);
    let limits = upper.limits.unwrap();
    assert_eq!((limits.attempts, limits.layers_at_once), (Some(0), Some(16)));
    assert_eq!(limits.stall_timeout().unwrap().as_secs(), 1000);
    let shown = "[limits]\nattempts = 0\nlayers-at-once = 16\nstall-timeout = 1000\n";
    assert!(upper.redacted().contains(shown), "{}", upper.redacted());
}

#[test]
fn a_policy_is_kept_as_it_is_written_and_shown() {
    let text = "[image-policy]\nfile = \"policy.json\"\nallow-tags = [\"R.corp/App:1\"]\n\
        signed-not-before = 2026-01-01T00:00:00Z\nrefuse = [\"sha256:0\"]\n";
    let parse = |text: &str| Document::parse_measured(text.as_bytes()).unwrap().document;
    let mut document = parse(text);
    let shown = document.redacted();
    let expected = "[image-policy]\nfile = \"policy.json\"\ndialect = \"containers\"\n\
        allow-tags = [\"R.corp/App:1\"]\nsigned-not-before = \"2026-01-01T00:00:00Z\"\n\
        refuse = [\"sha256:0\"]\n";
    assert!(shown.contains(expected), "{shown}");
    let policy = document.image_policy.as_ref().unwrap();
    assert!(matches!(&policy.source, PolicySource::File(name) if name == "policy.json"));
    assert_eq!((policy.line(), policy.key()), (2, "image-policy.file"));
    assert_eq!(policy.allow_tags, ["R.corp/App:1"]);
    let seconds = policy.signed_not_before.unwrap().time();
    let seconds = seconds.duration_since(std::time::UNIX_EPOCH).unwrap();
    assert_eq!(seconds.as_secs(), 1_767_225_600);
    let problems = policy.problems([
        (PolicyPart::Refuse(0), "a".to_owned()),
        (PolicyPart::AllowTag(0), "b".to_owned()),
    ]);
    assert_eq!(
        problems.to_string(),
        "line 3: image-policy.allow-tags, item 1: b\nline 5: image-policy.refuse, item 1: a"
    );
    // Of two sections the upper one holds as a whole; nothing is added to it.
    let below = parse("[image-policy]\nuri = \"kbs:///a/b/c\"\nallow-tags = [\"\"]\n");
    let mut empty = Document::default();
    assert!(empty.complete(below.clone()).unwrap().is_empty());
    assert_eq!(empty.redacted(), below.redacted());
    assert_eq!(document.complete(below).unwrap(), ["image-policy"]);
    assert_eq!(document.redacted(), shown);
}

#[test]
fn reason_of_the_node_is_all_that_its_document_says() {
    let text = "\n# why\nnode-error = \"line 2:\\u001b[2J\\n\\u202e \\\"ä\\\"\"\n";
    let Checked { document, warnings, .. } = checked(text);
    assert_eq!(
        warnings[0].to_string(),
        "line 3: node-error: makes the guest refuse every pull with this text as the reason"
    );
    let shown = "line 2:\\u{1b}[2J\\n\\u{202e} \"ä\"";
    assert_eq!(document.node_error.as_ref().unwrap().to_string(), shown);
    let redacted = document.redacted();
    assert!(redacted.starts_with(&format!("node-error = '{shown}'\n")), "{redacted}");
    assert!(document.registries.is_empty() && !document.has_extra_env);
}

#[test]
fn entry_for_every_host_is_warned_about_only_with_credentials() {
    assert!(checked("[registries.\".\"]\nplain-http = true").warnings.is_empty());
}

/// The fuzzer starts from these; a seed that stops being a document no longer leads anywhere.
#[test]
fn fuzz_seeds_are_what_their_names_say() {
    let everyday = checked(include_str!("../fuzz/seeds/document/everyday.toml"));
    assert!(everyday.warnings.is_empty() && everyday.document.registries.len() == 1);
    let every_key = checked(include_str!("../fuzz/seeds/document/every-key.toml"));
    assert_eq!(every_key.document.registries.len(), 6);
    let routes = checked(include_str!("../fuzz/seeds/document/routes.toml")).document;
    assert_eq!((routes.registries.len(), routes.decryption_keys.of.len()), (2, 1));
    let references = checked(include_str!("../fuzz/seeds/document/references.toml"));
    assert_eq!(references.document.decryption_keys.all.len(), 4);
    let measured = include_str!("../fuzz/seeds/document/measured.toml");
    let measured = Document::parse_measured(measured.as_bytes()).unwrap().document;
    assert_eq!(measured.decryption_keys.all.len(), 3);
    assert_eq!(measured.resources.unwrap().sources.len(), 3);
    assert_eq!((measured.pins.all.len(), measured.pins.is_only), (2, true));
    let policy = measured.image_policy.unwrap();
    assert_eq!((policy.allow_tags.len(), policy.refuse.len()), (1, 1));
    let policy = include_str!("../fuzz/seeds/document/image-policy.toml");
    let policy = Document::parse_measured(policy.as_bytes()).unwrap();
    let policy = policy.document.image_policy.unwrap();
    assert_eq!(policy.dialect, PolicyDialect::Coco);
    let mistakes = include_str!("../fuzz/seeds/document/image-policy-mistakes.toml");
    let mistakes = Document::parse_measured(mistakes.as_bytes()).unwrap_err();
    assert_eq!(mistakes.iter().count(), 7);
    let reason = checked(include_str!("../fuzz/seeds/document/node-error.toml"));
    assert!(reason.document.node_error.is_some());
    let beside = include_str!("../fuzz/seeds/document/node-error-beside.toml");
    let beside = Document::parse(beside.as_bytes()).unwrap_err();
    assert_eq!(beside.iter().count(), 2);
    let mistakes = include_str!("../fuzz/seeds/document/every-mistake.toml");
    assert_eq!(Document::parse(mistakes.as_bytes()).unwrap_err().iter().count(), 21);
}

#[test]
fn examples_of_the_reference_are_documents() {
    let reference = include_str!("../../../docs/document.md");
    let root = ROOT.lines().filter(|line| !line.starts_with('-')).collect::<String>();
    let examples = reference.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let parsed = examples.map(|example| {
        let key = example.replace("...(base64)", "LS0t");
        let example = key.replace("(base64)", &root);
        let of_owner = ["[resources]", "event-log", "[pins]", "[image-policy]"];
        if of_owner.iter().any(|key| example.contains(key)) {
            let checked = Document::parse_measured(example.as_bytes());
            return checked.unwrap_or_else(|problems| panic!("{example}\n{problems}"));
        }
        checked(&example)
    });
    assert_eq!(parsed.count(), 17);
}

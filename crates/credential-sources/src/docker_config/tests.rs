#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::key::Meaning;
use super::*;
use registry_config::Credentials;

use crate::Offer;

fn input(source: &str, json: &str) -> Input {
    Input {
        source: source.to_owned(),
        config: DockerConfig::parse(json.as_bytes()).unwrap_or_else(|error| panic!("{error}")),
    }
}

/// `name=user:password` for each offer; tokens stand alone.
fn shown(offers: &[Offer]) -> Vec<String> {
    let show = |offer: &Offer| match &offer.offered {
        Credentials::Basic { username, password } => {
            format!("{}={username}:{}", offer.name, password.expose())
        }
        Credentials::IdentityToken { token, .. } => {
            format!("{}=identity {}", offer.name, token.expose())
        }
        Credentials::RegistryToken(token) => format!("{}=registry {}", offer.name, token.expose()),
        Credentials::Anonymous => format!("{}=anonymous", offer.name),
    };
    offers.iter().map(show).collect()
}

fn import(json: &str, widening: Widening) -> (Vec<String>, Vec<Finding>) {
    let (offers, findings) = offers(&[input("a", json)], widening);
    (shown(&offers), findings)
}

/// The one entry of a configuration, with `KEY` for its credentials where that is all that matters.
fn entry(fields: &str) -> (Vec<String>, Vec<Finding>) {
    import(&format!("{{\"auths\":{{\"r.io\":{{{fields}}}}}}}"), Widening::Refused)
}

fn auth(text: &str) -> String {
    STANDARD.encode(text)
}

/// JSON with double quotes for single ones, and the base64 of `text` for each `AUTH(text)`.
fn with_base64(fields: &str) -> String {
    let mut parts = fields.split("AUTH(");
    let mut json = parts.next().unwrap().to_owned();
    for part in parts {
        let (text, rest) = part.split_once(')').unwrap();
        json += &format!("'{}'{rest}", auth(text));
    }
    json.replace('\'', "\"")
}

#[test]
fn keys_stand_for_the_registries_in_the_table() {
    for (name, keys) in [
        (
            "ghcr.io.",
            "ghcr.io GHCR.io https://ghcr.io http://ghcr.io ghcr.io/ https://ghcr.io/v1/ \
            https://ghcr.io/v2/ ghcr.io/v2/",
        ),
        (
            "docker.io.",
            "https://index.docker.io/v1/ docker.io index.docker.io registry-1.docker.io",
        ),
        ("reg.corp:5000", "reg.corp:5000 https://reg.corp:5000/v2/"),
        ("10.0.0.5:5000", "10.0.0.5:5000"),
        ("[::1]:5000", "[::1]:5000"),
        ("[::1]", "https://[0::1]/"),
        ("localhost.", "localhost"),
        (
            "quay.io/team",
            "quay.io/team quay.io/team/ https://quay.io/v1/team QUAY.io./team http://quay.io/v2/team/",
        ),
        ("docker.io/library", "docker.io/library https://index.docker.io/v1/library"),
        ("reg.corp:5000/x", "reg.corp:5000/x"),
        ("r.io/v12", "r.io/v12/"),
    ] {
        let expected = registry_config::RegistryName::parse(name).unwrap();
        for key in keys.split(' ') {
            assert_eq!(key::meaning(key), Meaning::Registry(expected.clone()), "{key}");
        }
    }
    for (wider, keys) in [
        ("quay.io.", "quay.io/Team quay.io//team quay.io/a.*"),
        ("r.io.", "https://r.io/v2 https://r.io/v1"),
        (".azurecr.io.", "*.azurecr.io https://*.azurecr.io/v2/"),
        (".corp.", "*.corp:5000 *.corp/team"),
    ] {
        for key in keys.split(' ') {
            let Meaning::Wider { name, .. } = key::meaning(key) else {
                panic!("{key}");
            };
            assert_eq!(name.to_string(), wider, "{key}");
        }
    }
    let none = "https://index.docker.io/v1/access-token docker.io/refresh-token / https:// https:///x * *.*.corp prefix.*.io *-good.k.io k8s.* [ab].corp a?.corp \
    .corp . HTTPS://ghcr.io ftp://ghcr.io u:hunter2@ghcr.io ghcr.io?x reg.corp:0 ::1 \u{e9}.corp \
    r\u{e9}/v";
    for key in none.split(' ').chain(["", "a b"]) {
        let Meaning::Nothing(reason) = key::meaning(key) else {
            panic!("{key}");
        };
        assert!(!reason.contains("hunter2"), "{key}");
        // The slashes of a scheme once made "ftp:" a host with a port.
        assert!(!key.contains("://ghcr.io") || reason.contains("no scheme"), "{key}: {reason}");
    }
}

#[test]
fn entries_mean_what_the_table_says() {
    // AUTH(text) stands for its base64.
    let pair = auth("u:p:q");
    let [unpadded, wrapped] =
        [pair.trim_end_matches('=').to_owned(), format!("{}\\n{}\\r\\n", &pair[..3], &pair[3..])];
    for (fields, expected) in [
        ("'username':'u','password':'p'", "u:p"),
        ("'auth':AUTH(u:p:q)", "u:p:q"),
        ("'AUTH':AUTH(u:p:q)", "u:p:q"),
        (&format!("'auth':'{unpadded}'"), "u:p:q"),
        (&format!("'auth':'{wrapped}'"), "u:p:q"),
        ("'auth':AUTH(u:p\n)", "u:p"),
        ("'auth':AUTH(u:p\r\n)", "u:p"),
        ("'auth':AUTH(u:p\0\0)", "u:p"),
        // A file.
        ("'auth':AUTH(u:p\n\tq\n\0)", "u:p\n\tq\n"),
        ("'username':'u','password':'p\\r\\n\\r\\n'", "u:p\r\n\r\n"),
        ("'auth':AUTH(u:)", "u:"),
        ("'auth':AUTH(:p)", ":p"),
        ("'auth':AUTH(u:p:q),'password':'other'", "u:p:q"),
        ("'auth':AUTH(u:),'identitytoken':'t'", "identity t"),
        ("'identitytoken':'t','registrytoken':'r'", "registry r"),
        ("'auth':'!','auth':AUTH(u:p:q)", "u:p:q"),
        ("'email':7,'unknown':[{}],'registrytoken':null,'auth':AUTH(u:p:q)", "u:p:q"),
    ] {
        let fields = with_base64(fields);
        let (offers, findings) = entry(&fields);
        assert_eq!(offers, [format!("r.io.={expected}")], "{fields}");
        assert!(findings.iter().all(|finding| finding.loss == Loss::Note));
    }
    for fields in ["", "\"email\":\"x\"", "\"auth\":\"\"", "\"username\":\"\",\"auth\":null"] {
        let (offers, findings) = entry(fields);
        assert!(offers.is_empty());
        assert_eq!(findings[0].text, "it has no credentials");
    }
    let (offers, findings) = entry(&with_base64("'auth':AUTH(:)"));
    assert!(offers.is_empty());
    assert_eq!(findings[0].loss, Loss::Note);
    for (fields, word) in [
        ("'auth':'hunter2!'", "base64"),
        ("'auth':AUTH(hunter2)", "colon"),
        ("'auth':'dTr/'", "UTF-8"),
        ("'auth':AUTH(u\nv:hunter2)", "control"),
        ("'auth':AUTH(u:hunter2\n\0x)", "control"),
        ("'username':'a:b','password':'hunter2'", "colon"),
        (&format!("'identitytoken':'{}'", "hunter2".repeat(3000)), "bytes"),
        ("'registrytoken':'hunter 2'", "visible"),
    ] {
        let fields = with_base64(fields);
        let (offers, findings) = entry(&fields);
        assert!(offers.is_empty());
        let finding = findings.last().unwrap();
        assert_eq!(finding.loss, Loss::Lost);
        assert!(finding.text.contains(word), "{finding}");
        assert!(!finding.to_string().contains("hunter"), "{finding}");
    }
}

#[test]
fn widening_happens_on_request_only_and_behind_the_exact_key() {
    let pair = |user: &str| format!("{{\"auth\":\"{}\"}}", auth(&format!("{user}:p")));
    let json = format!(
        "{{\"auths\":{{\"quay.io/Team\":{},\"quay.io/B\":{},\"*.azurecr.io\":{},\"ghcr.io/X\":{},\
        \"https://ghcr.io\":{},\"a*\":{}}}}}",
        pair("team"),
        pair("b"),
        pair("azure"),
        pair("x"),
        pair("g"),
        pair("glob")
    );
    let (offers, findings) = import(&json, Widening::Refused);
    assert_eq!(offers, ["ghcr.io.=g:p"]);
    let count =
        |findings: &[Finding], loss| findings.iter().filter(|finding| finding.loss == loss).count();
    assert_eq!((count(&findings, Loss::Widens), count(&findings, Loss::Lost)), (4, 1));
    let (offers, findings) = import(&json, Widening::Allowed);
    assert_eq!(
        offers,
        ["ghcr.io.=g:p", "ghcr.io.=x:p", "quay.io.=b:p", "quay.io.=team:p", ".azurecr.io.=azure:p"]
    );
    assert_eq!((count(&findings, Loss::Widens), count(&findings, Loss::Lost)), (0, 1));
}

/// Two secrets with the old and the new password of one registry: only one was taken, so a pull
/// failed either before the registry switched over or after it.
#[test]
fn every_input_is_an_account_the_later_ones_first() {
    let json = |key: &str, user: &str| {
        format!("{{\"auths\":{{\"{key}\":{{\"auth\":\"{}\"}}}}}}", auth(&format!("{user}:p")))
    };
    let inputs = [
        input("a", &json("https://index.docker.io/v1/", "a")),
        input("b", &json("docker.io", "b")),
        input("c", &json("https://index.docker.io/v1/", "c")),
        input("d", &json("index.docker.io", "a")),
        input("e", "{}"),
    ];
    let (offered, findings) = offers(&inputs, Widening::Refused);
    assert_eq!(shown(&offered), ["docker.io.=a:p", "docker.io.=c:p", "docker.io.=b:p"]);
    let sources: Vec<_> = offered.iter().map(|offer| offer.source.as_str()).collect();
    assert_eq!(sources, ["d", "c", "b"]);
    let told: Vec<_> = findings
        .iter()
        .map(|finding| (finding.source.as_str(), finding.loss, finding.text.as_str()))
        .collect();
    let after = "tried after \"index.docker.io\" of d, where that is refused";
    let same = "the same credentials as an entry that counts more, \"index.docker.io\" of d";
    assert_eq!(told, [("c", Loss::Note, after), ("b", Loss::Note, after), ("a", Loss::Note, same)]);

    let both = format!(
        "{{\"auths\":{{\"https://ghcr.io/v1/\":{{\"auth\":\"{0}\"}},\
        \"ghcr.io\":{{\"auth\":\"{1}\"}},\"https://ghcr.io\":{{\"auth\":\"{1}\"}}}}}}",
        auth("long:p"),
        auth("bare:p")
    );
    let (offered, findings) = offers(&[input("a", &both)], Widening::Refused);
    assert_eq!(shown(&offered), ["ghcr.io.=bare:p", "ghcr.io.=long:p"]);
    assert_eq!(findings.len(), 2);
    assert!(findings.iter().all(|finding| finding.loss == Loss::Note));
}

/// A file named Docker Hub with and without its port; both passwords were taken, and nothing was
/// told.
#[test]
fn a_key_with_port_443_and_one_without_are_one_registry() {
    for (one, other, counts) in [
        ("docker.io", "index.docker.io:443", "docker.io.=one:p"),
        ("reg.corp:443", "https://reg.corp/v1/", "reg.corp:443=one:p"),
    ] {
        let json = format!(
            "{{\"auths\":{{\"{one}\":{{\"auth\":\"{}\"}},\"{other}\":{{\"auth\":\"{}\"}}}}}}",
            auth("one:p"),
            auth("other:p")
        );
        let (offers, findings) = import(&json, Widening::Refused);
        assert_eq!(offers, [counts]);
        assert_eq!(findings.len(), 1);
        assert_eq!((findings[0].loss, findings[0].key.as_str()), (Loss::Lost, other));
    }
}

#[test]
fn what_is_beside_the_entries_is_reported_one_by_one() {
    let config = "{\"credHelpers\":{\"gcr.io\":\"gcloud\",\"u:hunter2@x\":\"y\"},\
        \"credsStore\":\"desktop\",\
        \"HttpHeaders\":{\"a\":\"hunter2\"},\"psFormat\":1,\"auths\":{\"a.io\":{},\"a.io\":{}}}";
    let (offers, findings) = import(config, Widening::Refused);
    assert!(offers.is_empty());
    let keys: Vec<_> = findings.iter().map(|finding| finding.key.as_str()).collect();
    assert_eq!(
        keys,
        [
            "credsStore",
            "HttpHeaders",
            "credHelpers gcr.io",
            "credHelpers [redacted]@x",
            "a.io",
            "a.io"
        ]
    );
    // What to do was not said, and is a command now.
    let asked = |host: &str, helper: &str| {
        format!(
            "ask it with \"echo {host} | docker-credential-{helper} get\", and give the Secret \
            that it answers to \"kata-configdev new --into DOCUMENT --registry {host} --user \
            USERNAME --password-stdin\""
        )
    };
    for (index, host, helper) in [(0, "HOST", "desktop"), (2, "gcr.io", "gcloud"), (3, "HOST", "y")]
    {
        let text = &findings[index].text;
        assert!(text.ends_with(&asked(host, helper)), "{text}");
    }
    // A registry may ask for them, so --strict has to refuse.
    assert_eq!(findings[1].loss, Loss::Lost);
    assert!(!format!("{findings:?}").contains("hunter2"));
}

/// What is shown is meant for a shell.
#[test]
fn no_helper_and_no_host_writes_a_command() {
    for helper in ["x; rm -rf /", "$(id)", "\u{202e}", "", "a b"] {
        let config =
            format!("{{\"credsStore\":\"s{helper}\",\"credHelpers\":{{\"r{helper} \":1}}}}");
        let (_, findings) = import(&config, Widening::Refused);
        let texts: Vec<_> = findings.iter().map(|finding| &finding.text).collect();
        for text in texts.iter().filter(|_| !helper.is_empty()) {
            assert!(text.contains("echo HOST | docker-credential-NAME get"), "{text}");
            assert!(!text.contains(helper), "{text}");
        }
        assert_eq!(texts.len(), 2);
    }
}

#[test]
fn files_are_told_apart_by_their_keys() {
    for (json, expected) in [
        ("{}", Shape::Config),
        (" \n{\"auths\":null}", Shape::Config),
        ("{\"Auths\":{}}", Shape::Config),
        ("{\"credsStore\":\"\"}", Shape::Config),
        ("{\"ghcr.io\":{}}", Shape::Legacy),
        ("{\"apiVersion\":\"v1\",\"kind\":\"Secret\"}", Shape::Manifest),
    ] {
        assert_eq!(shape(json.as_bytes()), Ok(expected), "{json}");
    }
    let legacy = DockerConfig::parse_legacy(b"{\"ghcr.io\":{},\"x\":null}").unwrap();
    assert_eq!(legacy.entries.len(), 2);
}

#[test]
fn other_texts_are_refused_by_their_place() {
    for (json, expected) in [
        ("", ConfigError::NotJson { line: 1, column: 1 }),
        ("{\"hunter2", ConfigError::NotJson { line: 1, column: 10 }),
        ("[]", ConfigError::WrongType { line: 1, column: 1 }),
        ("{\"auths\":\n{\"a\":\"hunter2\"}}", ConfigError::WrongType { line: 2, column: 6 }),
        ("{\"auths\":{\"a\":{\"auth\":7}}}", ConfigError::WrongType { line: 1, column: 23 }),
    ] {
        let error = DockerConfig::parse(json.as_bytes()).unwrap_err();
        assert_eq!(error, expected, "{json}");
        assert!(!error.to_string().contains("hunter2"));
    }
    let many = |count: usize| {
        let entries: Vec<_> = (0..count).map(|n| format!("\"r{n}\":{{}}")).collect();
        format!("{{\"auths\":{{{}}}}}", entries.join(","))
    };
    assert!(DockerConfig::parse(many(MAX_ENTRIES).as_bytes()).is_ok());
    assert_eq!(
        DockerConfig::parse(many(MAX_ENTRIES + 1).as_bytes()).unwrap_err(),
        ConfigError::TooManyEntries
    );
    let long = format!("{{}}{}", " ".repeat(MAX_CONFIG_BYTES));
    assert_eq!(DockerConfig::parse(long.as_bytes()).unwrap_err(), ConfigError::TooLong);
    let deep = "[".repeat(100_000);
    assert!(DockerConfig::parse(format!("{{\"x\":{deep}").as_bytes()).is_err());
}

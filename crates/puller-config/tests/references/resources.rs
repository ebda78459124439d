//! Whom the guest asks for what it refers to: `[resources]`.

use super::*;

#[test]
fn resources_are_the_owners_to_say() {
    let text = format!(
        "[resources]\nsources = [\"cdh=unix:/run/cdh.sock\", \"kbs=https://kbs.corp\"]\n\
        kbs-token-file = \"/run/token\"\nkbs-attester = \"aa=unix:///run/aa.sock\"\n\
        kbs-ca-certs = '''\n{ROOT}'''\n\
        [resources.from]\n\"a/b/c\" = \"kbs=https://other.corp\"\n"
    );
    assert_eq!(
        problems(HOST, &text),
        "line 1: resources: belongs in the measured document, imagepuller.toml in the initdata: \
        the host does not choose whom the guest asks for secrets"
    );
    let (document, warnings) = checked(OWNER, &text);
    let resources = document.resources.unwrap();
    let sources: Vec<_> = resources.sources.iter().map(ToString::to_string).collect();
    assert_eq!(sources, ["cdh=unix:/run/cdh.sock", "kbs=https://kbs.corp"]);
    assert_eq!(resources.kbs_token_file.unwrap(), std::path::Path::new("/run/token"));
    let agent = AttesterKind::Agent("/run/aa.sock".into());
    assert_eq!(resources.kbs_attester, Some(agent));
    assert_eq!(resources.kbs_ca_certs.unwrap().certificates().len(), 1);
    let [(uri, source)] = &resources.from[..] else {
        panic!("{:?}", resources.from);
    };
    let from = format!("{uri} {source}");
    assert_eq!(from, "kbs:///a/b/c kbs=https://other.corp");
    assert_eq!(warnings, Vec::<String>::new());
    assert!(checked(OWNER, "").0.resources.is_none());
    assert!(checked(OWNER, "[resources]").0.resources.unwrap().sources.is_empty());
}

#[test]
fn resources_are_checked_by_key() {
    let sources = |count: usize| {
        let sources = (0..count).map(|number| format!("\"offline=/{number}\","));
        format!("sources = [{}]", sources.collect::<String>())
    };
    checked(OWNER, &format!("[resources]\n{}", sources(MAX_RESOURCE_SOURCES)));
    let from = |count: usize| {
        let from = (0..count).map(|number| format!("\"a/b/{number}\" = \"offline=/a\""));
        from.collect::<Vec<_>>().join(", ")
    };
    checked(OWNER, &format!("[resources]\nfrom = {{{}}}", from(MAX_RESOURCES_FROM)));
    for (keys, expected) in [
        ("sources = \"cdh=unix:/a\"".to_owned(), "sources: expected array, found string"),
        (sources(MAX_RESOURCE_SOURCES + 1), "sources: there are at most 8 sources"),
        (
            "sources = [\"offline=/a\", \"offline=/a\"]".to_owned(),
            "sources, item 2: stands in the list already",
        ),
        (
            "sources = [\"kbs=http://kbs.corp\"]".to_owned(),
            "sources, item 1: a key broker is asked at \"https://HOST\" or \"https://HOST:PORT\", \
            with a path where it lives below one, without \"/kbs/v0\"; \"http://\" needs a \
            loopback address or \"localhost\"",
        ),
        (
            "kbs-ca-certs = \"none\"".to_owned(),
            "kbs-ca-certs: has no PEM certificate, so that no key broker would be trusted",
        ),
        (
            "kbs-ca-certs = '-----BEGIN CERTIFICATE-----'".to_owned(),
            "kbs-ca-certs: block 1 is incomplete: each \"-----BEGIN CERTIFICATE-----\" needs \
            its \"-----END CERTIFICATE-----\"",
        ),
        (
            "kbs-token-file = \"token\"".to_owned(),
            "kbs-token-file: a path begins with \"/\" and has no control characters",
        ),
        (
            "kbs-attester = \"snp\"".to_owned(),
            "kbs-attester: an attester is the attestation agent on its socket, \
            \"aa=unix:/PATH\", or \"sample\", which is for tests",
        ),
        (
            "kbs-attester = \"aa=/run/aa.sock\"".to_owned(),
            "kbs-attester: an attester is the attestation agent on its socket, \
            \"aa=unix:/PATH\", or \"sample\", which is for tests",
        ),
        ("kbs = \"https://kbs.corp\"".to_owned(), "kbs: unknown key"),
        (
            "unwrap = [\"kbs=https://kbs.corp\"]".to_owned(),
            "unwrap, item 1: keys are unwrapped by a data hub only, \"cdh=unix:/PATH\"",
        ),
        (
            "unwrap = [\"cdh=unix:/a\", \"cdh=unix:///a\"]".to_owned(),
            "unwrap, item 2: stands in the list already",
        ),
        (
            "unwrap-always = true".to_owned(),
            "unwrap-always: needs \"unwrap\", which names the data hub",
        ),
        (
            "from = { \"a/b\" = \"offline=/a\" }".to_owned(),
            "from.\"a/b\": a resource has three segments, as in \
            \"kbs:///repository/type/tag\", and this URI has 2",
        ),
        (
            "from = { \"a/b/c\" = \"/a\" }".to_owned(),
            "from.\"a/b/c\": a source is one of \"cdh=unix:/PATH\", \
            \"kbs=https://HOST\" and \"offline=/PATH\"",
        ),
        (format!("from = {{{}}}", from(MAX_RESOURCES_FROM + 1)), "from: has at most 64 resources"),
        ("Sources = []".to_owned(), "Sources: unknown key; did you mean \"sources\"?"),
    ] {
        let shown = problems(OWNER, &format!("[resources]\n{keys}"));
        assert_eq!(shown, format!("line 2: resources.{expected}"), "{keys}");
    }
}

#[test]
fn broker_without_proof_and_proof_without_broker_are_said() {
    let no_broker = "has no effect: no source is a key broker, \"kbs=https://HOST\"";
    for (keys, expected) in [
        (
            "sources = [\"kbs=https://kbs.corp\"]",
            vec![
                "line 1: resources: has a key broker, but neither \"kbs-token-file\" \
            nor \"kbs-attester\": it gives nothing to a guest that proves nothing"
                    .to_owned(),
            ],
        ),
        (
            "sources = [\"offline=/a\"]\nkbs-token-file = \"/a\"\nkbs-attester = \"sample\"",
            vec![
                format!("line 3: resources.kbs-token-file: {no_broker}"),
                format!("line 4: resources.kbs-attester: {no_broker}"),
            ],
        ),
        ("sources = [\"kbs=https://kbs.corp\"]\nkbs-attester = \"aa=unix:/a\"", vec![]),
        (
            "sources = [\"kbs=https://kbs.corp\"]\nkbs-attester = \"sample\"",
            vec![
                "line 3: resources.kbs-attester: proves nothing: it is for tests, and for brokers \
                that are told to believe it; name the attestation agent, \"aa=unix:/PATH\""
                    .to_owned(),
            ],
        ),
    ] {
        assert_eq!(checked(OWNER, &format!("[resources]\n{keys}")).1, expected, "{keys}");
    }
}

#[test]
fn whether_pulls_are_recorded_is_the_owners_to_say() {
    for (value, expected) in [
        ("required", EventLog::Required),
        ("if-there", EventLog::IfThere),
        ("never", EventLog::Never),
    ] {
        let text = format!("event-log = \"{value}\"\n");
        let (document, warnings) = checked(OWNER, &text);
        assert_eq!((document.event_log, warnings), (Some(expected), vec![]));
        assert!(document.redacted().starts_with(&text));
        assert_eq!(
            problems(HOST, &text),
            "line 1: event-log: belongs in the measured document, imagepuller.toml in the initdata: \
            the host does not choose what is recorded of the guest"
        );
    }
    let rule = "line 1: event-log: is \"required\", \"if-there\" or \"never\"";
    assert_eq!(problems(OWNER, "event-log = \"Required\""), rule);
    let rule = "line 1: event-log: expected string, found boolean";
    assert_eq!(problems(OWNER, "event-log = true"), rule);
}

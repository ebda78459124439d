//! Each source as it should be: the fixtures speak the documented protocols with code of their own.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use crate::support;

use confidential_fixtures::{DataHub, Kbs, Policy, Vault};
use puller_config::{ResourceSource, ResourceUri, Resources, Roots};
use support::{PATIENT, ask, assert_clean, client, new_client, resources, run, shown, uri, wait};
use test_http::pki::Authority;

const SECRET: &str = "hunter2 and more";

fn vault() -> Vault {
    Vault::new()
        .with("repo/type/tag", SECRET)
        .with("repo/type/other", "hunter2 too")
        .with("repo/type/empty", "")
        .with("repo/type/large", vec![7; 1 << 20])
        .with("repo/type/huge", vec![7; (1 << 20) + 1])
}

fn kbs(policy: Policy) -> (Kbs, String) {
    let kbs = Kbs::start(vault(), policy, None).unwrap();
    let source = format!("kbs={}", kbs.base());
    (kbs, source)
}

fn targets(kbs: &Kbs) -> Vec<String> {
    let target = |asked: &test_http::Request| asked.target.clone();
    kbs.requests().iter().map(target).collect()
}

const AUTH: &str = "/kbs/v0/auth";
const ATTEST: &str = "/kbs/v0/attest";
const TAG: &str = "/kbs/v0/resource/repo/type/tag";

/// Every kind of source gives the same bytes, and has the same answers to names that are not there
/// and to what is too large.
#[test]
fn every_source_gives_the_resource() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("resources.json");
    std::fs::write(&file, vault().offline_file()).unwrap();
    let hub = DataHub::start(&dir.path().join("cdh.sock"), vault()).unwrap();
    let (_kbs, broker) = kbs(Policy::default());
    for source in
        [format!("file={}", file.display()), format!("cdh=unix:{}", hub.socket().display()), broker]
    {
        let client = client(&[&source], PATIENT);
        assert_eq!(ask(&client).unwrap(), SECRET.as_bytes(), "{source}");
        let large = run(client.resource(&uri("repo/type/large"))).unwrap();
        assert_eq!(large, vec![7; 1 << 20], "{source}");
        for (name, expected) in [
            (
                "repo/type/absent",
                ["does not have it", "gave nothing usable", "did not get the resource"],
            ),
            ("repo/type/empty", ["is empty, which no secret is"; 3]),
            ("repo/type/huge", ["more than 1048576 bytes"; 3]),
        ] {
            let error = run(client.resource(&uri(name))).unwrap_err();
            assert!(expected.iter().any(|words| error.contains(words)), "{source} {name}: {error}");
            assert!(error.contains(&source) && error.contains(name), "{source} {name}: {error}");
        }
    }
    let expected = ["kbs:///repo/type/tag", "kbs:///repo/type/large"];
    assert_eq!(hub.asked()[..2], expected);
}

#[test]
fn one_session_serves_many_resources() {
    for hash in [None, Some("sha256"), Some("sha384"), Some("sha512")] {
        let policy = Policy { hash, ..Policy::default() };
        let (kbs, source) = kbs(policy);
        let client = client(&[&source], PATIENT);
        for _ in 0..3 {
            assert_eq!(ask(&client).unwrap(), SECRET.as_bytes());
        }
        assert_eq!(targets(&kbs), [AUTH, ATTEST, TAG, TAG, TAG], "{hash:?}");
        let asked = kbs.requests();
        assert!(asked[0].header("cookie").is_none());
        let cookie = asked[1].header("cookie").unwrap();
        assert!(cookie.starts_with("kbs-session-id="), "{cookie}");
        assert_eq!(asked[4].header("cookie"), Some(cookie));
        assert!(asked.iter().all(|asked| asked.header("authorization").is_none()));
        assert_clean(&format!("{client:?}"));
    }
}

#[test]
fn session_that_is_over_is_renewed_once() {
    let policy = Policy { uses: Some(1), ..Policy::default() };
    let (kbs, source) = kbs(policy);
    let client = client(&[&source], PATIENT);
    ask(&client).unwrap();
    ask(&client).unwrap();
    let expected = [AUTH, ATTEST, TAG, TAG, AUTH, ATTEST, TAG];
    assert_eq!(targets(&kbs), expected);

    let never = Policy { uses: Some(0), ..Policy::default() };
    let (kbs, source) = self::kbs(never);
    let error = ask(&self::client(&[&source], PATIENT)).unwrap_err();
    assert!(error.contains("gave nothing usable"), "{error}");
    assert_eq!(targets(&kbs), [AUTH, ATTEST, TAG, AUTH, ATTEST, TAG]);
}

/// Two first requests at once make one hand-shake.
#[test]
fn requests_at_the_same_time_share_a_session() {
    let (kbs, source) = kbs(Policy::default());
    let client = client(&[&source], PATIENT);
    let (first, second) = (uri("repo/type/tag"), uri("repo/type/other"));
    let both = run(async {
        let (first, second) = tokio::join!(client.resource(&first), client.resource(&second));
        let (first, second) = (first?, second?);
        Ok([first.as_slice(), second.as_slice()].concat().into())
    });
    assert_eq!(both.unwrap(), b"hunter2 and morehunter2 too");
    let hand_shakes = targets(&kbs).iter().filter(|target| *target == AUTH).count();
    assert_eq!(hand_shakes, 1);
}

/// Whoever provokes errors of pulls learns nothing about which resources there are.
#[test]
fn denied_and_missing_resources_look_alike_and_cost_one_attestation() {
    let policy = Policy { refused: vec!["repo/type/tag".to_owned()], ..Policy::default() };
    let (kbs, source) = kbs(policy);
    let client = client(&[&source], PATIENT);
    let denied = ask(&client).unwrap_err();
    let missing = run(client.resource(&uri("repo/type/absent"))).unwrap_err();
    assert_eq!(denied.replace("type/tag", "type/absent"), missing);
    let absent = "/kbs/v0/resource/repo/type/absent";
    assert_eq!(targets(&kbs), [AUTH, ATTEST, TAG, absent]);
}

#[test]
fn plugins_are_asked_where_they_can_be() {
    let (kbs, source) = kbs(Policy::default());
    let plugin = ResourceUri::parse("kbs+nebula-ca:///credential?name=a%20b").unwrap();
    let error = run(client(&[&source], PATIENT).resource(&plugin)).unwrap_err();
    assert!(error.contains("gave nothing usable"), "{error}");
    let expected = "/kbs/v0/nebula-ca/credential?name=a%20b";
    assert_eq!(targets(&kbs).last().unwrap(), expected);

    let dir = tempfile::tempdir().unwrap();
    let hub = DataHub::start(&dir.path().join("cdh.sock"), vault()).unwrap();
    let source = format!("cdh=unix:{}", hub.socket().display());
    run(client(&[&source], PATIENT).resource(&plugin)).unwrap_err();
    assert_eq!(hub.asked(), [plugin.to_string()]);

    let error = run(client(&["file=/nonexistent"], PATIENT).resource(&plugin)).unwrap_err();
    assert!(error.contains("keeps only what kbs:///repository/type/tag names"), "{error}");
}

#[test]
fn token_is_used_instead_of_a_session() {
    let (kbs, source) = kbs(Policy::default());
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(&file, kbs.token_file().unwrap()).unwrap();
    let resources =
        Resources { kbs_token_file: Some(file.path().to_owned()), ..resources(&[&source]) };
    let client = new_client(&resources, PATIENT).unwrap();
    assert_eq!(ask(&client).unwrap(), SECRET.as_bytes());
    assert_eq!(targets(&kbs), [TAG]);
    let asked = kbs.requests();
    assert!(asked[0].header("authorization").unwrap().starts_with("Bearer "));
    assert!(asked[0].header("cookie").is_none());

    // A token that is not this broker's, and one with another key.
    let (other, _) = self::kbs(Policy::default());
    std::fs::write(&file, other.token_file().unwrap()).unwrap();
    let error = ask(&client).unwrap_err();
    assert!(error.contains("gave nothing usable"), "{error}");
    let read = |kbs: &Kbs| -> serde_json::Value {
        serde_json::from_str(&kbs.token_file().unwrap()).unwrap()
    };
    let mut mixed = read(&kbs);
    mixed["tee_keypair"] = read(&kbs)["tee_keypair"].take();
    std::fs::write(&file, mixed.to_string()).unwrap();
    let error = ask(&client).unwrap_err();
    assert!(error.contains("the guest's key does not open"), "{error}");
    for text in ["hunter2", "{\"token\": \"hunter2\"}"] {
        std::fs::write(&file, text).unwrap();
        let error = ask(&client).unwrap_err();
        assert!(
            error.contains("\"kbs-token-file\", and that file is not as it has to be"),
            "{error}"
        );
    }
    drop(file);
    let error = ask(&client).unwrap_err();
    assert!(error.contains("that file cannot be read: entity not found"), "{error}");
}

#[test]
fn broker_needs_some_proof() {
    let (kbs, source) = kbs(Policy::default());
    let resources = Resources { kbs_attester: None, ..resources(&[&source]) };
    let error = ask(&new_client(&resources, PATIENT).unwrap()).unwrap_err();
    assert!(error.contains("set \"kbs-token-file\" or \"kbs-attester\""), "{error}");
    assert!(kbs.requests().is_empty());
}

#[test]
fn broker_is_asked_over_verified_tls() {
    let authority = Authority::new("The owner's").unwrap();
    let other = Authority::new("Somebody else's").unwrap();
    let kbs = Kbs::start(vault(), Policy::default(), Some((&authority, "localhost"))).unwrap();
    let source = format!("kbs=https://localhost:{}", kbs.port());
    let by_number = format!("kbs=https://127.0.0.1:{}", kbs.port());
    let with = |source: &str, authority: Option<&Authority>| {
        let resources = Resources {
            kbs_ca_certs: authority.map(|authority| Roots::parse(authority.certificate()).unwrap()),
            ..resources(&[source])
        };
        ask(&new_client(&resources, PATIENT).unwrap())
    };
    assert_eq!(with(&source, Some(&authority)).unwrap(), SECRET.as_bytes());
    let asked = kbs.requests().len();
    for (source, authority, expected) in [
        (
            &source,
            Some(&other),
            "issued by an authority that the guest does not know; only \"kbs-ca-certs\"",
        ),
        (&source, None, "does not know; the web's authorities are trusted"),
        (&by_number, Some(&authority), "it is for another name"),
    ] {
        let error = with(source, authority).unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
    assert_eq!(kbs.requests().len(), asked);
    let nobody = Resources { kbs_ca_certs: Some(Roots::default()), ..resources(&[&source]) };
    let error = new_client(&nobody, PATIENT).unwrap_err().to_string();
    assert!(error.contains("no server is trusted"), "{error}");
}

#[test]
fn sources_are_asked_in_order_until_one_has_it() {
    let dir = tempfile::tempdir().unwrap();
    let hub = DataHub::start(&dir.path().join("cdh.sock"), Vault::new()).unwrap();
    let (kbs, broker) = kbs(Policy::default());
    let socket = format!("cdh=unix:{}", hub.socket().display());
    let found = ask(&client(&["file=/nonexistent/file", &socket, &broker], PATIENT)).unwrap();
    assert_eq!(found, SECRET.as_bytes());
    assert_eq!((hub.asked().len(), kbs.requests().len()), (1, 3));
    ask(&client(&[&broker, &socket], PATIENT)).unwrap();
    assert_eq!((hub.asked().len(), kbs.requests().len()), (1, 6));

    let error = ask(&client(&["file=/nonexistent/file", &socket], PATIENT)).unwrap_err();
    assert_eq!(
        error,
        format!(
            "get kbs:///repo/type/tag: file=/nonexistent/file cannot be read: entity not found; \
            {socket} answered with ttrpc status 13: the data hub did not get the resource; its own \
            log says why"
        )
    );
    let error = ask(&client(&[], PATIENT)).unwrap_err();
    assert!(error.contains("there is no CDH to ask"), "{error}");
}

/// Also where secrets are asked for at the same time; and `from` says what may come from elsewhere,
/// even from a source that is not asked otherwise.
#[test]
fn all_secrets_of_a_pull_come_from_one_source() {
    let policy = Policy { refused: vec!["repo/type/other".to_owned()], ..Policy::default() };
    let (first, broker) = kbs(policy);
    let dir = tempfile::tempdir().unwrap();
    let hub = DataHub::start(&dir.path().join("cdh.sock"), vault()).unwrap();
    let hub_source = format!("cdh=unix:{}", hub.socket().display());
    let (tag, other) = (uri("repo/type/tag"), uri("repo/type/other"));

    let both = client(&[&broker, &hub_source], PATIENT);
    let (given, refused) = wait(async { tokio::join!(both.resource(&tag), both.resource(&other)) });
    assert_eq!(given.unwrap().as_slice(), SECRET.as_bytes());
    let refused = shown(&refused.unwrap_err());
    assert!(refused.contains("it gave the pull's first secret"), "{refused}");
    assert!(hub.asked().is_empty());
    // The other way round, the first broker is out.
    let both = client(&[&broker, &hub_source], PATIENT);
    let asked = first.requests().len();
    for uri in [&other, &tag] {
        run(both.resource(uri)).unwrap();
    }
    assert_eq!(hub.asked(), [other.to_string(), tag.to_string()]);
    let later = &targets(&first)[asked..];
    assert_eq!(later, [AUTH, ATTEST, "/kbs/v0/resource/repo/type/other"]);

    let resources = Resources {
        from: vec![(other.clone(), ResourceSource::parse(&hub_source).unwrap())],
        ..resources(&[&broker])
    };
    let client = new_client(&resources, PATIENT).unwrap();
    for (uri, is_of_hub) in [(&other, true), (&tag, false), (&other, true)] {
        let asked = hub.asked().len();
        run(client.resource(uri)).unwrap();
        assert_eq!(hub.asked().len() > asked, is_of_hub, "{uri}");
    }
    drop(hub);
    let error = run(client.resource(&other)).unwrap_err();
    assert!(error.contains("[resources.from] of the measured document has no other"), "{error}");
}

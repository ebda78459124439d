//! Each source as it should be: the fixtures speak the documented protocols with code of their own.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use crate::support;

use cdh_client::resource;
use confidential_fixtures::{DataHub, Vault};
use registry_config::ResourceUri;
use support::{PATIENT, TAG, ask, run, uri};

const SECRET: &str = "hunter2 and more";

fn vault() -> Vault {
    Vault::new()
        .with(TAG, SECRET)
        .with("repo/type/empty", "")
        .with("repo/type/large", vec![7; 1 << 20])
        .with("repo/type/huge", vec![7; (1 << 20) + 1])
}

/// Both kinds of source give the same bytes, and have the same answers to names that are not there
/// and to what is too large.
#[test]
fn every_source_gives_the_resource() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("resources.json");
    std::fs::write(&file, vault().offline_file()).unwrap();
    let hub = DataHub::start(&dir.path().join("cdh.sock"), vault()).unwrap();
    for source in
        [format!("file={}", file.display()), format!("cdh=unix:{}", hub.socket().display())]
    {
        assert_eq!(ask(&source, &uri(TAG), PATIENT).unwrap(), SECRET.as_bytes(), "{source}");
        let large = ask(&source, &uri("repo/type/large"), PATIENT).unwrap();
        assert_eq!(large, vec![7; 1 << 20], "{source}");
        for (name, expected) in [
            ("repo/type/absent", ["does not have it", "did not get the resource"]),
            ("repo/type/empty", ["is empty, which no secret is"; 2]),
            ("repo/type/huge", ["more than 1048576 bytes"; 2]),
        ] {
            let error = ask(&source, &uri(name), PATIENT).unwrap_err();
            assert!(expected.iter().any(|words| error.contains(words)), "{source} {name}: {error}");
            assert!(error.contains(&source) && error.contains(name), "{source} {name}: {error}");
        }
    }
    let expected = ["kbs:///repo/type/tag", "kbs:///repo/type/large"];
    assert_eq!(hub.asked()[..2], expected);
}

#[test]
fn plugins_are_asked_where_they_can_be() {
    let dir = tempfile::tempdir().unwrap();
    let plugin = ResourceUri::parse("kbs+nebula-ca:///credential?name=a%20b").unwrap();
    let hub = DataHub::start(&dir.path().join("cdh.sock"), vault()).unwrap();
    ask(&format!("cdh=unix:{}", hub.socket().display()), &plugin, PATIENT).unwrap_err();
    assert_eq!(hub.asked(), [plugin.to_string()]);

    let error = ask("file=/nonexistent", &plugin, PATIENT).unwrap_err();
    assert!(error.contains("keeps only what kbs:///repository/type/tag names"), "{error}");
}

#[test]
fn an_error_names_the_source_or_says_that_there_is_none() {
    let error = ask("file=/nonexistent/file", &uri(TAG), PATIENT).unwrap_err();
    let expected = "get kbs:///repo/type/tag: file=/nonexistent/file cannot be read: entity not \
        found";
    assert_eq!(error, expected);
    let error = run(resource(None, &uri(TAG), PATIENT)).unwrap_err();
    assert!(error.contains("there is no CDH to ask"), "{error}");
}

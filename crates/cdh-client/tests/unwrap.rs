//! Keys that a data hub unwraps: what it is asked, to the byte, and what is made of its answers.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use crate::support;

use std::path::Path;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use confidential_fixtures::{DataHub, Vault, recorded, recorded_bytes, recorded_call};
use registry_config::ResourceSource;
use serde_json::Value;
use support::{PATIENT, answering, run};

const PACKET: &str = "org.opencontainers.image.enc.keys.provider.attestation-agent";

/// The packet of a recorded layer.
fn packet(name: &str) -> Vec<u8> {
    let descriptor = recorded(&format!("keyprovider/{name}/descriptor.json")).unwrap();
    let descriptor: Value = serde_json::from_str(&descriptor).unwrap();
    let text = descriptor["annotations"][PACKET].as_str().unwrap();
    STANDARD.decode(text).unwrap()
}

fn unwrap(socket: &Path, packet: &[u8], limit: Duration) -> Result<Vec<u8>, String> {
    let source = ResourceSource::DataHub(socket.to_owned());
    run(cdh_client::unwrap_packet(Some(&source), packet, limit))
}

#[test]
fn the_hub_is_asked_as_coco_does_it() {
    let dir = tempfile::tempdir().unwrap();
    let socket = dir.path().join("cdh.sock");
    let [request, answer] = recorded_call("cdh-unwrapkey-ok").unwrap();
    let asked = answering(&socket, Some(answer), false);
    // The recorded client waits as long.
    let options = unwrap(&socket, &packet("gzip"), Duration::from_secs(50)).unwrap();
    assert_eq!(asked.join().unwrap(), request);
    let options: Value = serde_json::from_slice(&options).unwrap();
    let digest = "sha256:b27a7e0436a329f867c53ea41940c4bd2b5a8d41fc5ad6c4ad7f6a1e0c2c5b13";
    assert_eq!(options["digest"], digest);
}

#[test]
fn a_key_that_is_not_there_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let [absent, empty, full] = ["absent", "empty", "full"].map(|name| dir.path().join(name));
    let kek = recorded_bytes("keyprovider/kek.bin").unwrap();
    let vault = Vault::new().with("default/image-kek/k1", kek);
    let _hubs = [(&empty, Vault::new()), (&full, vault)]
        .map(|(socket, vault)| DataHub::start(socket, vault).unwrap());
    assert!(unwrap(&full, &packet("tar"), PATIENT).is_ok());
    for (socket, expected) in [
        (&absent, "absent cannot be asked: nobody listens there (entity not found)"),
        (&empty, "ttrpc status 13: the data hub did not unwrap the key; its own log says why"),
    ] {
        let error = unwrap(socket, &packet("tar"), PATIENT).unwrap_err();
        assert!(error.starts_with("have a layer's key unwrapped: cdh=unix:"), "{error}");
        assert!(error.contains(expected), "{error}");
    }
    let file = ResourceSource::Files("/nonexistent".into());
    for source in [None, Some(&file)] {
        let error = run(cdh_client::unwrap_packet(source, &packet("tar"), PATIENT)).unwrap_err();
        assert!(error.contains("there is no CDH to ask"), "{error}");
    }
}

#[test]
fn an_answer_is_options_or_nothing() {
    let with = |numbers: &str| format!("{{\"keyunwrapresults\":{{\"optsdata\":{numbers}}}}}");
    const NONE: &str = "holds no options of a layer";
    for (text, expected) in [
        (with("[104,105]"), Ok("hi")),
        (with("[]"), Ok("")),
        (with("[256]"), Err(NONE)),
        (with("[-1]"), Err(NONE)),
        (with("[1.5]"), Err(NONE)),
        (with("[1e1]"), Err(NONE)),
        (with("[\"hunter2\"]"), Err(NONE)),
        (with("[[1]]"), Err(NONE)),
        (with("\"hunter2\""), Err(NONE)),
        (with("null"), Err(NONE)),
        ("{\"keyunwrapresults\":{}}".to_owned(), Err(NONE)),
        ("hunter2".to_owned(), Err(NONE)),
        (String::new(), Err(NONE)),
        (with(&format!("[{}1]", "1,".repeat(40_000))), Err("more than 66560 bytes")),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let socket = dir.path().join("cdh.sock");
        let message = field(&field(text.as_bytes(), 1), 2);
        let mut answer = u32::try_from(message.len()).unwrap().to_be_bytes().to_vec();
        answer.extend([0, 0, 0, 1, 2, 0]);
        answer.extend(message);
        let asked = answering(&socket, Some(answer), false);
        let found = unwrap(&socket, b"{}", PATIENT);
        asked.join().unwrap();
        match (found, expected) {
            (Err(error), Err(part)) => assert!(error.contains(part), "{text:.80}: {error}"),
            (found, expected) => {
                assert_eq!(found, expected.map(|text| text.into()).map_err(str::to_owned));
            }
        }
    }
}

/// A field of bytes in a message.
fn field(content: &[u8], number: u8) -> Vec<u8> {
    let mut message = vec![number << 3 | 2];
    let mut length = content.len();
    while length >= 0x80 {
        message.push(length as u8 | 0x80);
        length >>= 7;
    }
    message.push(length as u8);
    message.extend_from_slice(content);
    message
}

//! Proofs from the attestation agent: what it is asked, what the broker gets, and where a token
//! stands in.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use crate::support;

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use confidential_fixtures::{
    AttestationAgent as StandIn, EventLog, Exchange, Kbs, Policy, Proofs, Vault, recorded,
    recorded_call,
};
use kbs_client::{AttestationAgent, Client, Sources};
use puller_config::{AttesterKind, ResourceSource, Resources};
use support::{PATIENT, answering, ask, assert_clean, broker, wait};
use test_http::Server;

const SECRET: &str = "hunter2 and more";
const INITDATA: &str = "version = \"0.1.0\"\n";
const HAND_SHAKE: [&str; 3] = ["GetTeeType", "GetAdditionalEvidence", "GetEvidence"];

fn kbs(policy: Policy) -> Kbs {
    let vault = Vault::new().with("repo/type/tag", SECRET);
    Kbs::start(vault, policy, None).unwrap()
}

/// An attestation agent on a socket.
fn stand_in(socket: &Path, proofs: Proofs) -> StandIn {
    StandIn::proving(socket, EventLog::Off, proofs).unwrap()
}

/// A guest with an attestation agent, and perhaps initdata.
fn guest(source: &str, attester: &str, initdata: Option<&Path>) -> Client {
    let resources = Resources {
        sources: vec![ResourceSource::parse(source).unwrap()],
        kbs_attester: Some(AttesterKind::parse(attester).unwrap()),
        ..Resources::default()
    };
    Client::new(Arc::new(Sources::new(&resources, initdata, PATIENT).unwrap()))
}

#[test]
fn evidence_of_the_agent_is_good_for_a_session() {
    let dir = tempfile::tempdir().unwrap();
    for (number, (has_device, hash)) in
        [(false, None), (true, None), (true, Some("sha256")), (true, Some("sha512"))]
            .into_iter()
            .enumerate()
    {
        let proofs = Proofs { has_device, ..Proofs::default() };
        let socket = dir.path().join(number.to_string());
        let agent = stand_in(&socket, proofs);
        let kbs = kbs(Policy { uses: Some(3), hash, ..Policy::default() });
        let client = guest(&format!("kbs={}", kbs.base()), &agent.attester(), None);
        for _ in 0..3 {
            assert_eq!(ask(&client).unwrap(), SECRET.as_bytes());
        }
        assert_eq!(agent.asked(), HAND_SHAKE);
        // The session is over, and another one begins.
        assert_eq!(ask(&client).unwrap(), SECRET.as_bytes());
        assert_eq!(agent.asked(), [HAND_SHAKE, HAND_SHAKE].concat());
    }
}

/// A policy on initdata once refused every guest that asked the broker itself.
#[test]
fn initdata_goes_with_the_evidence() {
    let dir = tempfile::tempdir().unwrap();
    let agent = stand_in(&dir.path().join("aa"), Proofs::default());
    let kbs = kbs(Policy { initdata: Some(INITDATA.to_owned()), ..Policy::default() });
    let source = format!("kbs={}", kbs.base());
    let file = |name: &str, content: &[u8]| -> PathBuf {
        let path = dir.path().join(name);
        std::fs::write(&path, content).unwrap();
        path
    };
    for (initdata, expected) in [
        (Some(file("right", INITDATA.as_bytes())), Ok(SECRET.as_bytes())),
        (None, Err("gave nothing usable")),
        (Some(dir.path().join("absent")), Err("gave nothing usable")),
        (Some(file("other", b"hunter2")), Err("gave nothing usable")),
        (Some(file("binary", b"\xff")), Err("it is no UTF-8 text")),
        (Some(file("long", &[b' '; (1 << 20) + 1])), Err("more than 1048576 bytes")),
        (Some(dir.path().to_owned()), Err("it is no regular file")),
    ] {
        let shown = format!("{initdata:?}");
        match (ask(&guest(&source, &agent.attester(), initdata.as_deref())), expected) {
            (Err(error), Err(part)) => assert!(error.contains(part), "{shown}: {error}"),
            (found, expected) => assert_eq!(found.as_deref(), Ok(expected.unwrap()), "{shown}"),
        }
    }
}

/// Where the broker attests nobody, and where evidence wants more than a hash.
#[test]
fn the_agents_token_stands_in_where_evidence_cannot() {
    let dir = tempfile::tempdir().unwrap();
    for (tee, wants_token, path) in [
        ("sample", true, &["GetTeeType", "GetToken"][..]),
        ("se", false, &["GetTeeType", "GetToken"]),
        ("sample", false, &HAND_SHAKE),
    ] {
        let kbs = kbs(Policy { wants_token, ..Policy::default() });
        let proofs = Proofs { tee, token: Some(kbs.token_file().unwrap()), ..Proofs::default() };
        let socket = dir.path().join(format!("{tee}{wants_token}"));
        let agent = stand_in(&socket, proofs);
        let client = guest(&format!("kbs={}", kbs.base()), &agent.attester(), None);
        for _ in 0..2 {
            assert_eq!(ask(&client).unwrap(), SECRET.as_bytes());
        }
        assert_eq!(agent.asked(), path, "{tee} {wants_token}");
    }
    // With a token and an answer of the real programs.
    let server = Server::start(None, |asked| match asked.target.as_str() {
        "/kbs/v0/auth" => Exchange::read("path-unknown").unwrap().answer,
        _ => Exchange::read("resource-ok-bearer-p521").unwrap().answer,
    });
    let proofs = Proofs { token: Some(recorded("tokens/p521.json").unwrap()), ..Proofs::default() };
    let agent = stand_in(&dir.path().join("recorded"), proofs);
    let found = ask(&guest(&broker(&server), &agent.attester(), None));
    assert_eq!(found.unwrap(), b"correct horse battery staple");
}

#[test]
fn an_agent_without_a_proof_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let wants_token = kbs(Policy { wants_token: true, ..Policy::default() });
    let source = format!("kbs={}", wants_token.base());
    let agent = stand_in(&dir.path().join("aa"), Proofs::default());
    let garbage = Proofs { token: Some("hunter2".to_owned()), ..Proofs::default() };
    let garbage = stand_in(&dir.path().join("garbage"), garbage);
    let bad_name = Proofs { tee: "hunter2\u{1b}[31m", ..Proofs::default() };
    let bad_name = stand_in(&dir.path().join("bad-name"), bad_name);
    let absent = format!("aa=unix:{}", dir.path().join("absent").display());
    for (attester, expected) in [
        (absent, "cannot be asked: nobody listens there (entity not found)"),
        (agent.attester(), "ttrpc status 13: the attestation agent's own log says why"),
        (garbage.attester(), "is not as it has to be: it is no JSON object with \"token\""),
        (bad_name.attester(), "something that is no name of a TEE"),
    ] {
        let error = ask(&guest(&source, &attester, None)).unwrap_err();
        let socket = attester.trim_start_matches("aa=unix:");
        let whole = format!("wants a proof, and the attestation agent at {socket} ");
        assert!(error.contains(&whole) && error.contains(expected), "{error}");
        assert_clean(&error);
    }
    // Nothing that an agent says is evidence unless it is JSON.
    let asked = answering(&dir.path().join("no-json"), Some(frame(b"\x0a\x07hunter2")), false);
    let agent = AttestationAgent::new(dir.path().join("no-json"), PATIENT.request);
    let error = wait(agent.evidence(&[0; 48])).unwrap_err().to_string();
    assert!(error.contains("is no evidence, which is JSON"), "{error}");
    assert_clean(&error);
    asked.join().unwrap();
}

/// An answer with this message.
fn frame(message: &[u8]) -> Vec<u8> {
    let payload = [&[0x0a, 0, 0x12, message.len() as u8], message].concat();
    [&[0, 0, 0, payload.len() as u8, 0, 0, 0, 1, 2, 0], &payload[..]].concat()
}

/// To the byte, as the recorded client does it, which waits five seconds too.
#[test]
fn an_agent_is_asked_as_coco_does_it() {
    let dir = tempfile::tempdir().unwrap();
    let data: Vec<u8> = (0..64).collect();
    let evidence = |data: &[u8]| {
        let data = STANDARD.encode(data);
        format!("{{\"report_data\":\"{data}\",\"svn\":\"1\"}}")
    };
    for (name, expected) in [
        ("aa-get-tee", "sample".to_owned()),
        ("aa-get-evidence", evidence(&data[..16])),
        ("aa-get-evidence-64", evidence(&data)),
        ("made-aa-get-additional-evidence", String::new()),
        ("aa-get-token", "{\"token\":\"ey".to_owned()),
    ] {
        let [request, answer] = recorded_call(name).unwrap();
        let socket = dir.path().join(name);
        let asked = answering(&socket, Some(answer), false);
        let agent = AttestationAgent::new(socket, Duration::from_secs(5));
        let found = wait(async {
            match name {
                "aa-get-tee" => agent.tee().await,
                "aa-get-evidence" => agent.evidence(&data[..16]).await.map(|json| json.to_string()),
                "aa-get-evidence-64" => agent.evidence(&data).await.map(|json| json.to_string()),
                "aa-get-token" => {
                    let token = agent.token().await;
                    token.map(|token| String::from_utf8_lossy(&token[..12]).into_owned())
                }
                _ => agent.additional_evidence(&data[..16]).await,
            }
        });
        assert_eq!(found.unwrap(), expected, "{name}");
        assert_eq!(asked.join().unwrap(), request, "{name}");
    }
}

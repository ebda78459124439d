//! The attestation agent: what it is asked, to the byte, and what is made of its answers.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use crate::support;

use std::os::unix::net::UnixListener;
use std::time::Duration;

use cdh_client::{AttestationAgent, Extended};
use confidential_fixtures::recorded_call;
use support::{answering, assert_clean, wait};

/// What the recorded agent said to the recorded client.
const RECORDED: &str = "aa-extend-runtime-measurement";

/// Makes the recorded entry at an agent that answers so; what it was asked, and the result.
fn extend(answer: &[u8]) -> (Vec<u8>, Result<Extended, String>) {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("aa.sock");
    let asked = answering(&socket, Some(answer.to_vec()), false);
    // The recorded client waits as long.
    let agent = AttestationAgent::new(socket, Duration::from_secs(5));
    let result = wait(agent.extend("d", "o", "c"));
    let result = result.map_err(|fault| format!("{fault}{fault:?}"));
    (asked.join().unwrap(), result)
}

#[test]
fn an_entry_is_asked_for_as_coco_does_it() {
    let [request, answer] = recorded_call(RECORDED).unwrap();
    let (asked, result) = extend(&answer);
    assert_eq!(asked, request);
    let off = "its settings leave the event log off";
    assert_eq!(result, Ok(Extended::NoLog(off)));
}

#[test]
fn an_answer_is_believed_only_where_it_is_one() {
    let frame = |message: &[u8]| {
        let length = u8::try_from(message.len()).unwrap();
        [&[0, 0, 0, length, 0, 0, 0, 1, 2, 0], message].concat()
    };
    // A status with a code and the text "hunter2".
    let refused = |code| frame(&[b"\x0a\x0b\x08", &[code][..], b"\x12\x07hunter2"].concat());
    let recorded = Ok(Extended::Recorded);
    for (answer, expected) in [
        // Success has no payload: 0 is the default of each of its fields.
        (frame(b""), recorded),
        (frame(b"\x0a\x00"), recorded),
        (frame(b"\x12\x02\x08\x00"), recorded),
        (frame(b"\x12\x02\x08\x01"), Ok(Extended::NoLog("this TEE has no register for it"))),
        (refused(12), Ok(Extended::NoLog("it keeps no event log"))),
        (refused(3), Ok(Extended::NoLog("it keeps no event log"))),
        (frame(b"\x12\x02\x08\x03"), Err("does not say whether the entry is in the log")),
        (frame(b"\x12\x01\x08"), Err("is no message of the attestation agent")),
        (frame(b"hunter2"), Err("is no message of ttrpc")),
        (refused(13), Err("ttrpc status 13: the attestation agent's own log says why")),
        (b"hunter2".to_vec(), Err("hung up without a whole answer")),
    ] {
        let (_, result) = extend(&answer);
        match (&result, expected) {
            (Err(error), Err(part)) => {
                assert!(error.contains(part), "{error}");
                assert_clean(error);
            }
            (result, expected) => {
                assert_eq!(result, &expected.map_err(str::to_owned), "{answer:?}");
            }
        }
    }
}

#[test]
fn where_nobody_listens_there_is_no_log() {
    let folder = tempfile::tempdir().unwrap();
    let [absent, dead] = ["absent", "dead"].map(|name| folder.path().join(name));
    drop(UnixListener::bind(&dead).unwrap());
    for socket in [absent, dead] {
        let agent = AttestationAgent::new(socket, Duration::from_secs(60));
        let result = wait(agent.extend("d", "o", "c")).unwrap();
        assert_eq!(result, Extended::NoLog("nobody listens at its socket"));
    }
}

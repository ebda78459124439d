//! A hub's socket: what is this program's stays here, everything else goes on unchanged to another
//! program.

use std::io::{ErrorKind, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};

use futures_util::future::join_all;
use ttrpc::r#async::Client;
use ttrpc::proto::{Codec as _, FLAG_REMOTE_CLOSED, GenMessage, MESSAGE_TYPE_DATA, MessageHeader};
use ttrpc::{Code, Request, Response};

use crate::hub::{Hub, Program, call, failure, request, runtime, status_of};
use crate::support::LIMIT;

/// The most that a frame may hold.
const MAX_PAYLOAD: usize = 4 << 20;

/// The services that stand beside image pulls on a hub's socket, as Kata's agent calls them.
const NEIGHBOURS: [(&str, &str); 4] = [
    ("api.SealedSecretService", "UnsealSecret"),
    ("api.SecureMountService", "SecureMount"),
    ("api.GetResourceService", "GetResource"),
    ("keyprovider.KeyProviderService", "UnWrapKey"),
];

#[test]
fn without_another_program_its_services_are_said_to_be_missing() {
    let program = Program::start(false);
    runtime().block_on(async {
        let client = program.client().await;
        for (service, method) in NEIGHBOURS {
            let status = failure(client.request(request(service, method, b"x")).await);
            assert_eq!(status.code(), Code::UNIMPLEMENTED);
            let expected = format!(
                "{service}/{method} is not available here: start imagepuller with --upstream"
            );
            assert_eq!(status.message, expected);
        }
        // The same connection pulls, or here says what is wrong with the reference.
        let status = failure(client.request(program.pull("no digest")).await);
        assert_eq!(status.code(), Code::INVALID_ARGUMENT);
        assert!(status.message.contains("failed to pull no digest"), "{status}");
    });
}

#[test]
fn only_a_hubs_socket_is_one() {
    let program = Program::start(true);
    runtime().block_on(async {
        let _hub = Hub::start(&program.upstream()).await;
        let client = program.client_at("other.socket").await;
        let (service, method) = NEIGHBOURS[0];
        let status = failure(client.request(request(service, method, b"x")).await);
        assert!(status.message.contains("service does not exist"), "{status}");
    });
}

#[test]
fn calls_go_on_with_all_that_belongs_to_them() {
    let program = Program::start(true);
    runtime().block_on(async {
        let hub = Hub::start(&program.upstream()).await;
        let client = program.client().await;
        for (service, method) in NEIGHBOURS {
            // Not even a message: nobody on the way is to read it.
            for payload in [&b""[..], b"\xff\xff\xff", &vec![0x5a; MAX_PAYLOAD - 1000]] {
                let mut asked = request(service, method, payload);
                asked.timeout_nano = 30_000_000_000;
                asked.metadata =
                    ttrpc::context::to_pb([("key".to_owned(), vec!["value".to_owned()])].into());
                let answer = client.request(asked.clone()).await.unwrap();
                assert_eq!(answer.payload, [b"answer: ", payload].concat());
                assert_eq!(hub.last_request(), asked);
            }
        }
        // Statuses are the other program's own words, with details.
        let asked = request("api.GetResourceService", "Refuse", b"");
        let status = failure(client.request(asked).await);
        assert_eq!(status, status_of(Code::PERMISSION_DENIED));
        assert_eq!(status.details.len(), 1);
        // What it does not know, it says itself.
        let asked = request("api.FutureService", "Do", b"");
        let status = failure(client.request(asked).await);
        let expected = "api.FutureService service does not exist";
        assert!(status.message.contains(expected), "{status}");
        // Pulls do not get there.
        let status = failure(client.request(program.pull("no digest")).await);
        assert!(status.message.contains("failed to pull"), "{status}");
        assert_ne!(hub.last_request().service, "api.ImagePullService");
    });
}

#[test]
fn calls_at_once_do_not_wait_for_each_other() {
    let program = Program::start(true);
    runtime().block_on(async {
        let hub = Hub::start(&program.upstream()).await;
        let client = program.client().await;
        let hanging = tokio::spawn(call(&client, "api.GetResourceService", "Hang", vec![1]));
        hub.wait_for_hanging(1).await;
        let calls = (0..100u8).map(|number| {
            let payload = vec![number; 20_000 * usize::from(number)];
            let (service, method) = NEIGHBOURS[0];
            let answer = call(&client, service, method, payload.clone());
            async move {
                let answer = answer.await.unwrap().payload;
                assert_eq!(answer[8..], payload);
            }
        });
        join_all(calls).await;
        assert!(!hanging.is_finished());
        // A caller that hangs up takes its call with it, and nobody else's.
        let second = program.client().await;
        let other = tokio::spawn(call(&second, "api.GetResourceService", "Hang", vec![2]));
        hub.wait_for_hanging(2).await;
        hanging.abort();
        let _ = hanging.await;
        drop(client);
        hub.wait_for_hanging(1).await;
        assert!(!other.is_finished());
    });
}

#[test]
fn a_program_that_is_gone_is_said_to_be_and_asked_again_later() {
    let program = Program::start(true);
    runtime().block_on(async {
        let client = program.client().await;
        let (service, method) = NEIGHBOURS[2];
        let status = failure(call(&client, service, method, vec![]).await);
        assert_eq!(status.code(), Code::UNAVAILABLE);
        let expected = format!("at {}, cannot be reached", program.upstream().display());
        assert!(status.message.contains(&expected), "{status}");

        let mut hub = Hub::start(&program.upstream()).await;
        call(&client, service, method, vec![]).await.unwrap();
        let hanging = tokio::spawn(call(&client, service, "Hang", vec![]));
        hub.wait_for_hanging(1).await;
        hub.stop().await;
        let status = failure(hanging.await.unwrap());
        assert_eq!(status.code(), Code::UNAVAILABLE);
        assert!(status.message.contains("closed the connection"), "{status}");

        let _hub = Hub::start(&program.upstream()).await;
        call(&client, service, method, vec![]).await.unwrap();
    });
}

/// A frame as it is on the wire.
fn frame(header: MessageHeader, payload: &[u8]) -> Vec<u8> {
    [&Vec::from(header)[..], payload].concat()
}

fn call_frame(stream_id: u32, asked: &Request) -> Vec<u8> {
    let payload = asked.encode().unwrap();
    let length = u32::try_from(payload.len()).unwrap();
    frame(MessageHeader::new_request(stream_id, length), &payload)
}

fn response_frame(stream_id: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap();
    frame(MessageHeader::new_response(stream_id, length), payload)
}

fn read_frame(stream: &mut UnixStream) -> GenMessage {
    let mut header = [0; 10];
    stream.read_exact(&mut header).unwrap();
    let header = MessageHeader::from(header);
    let mut payload = vec![0; usize::try_from(header.length).unwrap()];
    stream.read_exact(&mut payload).unwrap();
    GenMessage { header, payload }
}

fn connect(program: &Program) -> UnixStream {
    let caller = UnixStream::connect(program.hub_socket()).unwrap();
    caller.set_read_timeout(Some(LIMIT)).unwrap();
    caller
}

#[test]
fn frames_are_not_changed_and_answers_only_go_to_who_asked() {
    // A registry that takes connections and says nothing keeps a pull waiting. It listens before
    // the measured document is written, which names it.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let program = Program::start(true);
    let listener = UnixListener::bind(program.upstream()).unwrap();
    let mut caller = connect(&program);
    let image = format!("{}/a@sha256:{}", silent.local_addr().unwrap(), "0".repeat(64));
    caller.write_all(&call_frame(1, &program.pull(&image))).unwrap();

    // A stream of the caller: a call with flags that nobody here knows, more data, and its end.
    let asked = request("api.FutureService", "Stream", b"first");
    let mut call = call_frame(3, &asked);
    call[9] = 0xff;
    let mut data = MessageHeader::new_data(3, 5);
    let mut sent = [call, frame(data, b"again")].concat();
    data.flags = FLAG_REMOTE_CLOSED;
    sent.extend(frame(data, b"close"));
    caller.write_all(&sent).unwrap();
    let (mut hub, _) = listener.accept().unwrap();
    hub.set_read_timeout(Some(LIMIT)).unwrap();
    let mut received = vec![0; sent.len()];
    hub.read_exact(&mut received).unwrap();
    assert!(received == sent, "changed on the way");

    // An answer to the pull, one to nothing, a request, and at last what was asked for, in three
    // frames.
    let forged = Response::default().encode().unwrap();
    let part = frame(
        MessageHeader { type_: MESSAGE_TYPE_DATA, ..MessageHeader::new_response(3, 4) },
        b"part",
    );
    let mut answers = [response_frame(1, &forged), response_frame(5, &forged)].concat();
    answers.extend(call_frame(3, &asked));
    for last in [&part[..], &part, &response_frame(3, b"not a message")] {
        answers.extend(last);
    }
    hub.write_all(&answers).unwrap();
    for expected in [&b"part"[..], b"part", b"not a message"] {
        let answer = read_frame(&mut caller);
        assert_eq!((answer.header.stream_id, &answer.payload[..]), (3, expected));
    }
    // The stream has ended; what still comes for it does not get through.
    hub.write_all(&response_frame(3, &forged)).unwrap();
    caller.write_all(&call_frame(7, &asked)).unwrap();
    read_frame(&mut hub);
    // An answer that is too large for any caller becomes a status.
    let too_long = MessageHeader::new_response(7, u32::try_from(MAX_PAYLOAD).unwrap() + 1);
    hub.write_all(&frame(too_long, &vec![0; MAX_PAYLOAD + 1])).unwrap();
    let answer = read_frame(&mut caller);
    assert_eq!(answer.header.stream_id, 7);
    let status = Response::decode(&answer.payload).unwrap().status.unwrap();
    assert!(status.message.contains("exceed maximum message size"), "{status}");

    drop(caller);
    assert_eq!(hub.read(&mut [0]).unwrap(), 0, "the end of the caller did not get through");
}

#[test]
fn broken_frames_harm_nobody_else() {
    let program = Program::start(true);
    let runtime = runtime();
    let hub = runtime.block_on(Hub::start(&program.upstream()));
    let (service, method) = NEIGHBOURS[0];
    let whole = call_frame(1, &request(service, method, b"payload"));
    let huge = MessageHeader::new_request(9, u32::MAX);
    let cases = [
        whole[..4].to_vec(),
        whole[..whole.len() - 1].to_vec(),
        frame(huge, b"and then nothing"),
        vec![0; 100],
        vec![0xff; 100],
    ];
    for case in cases {
        let mut caller = connect(&program);
        caller.write_all(&case).unwrap();
        caller.shutdown(std::net::Shutdown::Write).unwrap();
        let mut rest = Vec::new();
        match caller.read_to_end(&mut rest) {
            Err(error) if error.kind() != ErrorKind::ConnectionReset => panic!("{error}"),
            _ => {}
        }
    }
    assert_eq!(hub.last_request(), Request::default(), "something got through");

    // What can be answered is, on a connection that stays good.
    let mut caller = connect(&program);
    let too_long = MessageHeader::new_request(9, u32::try_from(MAX_PAYLOAD).unwrap() + 1);
    let mut even = whole.clone();
    even[7] = 2;
    let mut broken = whole.clone();
    broken[10] = 0xff;
    broken[7] = 5;
    let cases = [
        (9, frame(too_long, &vec![7; MAX_PAYLOAD + 1]), "exceed maximum message size"),
        (2, even, "stream id must be odd"),
        (5, broken, ""),
    ];
    for (stream_id, sent, words) in cases {
        caller.write_all(&sent).unwrap();
        let answer = read_frame(&mut caller);
        let status = Response::decode(&answer.payload).unwrap().status.unwrap();
        assert_eq!(answer.header.stream_id, stream_id);
        assert_eq!(status.code(), Code::INVALID_ARGUMENT, "{status}");
        assert!(status.message.contains(words), "{status}");
    }
    caller.write_all(&whole).unwrap();
    let answer = read_frame(&mut caller);
    assert_eq!(Response::decode(&answer.payload).unwrap().payload, b"answer: payload");
}

#[test]
fn a_program_that_takes_nothing_is_given_up() {
    let program = Program::start(true);
    let _deaf = UnixListener::bind(program.upstream()).unwrap();
    runtime().block_on(async {
        let client: Client = program.client().await;
        let (service, method) = NEIGHBOURS[0];
        let status = failure(call(&client, service, method, vec![0; MAX_PAYLOAD - 1000]).await);
        assert_eq!(status.code(), Code::UNAVAILABLE);
        assert!(status.message.contains("took nothing for 5 s"), "{status}");
    });
}

//! A socket without a place in any file system, for a probe in the same container.
//!
//! The kubelet's probes over HTTP show only a status code in a pod's events. A command's output is
//! shown, so the reason goes this way; also where the pod has the node's network, and everybody who
//! reaches the node could ask the other one.
//!
//! The socket is in Linux' abstract namespace, which belongs to the network namespace. Both sides
//! therefore look at who is at the other end (`peer_is_same_user`): on the node's network another
//! user can connect, or take the name first.

use std::io::{self, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::thread;
use std::time::{Duration, Instant};

use rustix::net::sockopt::socket_peercred;
use rustix::process::geteuid;

use crate::status::Readiness;
use crate::{Error, Status};

/// How long a probe may take for its question.
const MAX_DURATION: Duration = Duration::from_secs(2);

/// How often a name is tried that nobody has yet.
const AGAIN_AFTER: Duration = Duration::from_millis(50);

/// The longest answer; a reason has a few lines.
const MAX_ANSWER_BYTES: u64 = 16 << 10;

/// What a probe asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    /// Whether the first pass has ended, whatever it found. The answer waits for that: so a startup
    /// probe does not fail, and the kubelet has no reason for an event.
    Started,
    /// Whether the node is ready, and why not.
    Ready,
}

impl Question {
    const fn byte(self) -> u8 {
        match self {
            Self::Started => b's',
            Self::Ready => b'r',
        }
    }
}

/// The answer to a probe.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether it is yes.
    pub good: bool,
    /// The reason, of one or a few lines.
    pub reason: String,
}

/// Answers probes under `name`, until the process ends. A `Started` waits for at most `patience`.
///
/// # Errors
///
/// [`Error::Probe`].
pub fn answer(name: &str, status: &Status, patience: Duration) -> Result<(), Error> {
    let start = || -> io::Result<()> {
        let listener = UnixListener::bind_addr(&address(name)?)?;
        let status = status.clone();
        let work = move || {
            for client in listener.incoming().flatten() {
                let status = status.clone();
                // Few come, and only of our own user; one that cannot be served asks again.
                let one = move || drop(serve(client, &status, patience));
                let _ = thread::Builder::new().name("probe".into()).spawn(one);
            }
        };
        thread::Builder::new().name("probes".into()).spawn(work)?;
        Ok(())
    };
    start().map_err(Error::Probe)
}

fn serve(mut client: UnixStream, status: &Status, patience: Duration) -> io::Result<()> {
    if !peer_is_same_user(&client)? {
        return Ok(());
    }
    client.set_read_timeout(Some(MAX_DURATION))?;
    client.set_write_timeout(Some(MAX_DURATION))?;
    let mut question = [0];
    client.read_exact(&mut question)?;
    let (good, reason) = match question {
        [b's'] if status.started_within(patience) => (true, "started\n".into()),
        [b's'] => (false, Readiness::Starting.reason()),
        _ => {
            let readiness = status.readiness();
            (readiness == Readiness::Ready, readiness.reason())
        }
    };
    client.write_all(if good { b"+" } else { b"-" })?;
    client.write_all(reason.as_bytes())
}

/// Asks who answers under `name`, and waits for somebody to do so for at most `patience`.
#[must_use]
pub fn ask(name: &str, question: Question, patience: Duration) -> Verdict {
    let began = Instant::now();
    let asked = connect(name, began + patience).and_then(|client| {
        let left = (began + patience).saturating_duration_since(Instant::now());
        put(client, question, left.max(MAX_DURATION))
    });
    asked.unwrap_or_else(|error| Verdict {
        good: false,
        reason: format!("nobody answers: {error}\n"),
    })
}

fn connect(name: &str, until: Instant) -> io::Result<UnixStream> {
    loop {
        match UnixStream::connect_addr(&address(name)?) {
            Ok(client) => return Ok(client),
            Err(error) if Instant::now() >= until => return Err(error),
            Err(_) => thread::sleep(AGAIN_AFTER),
        }
    }
}

fn put(mut client: UnixStream, question: Question, patience: Duration) -> io::Result<Verdict> {
    if !peer_is_same_user(&client)? {
        return Err(io::Error::other("another user has taken the name"));
    }
    client.set_read_timeout(Some(patience))?;
    client.write_all(&[question.byte()])?;
    let mut answer = String::new();
    client.take(MAX_ANSWER_BYTES).read_to_string(&mut answer)?;
    match answer.split_at_checked(1) {
        Some((verdict @ ("+" | "-"), reason)) => {
            Ok(Verdict { good: verdict == "+", reason: reason.into() })
        }
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

fn peer_is_same_user(client: &UnixStream) -> io::Result<bool> {
    Ok(socket_peercred(client)?.uid == geteuid())
}

fn address(name: &str) -> io::Result<SocketAddr> {
    SocketAddr::from_abstract_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Numbers;

    #[test]
    fn a_probe_hears_the_reason_and_waits_for_the_start() {
        let name = format!("kata-configdev-test-{}", std::process::id());
        let none = ask(&name, Question::Ready, Duration::ZERO);
        assert!(!none.good && none.reason.starts_with("nobody answers"));

        let status = Status::new(Duration::from_secs(3600));
        let long = Duration::from_secs(600);
        let waiting = {
            let name = name.clone();
            thread::spawn(move || ask(&name, Question::Started, long))
        };
        answer(&name, &status, long).unwrap();
        assert!(matches!(
            answer(&name, &status, long),
            Err(Error::Probe(error)) if error.kind() == io::ErrorKind::AddrInUse
        ));
        let early = ask(&name, Question::Ready, long);
        assert!(!early.good && early.reason.starts_with("starting"));
        status.note(vec!["the secret kata/x has not arrived".into()], Numbers::default());
        assert!(waiting.join().unwrap().good, "it started, whatever it found");
        assert_eq!(
            ask(&name, Question::Ready, long),
            Verdict { good: false, reason: "the secret kata/x has not arrived\n".into() }
        );
        status.note(Vec::new(), Numbers::default());
        assert!(ask(&name, Question::Ready, long).good);
    }
}

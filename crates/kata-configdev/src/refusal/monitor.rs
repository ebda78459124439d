//! QEMU's monitor, answered in QEMU's place with the reason why there is no QEMU.
//!
//! Kata's Go runtime listens on the socket, connects to it itself, and hands the listener to its
//! hypervisor. It keeps a descriptor of its own, so its connection stays open whatever becomes of
//! the hypervisor, and it waits for a greeting without a limit. An error to its first command ends
//! that at once, and its text becomes the error of the sandbox. A greeting alone does not: the text
//! gets lost where the connection ends before the command.

use std::io::{self, ErrorKind, Read};
use std::os::fd::RawFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::time::{Duration, Instant};

use foreign_text::one_line;
use linux_sys::inherited::unix_listener;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, retry_on_intr};
use rustix::net::{SendFlags, send};

use super::command::{Command, MAX_ASKED_BYTES};

/// How long the runtime may take to connect. Kata's has done so before it starts its hypervisor.
const CONNECT_WITHIN: Duration = Duration::from_secs(2);

/// How long all clients together may take to ask, from the first one on.
const ASK_WITHIN: Duration = Duration::from_secs(2);

/// How many connections are looked at before the wrapper gives up; there should be one.
const MAX_CLIENTS: usize = 4;

/// The most characters of the answer's text, each of which may need ten bytes: the Go runtime reads
/// lines of at most 64 KiB.
const MAX_TEXT_CHARS: usize = 4096;

/// What QEMU says first. The Go runtime refuses versions before 5.
const GREETING: &str = concat!(
    r#"{"QMP":{"version":{"qemu":{"micro":0,"minor":0,"major":10},"package":""#,
    env!("CARGO_PKG_NAME"),
    r#""},"capabilities":[]}}"#,
    "\r\n"
);

/// Answers the first client that asks something on the listening socket `number` with `line`.
///
/// # Errors
///
/// Where the number is not that of such a socket, or nobody has asked in time.
pub fn answer(number: RawFd, line: &str) -> io::Result<()> {
    let listener = unix_listener(number)?;
    let text = one_line(line).up_to(MAX_TEXT_CHARS).to_string();
    let first = accept(&listener, Instant::now() + CONNECT_WITHIN)?;
    let until = Instant::now() + ASK_WITHIN;
    let mut answered = Client::refuse(first, &text, until);
    for _ in 1..MAX_CLIENTS {
        if answered.is_ok() {
            break;
        }
        answered = Client::refuse(accept(&listener, until)?, &text, until);
    }
    answered
}

/// The listener is the runtime's as well, so that its flags and time-outs are not to be changed.
fn accept(listener: &UnixListener, until: Instant) -> io::Result<UnixStream> {
    loop {
        let wait = Timespec::try_from(left(until)?).map_err(io::Error::other)?;
        match poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&wait)) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return listener.accept().map(|(client, _)| client),
            Err(error) => return Err(error.into()),
        }
    }
}

/// One connection, until its time is up.
struct Client {
    stream: UnixStream,
    until: Instant,
}

impl Client {
    /// Greets, and refuses every command up to the one that clients begin with. A command ends with
    /// its line, or with its last bracket where no more has come, as clients of QEMU may do.
    fn refuse(stream: UnixStream, text: &str, until: Instant) -> io::Result<()> {
        let client = Self { stream, until };
        client.say(GREETING)?;
        let mut asked = client.take(MAX_ASKED_BYTES as u64);
        let (mut heard, mut buffer) = (Vec::new(), [0; MAX_ASKED_BYTES]);
        loop {
            let line = heard.split_inclusive(|byte| *byte == b'\n').next();
            let line = line.unwrap_or_default();
            if let Some(command) = Command::parse(line) {
                asked.get_ref().say(&command.refused(text))?;
                if command.is_first {
                    return Ok(());
                }
                heard.drain(..line.len());
                continue;
            }
            let is_whole = line.ends_with(b"\n");
            let count = if is_whole { 0 } else { asked.read(&mut buffer)? };
            if count == 0 {
                return Err(ErrorKind::InvalidData.into());
            }
            heard.extend_from_slice(&buffer[..count]);
        }
    }

    /// A client that has gone must not end this process by a signal: an `exec` that failed has left
    /// SIGPIPE with its default action.
    fn say(&self, line: &str) -> io::Result<()> {
        let mut rest = line.as_bytes();
        while !rest.is_empty() {
            self.stream.set_write_timeout(Some(left(self.until)?))?;
            let sent = retry_on_intr(|| send(&self.stream, rest, SendFlags::NOSIGNAL))?;
            rest = &rest[sent..];
        }
        Ok(())
    }
}

impl Read for Client {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(left(self.until)?))?;
        self.stream.read(buffer)
    }
}

/// The time until `until`, which is not zero: that would mean no limit.
fn left(until: Instant) -> io::Result<Duration> {
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return Err(ErrorKind::TimedOut.into());
    }
    Ok(left)
}

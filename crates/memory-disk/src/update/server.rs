//! The device's end.

use std::io::IoSlice;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use linux_sys::locked::Locked;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::{Errno, read};
use rustix::net::sockopt::socket_peercred;
use rustix::net::{SendAncillaryBuffer, SendFlags, SocketFlags, accept_with, sendmsg};
use rustix::process::{Uid, geteuid};

use super::{CHANGED, DARK, GREETING_BYTES, GREETING_MAGIC, READY, SAME};
use crate::Error;
use crate::device::{Disk, Exchange};
use crate::serve::unprepared;
use crate::vhost_user::Device;

/// How long a client may take, all in all; the next one waits as long. It has a megabyte to send.
const LIMIT: Duration = Duration::from_secs(10);

/// How long nobody is accepted after that failed, so that a lasting failure does not keep a
/// processor busy.
const PAUSE: Duration = Duration::from_millis(100);

/// Everything that takes rights which the process is about to lose.
#[derive(Debug)]
pub(crate) struct Updates {
    listener: UnixListener,
    /// Receives new content.
    spare: Locked,
    /// Whose clients are served besides root's.
    owner: Uid,
    /// One end ends the thread, the other notices.
    stop: (UnixStream, UnixStream),
}

/// The thread that serves clients; ends when this is dropped.
#[derive(Debug)]
pub(crate) struct Running {
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
}

impl Updates {
    /// To be called before the sandbox.
    pub(crate) fn prepare(listener: UnixListener, disk: &Disk) -> Result<Self, Error> {
        listener.set_nonblocking(true).map_err(unprepared)?;
        Ok(Self {
            listener,
            spare: disk.spare()?,
            owner: geteuid(),
            stop: UnixStream::pair().map_err(unprepared)?,
        })
    }

    /// Serves clients from now on.
    pub(crate) fn start(self, device: Arc<Device>) -> Result<Running, Error> {
        let (stop, stopped) = self.stop;
        let mut server = Server { device, spare: self.spare, owner: self.owner, stopped };
        let listener = self.listener;
        let thread = thread::Builder::new()
            .name("updates".to_owned())
            .spawn(move || server.run(&listener))
            .map_err(unprepared)?;
        Ok(Running { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has nothing to say that is not on standard error.
            let _ = thread.join();
        }
    }
}

struct Server {
    device: Arc<Device>,
    spare: Locked,
    owner: Uid,
    stopped: UnixStream,
}

/// Why a client is not served any further. It is not told: it sees the connection closed.
enum End {
    /// It went away, took too long or is not allowed.
    Client,
    /// The disk is gone.
    Stopped,
}

impl From<Errno> for End {
    fn from(_: Errno) -> Self {
        Self::Client
    }
}

impl Server {
    fn run(&mut self, listener: &UnixListener) {
        while self.wait(Some(listener), PollFlags::IN, None).is_ok() {
            let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
            let served = match accept_with(listener, flags) {
                Ok(client) => self.serve(&client),
                Err(_) => self.wait(None::<&UnixListener>, PollFlags::empty(), Some(PAUSE)),
            };
            // Of a client that went away, or the old content.
            self.spare.wipe();
            if matches!(served, Err(End::Stopped)) {
                return;
            }
        }
    }

    fn serve(&mut self, client: &OwnedFd) -> Result<(), End> {
        // The socket's mode keeps others out; this is for the day when somebody changes it.
        let user = socket_peercred(client)?.uid;
        if !user.is_root() && user != self.owner {
            return Err(End::Client);
        }
        let end = Instant::now() + LIMIT;
        let is_dark = self.device.lock().disk.is_dark();
        self.send(client, &self.greeting(is_dark), end)?;
        if is_dark {
            return Ok(());
        }
        self.receive(client, end)?;
        let exchange = self.device.change(|state| state.update(&mut self.spare));
        let answer = match exchange {
            Exchange::Changed => CHANGED,
            Exchange::Same => SAME,
            Exchange::Dark => DARK,
            Exchange::OtherLength => return Err(End::Client),
        };
        self.send(client, &[answer], end)
    }

    fn greeting(&self, is_dark: bool) -> [u8; GREETING_BYTES] {
        let mut greeting = [0; GREETING_BYTES];
        let parts = [
            &GREETING_MAGIC[..],
            &(self.spare.len() as u64).to_le_bytes(),
            &[if is_dark { DARK } else { READY }],
        ];
        for (to, from) in greeting.iter_mut().zip(parts.concat()) {
            *to = from;
        }
        greeting
    }

    /// Fills the spare memory.
    fn receive(&mut self, client: &OwnedFd, end: Instant) -> Result<(), End> {
        let mut filled = 0;
        while filled < self.spare.len() {
            match read(client, &mut self.spare.bytes_mut()[filled..]) {
                Ok(0) => return Err(End::Client),
                Ok(length) => filled += length,
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => self.wait_until(client, PollFlags::IN, end)?,
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    fn send(&self, client: &OwnedFd, mut bytes: &[u8], end: Instant) -> Result<(), End> {
        while !bytes.is_empty() {
            let mut nothing = SendAncillaryBuffer::default();
            let parts = [IoSlice::new(bytes)];
            match sendmsg(client, &parts, &mut nothing, SendFlags::NOSIGNAL) {
                Ok(length) => bytes = bytes.get(length..).unwrap_or_default(),
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => self.wait_until(client, PollFlags::OUT, end)?,
                Err(errno) => return Err(errno.into()),
            }
        }
        Ok(())
    }

    fn wait_until(&self, client: &OwnedFd, flags: PollFlags, end: Instant) -> Result<(), End> {
        match end.checked_duration_since(Instant::now()) {
            Some(left) if !left.is_zero() => self.wait(Some(client), flags, Some(left)),
            _ => Err(End::Client),
        }
    }

    /// Waits for `flags` on `what` or for the end of the disk; at most `within`, whose end is no
    /// failure.
    fn wait(
        &self,
        what: Option<impl AsFd>,
        flags: PollFlags,
        within: Option<Duration>,
    ) -> Result<(), End> {
        let within = within.map(|time| Timespec {
            tv_sec: time.as_secs() as i64,
            tv_nsec: time.subsec_nanos().into(),
        });
        let mut polled = vec![PollFd::new(&self.stopped, PollFlags::IN)];
        polled.extend(what.as_ref().map(|what| PollFd::new(what, flags)));
        match poll(&mut polled, within.as_ref()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(_) => return Err(End::Stopped),
        }
        if polled[0].revents().is_empty() { Ok(()) } else { Err(End::Stopped) }
    }
}

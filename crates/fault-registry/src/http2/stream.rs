//! A connection as `h2` wants it, and the loop that waits for it.

use std::cell::RefCell;
use std::io::{self, Read as _, Write as _};
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::wire::Wire;

/// How long the loop waits for the socket before it looks again all the same.
const PATIENCE: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// A connection that is shared by `h2` and by the frames that pass it by.
#[derive(Clone)]
pub(super) struct Stream(Rc<RefCell<Wire>>);

/// Whether something happened that makes another look worth it.
struct Flag(AtomicBool);

impl Wake for Flag {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::SeqCst);
    }
}

impl Stream {
    pub(super) fn new(mut wire: Wire) -> io::Result<Self> {
        wire.tcp().set_nonblocking(true)?;
        Ok(Self(Rc::new(RefCell::new(wire))))
    }

    /// The connection, once nobody else has it.
    pub(super) fn into_wire(self) -> io::Result<Wire> {
        let shared = Rc::try_unwrap(self.0);
        let mut wire = shared.map_err(|_| io::Error::other("the connection is in use"))?;
        wire.get_mut().tcp().set_nonblocking(false)?;
        Ok(wire.into_inner())
    }

    /// Runs `work`, all of which waits for this connection only.
    pub(super) fn block_on<T>(&self, work: impl Future<Output = T>) -> T {
        let flag = Arc::new(Flag(AtomicBool::new(false)));
        let waker = Waker::from(flag.clone());
        let mut work = pin!(work);
        loop {
            if let Poll::Ready(done) = work.as_mut().poll(&mut Context::from_waker(&waker)) {
                return done;
            }
            if !flag.0.swap(false, Ordering::SeqCst) {
                let mut wire = self.0.borrow_mut();
                let mut sockets = [PollFd::new(wire.tcp(), PollFlags::IN)];
                let _ = poll(&mut sockets, Some(&PATIENCE));
            }
        }
    }

    /// Writes bytes that `h2` knows nothing of, and waits until they are gone.
    pub(super) fn write(&self, bytes: &[u8]) -> io::Result<()> {
        let mut wire = self.0.borrow_mut();
        wire.tcp().set_nonblocking(false)?;
        let written = wire.write_all(bytes).and_then(|()| wire.flush());
        wire.tcp().set_nonblocking(true)?;
        written
    }
}

/// What would block is waited for by [`Stream::block_on`].
fn ready<T>(outcome: io::Result<T>) -> Poll<io::Result<T>> {
    match outcome {
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Poll::Pending,
        outcome => Poll::Ready(outcome),
    }
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = self.0.borrow_mut().read(buffer.initialize_unfilled());
        ready(read.map(|count| buffer.advance(count)))
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        ready(self.0.borrow_mut().write(bytes))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready(self.0.borrow_mut().flush())
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(context)
    }
}

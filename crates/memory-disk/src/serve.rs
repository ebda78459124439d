//! The whole life of one disk: lock, sandbox, serve, wipe.

use std::os::unix::net::UnixListener;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use vhost::vhost_user::{Error as WireError, Listener};
use vhost_user_backend::{Error as DaemonError, VhostUserDaemon};
use vm_memory::{GuestMemoryAtomic, GuestMemoryMmap};
use zeroize::Zeroizing;

use crate::Error;
use crate::device::Disk;
use crate::event::Event;
use crate::sandbox;
use crate::vhost_user::{Device, Memory};
use crate::watch::Watch;

/// How a disk is served.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// If set, the disk goes dark this long after the last read, once the guest has read all of it.
    ///
    /// Zero is for guests that do not look for partitions. Linux does: it reads the first pages,
    /// which completes a small image, and drops them before a program reads them.
    pub once: Option<Duration>,
    /// How long a VMM may take to connect; `None` for no limit.
    pub connect_within: Option<Duration>,
}

/// Counters of a disk's whole life.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Requests of any kind.
    pub requests: u64,
    /// Those of them that were answered with an error.
    pub refused: u64,
    /// Bytes of the image that were read; more than it has where parts were read again.
    pub bytes: u64,
    /// Whether every sector was read, but for zeroes at the end.
    pub complete: bool,
}

/// Serves `image` to the first VMM that connects to `listener`, which is the caller's to protect,
/// until it disconnects.
///
/// `image` is copied to locked memory and wiped before anything else; the copy is wiped when it
/// goes dark and at the end. Events go to `log`, on the calling thread.
///
/// **From then on the process is in a sandbox, for good**: it cannot open files or sockets, start
/// programs, or get rights back, not even after this function returned. `log` can write to what is
/// open already. A caller is therefore a process of its own that ends afterwards, is best
/// single-threaded when it calls (other threads get the system call filter only), and holds no
/// descriptors it does not need.
///
/// # Errors
///
/// The image has an invalid length, the sandbox cannot be entered, no VMM connects in time, the VMM
/// breaks the protocol, or its guest memory cannot be mapped. A VMM that goes away is not an error,
/// in whatever way it goes.
///
/// ```no_run
/// use std::os::unix::net::UnixListener;
/// use std::time::Duration;
///
/// use memory_disk::{Options, serve};
/// use zeroize::Zeroizing;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let image = Zeroizing::new(vec![0; 512]);
/// // In a folder that only the VMM can reach.
/// let listener = UnixListener::bind("/run/sandbox/disk.sock")?;
/// let options = Options {
///     once: Some(Duration::from_secs(30)),
///     ..Options::default()
/// };
/// let served = serve(listener, image, &options, |event| eprintln!("{event}"))?;
/// println!("{} bytes were read", served.bytes);
/// # Ok(())
/// # }
/// ```
pub fn serve(
    listener: UnixListener,
    image: Zeroizing<Vec<u8>>,
    options: &Options,
    mut log: impl FnMut(&Event),
) -> Result<Totals, Error> {
    let disk = Disk::new(&image)?;
    drop(image);

    let memory: Memory = GuestMemoryAtomic::new(GuestMemoryMmap::new());
    let device = Arc::new(Device::new(disk, memory.clone(), options.once));
    listener.set_nonblocking(false).map_err(unprepared)?;
    // Before the first thread: it is for the calling thread and those that come after.
    let landlock = sandbox::drop_rights()?;
    let mut daemon = VhostUserDaemon::new("memory-disk".to_owned(), Arc::clone(&device), memory)
        .map_err(unprepared)?;
    sandbox::filter_calls()?;
    log(&Event::Sandboxed { landlock });

    wait_for_connection(&listener, options.connect_within)?;
    let mut listener = Listener::from(listener);
    daemon.start(&mut listener).map_err(unprepared)?;
    // One VMM only.
    drop(listener);
    log(&Event::Connected);

    let workers = daemon.get_epoll_handlers();
    let waiting = Arc::clone(&device);
    thread::Builder::new()
        .name("connection".to_owned())
        .spawn(move || {
            let end = end_of_connection(daemon.wait());
            waiting.change(|state| state.ended = Some(end));
        })
        .map_err(unprepared)?;

    let end = watch(&device, options, &mut log);
    for worker in workers {
        worker.send_exit_event();
    }
    let mut state = device.lock();
    state.darken();
    end.map(|()| state.served).map_err(|reason| Error::Protocol { reason })
}

/// Logs events, and darkens the disk when it is time, until the connection ends.
fn watch(device: &Device, options: &Options, log: &mut impl FnMut(&Event)) -> Result<(), String> {
    let mut watch = Watch::default();
    loop {
        let mut state = device.lock();
        let step = watch.step(Instant::now(), &state.progress, options);
        if step.darken {
            state.darken();
        }
        let events = step.events;
        let ended = state.ended.take();
        if ended.is_none() && events.is_empty() {
            drop(device.wait(state, step.again_in));
            continue;
        }
        // A slow log must not hold up the guest.
        drop(state);
        events.iter().for_each(&mut *log);
        if let Some(end) = ended {
            return end;
        }
    }
}

/// What the end of a connection means. A VMM may go away at any time, in the middle of a message
/// too.
fn end_of_connection(end: Result<(), DaemonError>) -> Result<(), String> {
    match end {
        Ok(())
        | Err(DaemonError::HandleRequest(
            WireError::Disconnected
            | WireError::PartialMessage
            | WireError::SocketBroken(_)
            | WireError::SocketError(_),
        )) => Ok(()),
        Err(DaemonError::HandleRequest(error)) => Err(error.to_string()),
        Err(error) => Err(error.to_string()),
    }
}

fn wait_for_connection(listener: &UnixListener, within: Option<Duration>) -> Result<(), Error> {
    let Some(within) = within else {
        return Ok(());
    };
    let start = Instant::now();
    loop {
        let left = within.saturating_sub(start.elapsed());
        let left = Timespec::try_from(left).map_err(unprepared)?;
        match poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&left)) {
            Ok(0) => return Err(Error::NobodyConnected { within }),
            Ok(_) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(unprepared(error)),
        }
    }
}

fn unprepared(error: impl std::fmt::Display) -> Error {
    Error::Prepare { reason: error.to_string() }
}

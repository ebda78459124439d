//! The first sectors of many disks, read at the same time: by the kernel's asynchronous reads, so
//! that a disk that takes long holds up no other one, and past the page cache, which would have to
//! make a page for each.
//!
//! Spec: `io_setup(2)`, `io_submit(2)`, `io_getevents(2)`; Linux `include/uapi/linux/aio_abi.h`.
#![expect(
    unsafe_code,
    reason = "the kernel writes into memory of ours until it says that it is done"
)]

use std::ffi::c_long;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd};
use std::time::Duration;

use rustix::io::Errno;

/// How much is read of each: the least that a disk gives.
pub const SECTOR_BYTES: usize = 512;

/// `IOCB_CMD_PREAD`.
const READ: u16 = 0;

/// One sector, where a disk can write it.
#[repr(C, align(512))]
#[derive(Clone, Copy)]
struct Sector([u8; SECTOR_BYTES]);

/// `struct iocb` of little-endian machines.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Request {
    data: u64,
    key: u32,
    flags: u32,
    operation: u16,
    priority: i16,
    file: u32,
    buffer: u64,
    length: u64,
    offset: i64,
    reserved: u64,
    more_flags: u32,
    event_file: u32,
}

/// `struct io_event`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Event {
    data: u64,
    request: u64,
    result: i64,
    further: i64,
}

/// Room for reads that are under way. Takes two system calls while it reads, `io_submit` and
/// `io_getevents`, and others only to be made and dropped.
pub struct FirstSectors {
    context: u64,
    sectors: Vec<MaybeUninit<Sector>>,
}

impl std::fmt::Debug for FirstSectors {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let count = self.sectors.capacity();
        f.debug_struct("FirstSectors").field("count", &count).finish()
    }
}

impl FirstSectors {
    /// For `count` disks at a time.
    ///
    /// # Errors
    ///
    /// `ENOSYS` in a kernel without `CONFIG_AIO`, `EAGAIN` beyond `/proc/sys/fs/aio-max-nr`.
    pub fn new(count: usize) -> io::Result<Self> {
        let events = u32::try_from(count).map_err(|_| Errno::INVAL)?;
        let mut context = 0_u64;
        // SAFETY: the kernel writes one number into this one, which is zero, as it has to be.
        check(unsafe { libc::syscall(libc::SYS_io_setup, events, &raw mut context) })?;
        Ok(Self { context, sectors: Vec::with_capacity(count) })
    }

    /// Reads the first sector of each of `disks`, which are open with `O_DIRECT`; of no more than
    /// [`FirstSectors::new`] was told. `None` where a disk gives none: it is empty, shorter than a
    /// sector, has larger ones, or cannot be read.
    ///
    /// `waiting` hears the position of the first disk that has not answered, after each `tick`.
    pub fn read(
        &mut self,
        disks: &[impl AsFd],
        tick: Duration,
        mut waiting: impl FnMut(usize),
    ) -> Vec<Option<&[u8; SECTOR_BYTES]>> {
        let count = disks.len().min(self.sectors.capacity());
        // SAFETY: within the capacity, and what may be uninitialised counts as such.
        unsafe { self.sectors.set_len(count) };
        let requests: Vec<Request> = disks
            .iter()
            .zip(&mut self.sectors)
            .enumerate()
            .map(|(place, (disk, sector))| Request {
                data: place as u64,
                operation: READ,
                file: disk.as_fd().as_raw_fd().cast_unsigned(),
                buffer: sector.as_mut_ptr().expose_provenance() as u64,
                length: SECTOR_BYTES as u64,
                ..Request::default()
            })
            .collect();
        let mut states = self.submit(&requests);
        while let Some(first) = states.iter().position(|state| *state == State::UnderWay) {
            if !self.wait(&mut states, tick) {
                waiting(first);
            }
        }
        let read = states.iter().zip(&self.sectors);
        let mut sectors: Vec<_> = read
            .map(|(state, sector)| match state {
                // SAFETY: the kernel says that it has written all of it.
                State::Read => Some(unsafe { &sector.assume_init_ref().0 }),
                State::Nothing | State::UnderWay => None,
            })
            .collect();
        sectors.resize(disks.len(), None);
        sectors
    }

    /// Hands the requests over. What the kernel does not take counts as not read.
    fn submit(&self, requests: &[Request]) -> Vec<State> {
        let mut states = vec![State::Nothing; requests.len()];
        let pointers: Vec<*const Request> = requests.iter().map(std::ptr::from_ref).collect();
        let mut next = 0;
        while next < pointers.len() {
            let rest = &pointers[next..];
            // SAFETY: as many pointers to requests, which the kernel copies. Their buffers belong
            // to this value, which waits for all of them, here or when it is dropped.
            let taken = check(unsafe {
                let (count, list) = (rest.len() as c_long, rest.as_ptr());
                libc::syscall(libc::SYS_io_submit, self.context, count, list)
            });
            match usize::try_from(taken.unwrap_or(0)) {
                // The first of the rest is one that cannot be read.
                Ok(0) | Err(_) => next += 1,
                Ok(taken) => {
                    states[next..next + taken].fill(State::UnderWay);
                    next += taken;
                }
            }
        }
        states
    }

    /// Waits until all that is under way is done; `false` after a `tick` in which it was not.
    fn wait(&self, states: &mut [State], tick: Duration) -> bool {
        let under_way = states.iter().filter(|state| **state == State::UnderWay);
        let mut events = vec![Event::default(); under_way.count()];
        let timeout = libc::timespec {
            tv_sec: tick.as_secs().cast_signed(),
            tv_nsec: tick.subsec_nanos().into(),
        };
        let count = events.len() as c_long;
        // SAFETY: room for as many events, and a time that is only read.
        let done = check(unsafe {
            let (list, timeout) = (events.as_mut_ptr(), &raw const timeout);
            libc::syscall(libc::SYS_io_getevents, self.context, count, count, list, timeout)
        });
        let done = usize::try_from(done.unwrap_or(0)).unwrap_or(0);
        for event in &events[..done.min(events.len())] {
            let Some(state) = states.get_mut(event.data as usize) else {
                continue;
            };
            *state = match usize::try_from(event.result) {
                Ok(SECTOR_BYTES) => State::Read,
                _ => State::Nothing,
            };
        }
        done == events.len()
    }
}

impl Drop for FirstSectors {
    /// Waits for what is still under way: the kernel writes into this memory.
    fn drop(&mut self) {
        // SAFETY: a number that is not used any more.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.context) };
    }
}

/// What became of a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    UnderWay,
    Read,
    Nothing,
}

fn check(result: c_long) -> io::Result<c_long> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result)
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::OwnedFd;

    use rustix::fs::{CWD, Mode, OFlags, openat};

    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn open(path: &std::path::Path) -> OwnedFd {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        openat(CWD, path, flags | OFlags::DIRECT, Mode::empty())
            .or_else(|_| openat(CWD, path, flags, Mode::empty()))
            .unwrap()
    }

    #[test]
    fn each_disk_gives_its_own_sector_or_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let disk = |name: &str, bytes: &[u8]| {
            let path = directory.path().join(name);
            std::fs::write(&path, bytes).unwrap();
            open(&path)
        };
        let mut disks: Vec<_> =
            (1..=5_u8).map(|number| disk(&number.to_string(), &[number; 1024])).collect();
        disks.push(disk("empty", b""));
        disks.push(disk("short", &[9; 511]));
        // A descriptor that cannot be read, in the middle.
        disks.insert(2, File::create(directory.path().join("written")).unwrap().into());
        let mut reads = FirstSectors::new(8).unwrap();
        for _ in 0..3 {
            let sectors = reads.read(&disks, LONG, |place| panic!("{place}"));
            let first: Vec<_> =
                sectors.iter().map(|sector| sector.map(|bytes| bytes[511])).collect();
            let expected = [Some(1), Some(2), None, Some(3), Some(4), Some(5), None, None];
            assert_eq!(first, expected);
        }
        // More than there is room for: the rest is not read.
        let mut few = FirstSectors::new(1).unwrap();
        let read = few.read(&disks[..2], LONG, |place| panic!("{place}"));
        assert!(read[0].is_some() && read[1].is_none());
    }
}

//! The copy of accepted initdata in memory, on a real loop device that somebody has read before.
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code")]

use crate::machine;

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use config_image::Magic;
use initdata_processor::agent::Copy;
use machine::{DOCUMENT, Machine, skip};
use rustix::io::Errno;
use rustix::pipe::{SpliceFlags, fcntl_setpipe_size, pipe, splice};

/// The copy, still blank, and its device; unbound when dropped.
struct Blank {
    machine: Machine,
    copy: Copy,
    device: PathBuf,
}

impl Blank {
    fn prepare() -> Option<Self> {
        let machine = Machine::new();
        let Ok(copy) = Copy::prepare(&machine.options.paths) else {
            skip("no loop device (needs root and /dev/loop-control)");
            return None;
        };
        let device = fs::read_link(machine.node("vdinitdata")).unwrap();
        Some(Self { machine, copy, device })
    }

    /// What an agent finds, if anything.
    fn magic(&self) -> Option<[u8; 8]> {
        let mut magic = [0; 8];
        let device = File::open(self.machine.node("vdinitdata")).ok()?;
        device.read_exact_at(&mut magic, 0).unwrap();
        Some(magic)
    }
}

impl Drop for Blank {
    fn drop(&mut self) {
        let _ = linux_sys::loop_device::unbind(&self.device);
    }
}

/// What somebody read before, udev for one, was taken for what is there: good initdata was refused.
#[test]
fn privileged_a_device_that_was_read_before_shows_what_was_written() {
    let Some(blank) = Blank::prepare() else {
        return;
    };
    let reader = File::open(&blank.device).unwrap();
    let mut sector = [1; 512];
    reader.read_exact_at(&mut sector, 0).unwrap();
    assert_eq!(sector, [0; 512]);
    blank.copy.fill(DOCUMENT.as_bytes()).unwrap();
    assert_eq!(blank.magic(), Some(Magic::INITDATA.bytes()));
    reader.read_exact_at(&mut sector, 0).unwrap();
    assert!(sector.starts_with(&Magic::INITDATA.bytes()));
}

/// Initdata was refused then, and an agent found it a moment later all the same.
#[test]
fn privileged_a_device_that_stays_blank_leaves_nothing_to_be_found_later() {
    let Some(blank) = Blank::prepare() else {
        return;
    };
    let reader = File::open(&blank.device).unwrap();
    // A page that a pipe has cannot leave the page cache.
    let (out, into) = pipe().unwrap();
    fcntl_setpipe_size(&into, 64 << 10).unwrap();
    let taken = splice(&reader, Some(&mut 0), &into, None, 4096, SpliceFlags::empty());
    if taken == Err(Errno::INVAL) {
        return skip("this kernel's block devices cannot be spliced");
    }
    assert_eq!(taken, Ok(4096));
    let error = blank.copy.fill(DOCUMENT.as_bytes()).unwrap_err();
    assert!(error.chain().ends_with("the loop device does not show it"));
    assert_eq!(blank.magic(), None, "the link is there");
    drop((out, into, reader));
    let mut sector = [1; 512];
    let device = File::open(&blank.device).unwrap();
    device.read_exact_at(&mut sector, 0).unwrap();
    assert_eq!(sector, [0; 512]);
}

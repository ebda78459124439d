//! Memory for a secret: never swapped, never in a core dump, zeroed before it is given back.
#![expect(unsafe_code, reason = "pages of their own cannot be had from the allocator")]

use std::fmt;
use std::io;
use std::mem::take;
use std::ops::Deref;
use std::ptr::null_mut;
use std::slice::from_raw_parts_mut;

use rustix::mm::{Advice, MapFlags, ProtFlags, madvise, mlock, mmap_anonymous, munmap};
use zeroize::Zeroize as _;

/// Bytes in pages of their own, which are locked in memory, left out of core dumps and not handed
/// to forked children.
///
/// The length is set once. Debug shows it and nothing of the content.
pub struct Locked(&'static mut [u8]);

/// The kernel maps whole pages, but no empty range.
const fn mapped(length: usize) -> usize {
    if length == 0 { 1 } else { length }
}

impl Locked {
    /// Copies `bytes` into locked pages. The caller still has to wipe what it copied from.
    ///
    /// # Errors
    ///
    /// Those of `mmap(2)` and `mlock(2)`: without `CAP_IPC_LOCK` the limit `RLIMIT_MEMLOCK` may be
    /// too small.
    pub fn copy_of(bytes: &[u8]) -> io::Result<Self> {
        let (length, protection) = (mapped(bytes.len()), ProtFlags::READ | ProtFlags::WRITE);
        // SAFETY: a fresh private mapping at an address of the kernel's choice touches no memory
        // that is in use.
        let start = unsafe { mmap_anonymous(null_mut(), length, protection, MapFlags::PRIVATE) }?;
        // SAFETY: as many bytes are mapped there, zeros of the kernel's, and nobody else has them;
        // they stay until `drop` unmaps them.
        let locked = Self(unsafe { from_raw_parts_mut(start.cast(), bytes.len()) });
        // SAFETY: the range is the mapping made above; all three calls leave its content alone.
        unsafe {
            mlock(start, length)?;
            madvise(start, length, Advice::LinuxDontDump)?;
            madvise(start, length, Advice::LinuxWipeOnFork)?;
        }
        // Only now: before, the pages could still be swapped.
        locked.0.copy_from_slice(bytes);
        Ok(locked)
    }

    /// Zeroes the content. The length stays.
    pub fn wipe(&mut self) {
        self.0.zeroize();
    }
}

impl Deref for Locked {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        self.wipe();
        let pages = take(&mut self.0);
        // SAFETY: the range is the mapping that `copy_of` made, and nothing refers to it after
        // this. Unmapping also unlocks. It fails for no valid range; then the pages stay, zeroed.
        let _ = unsafe { munmap(pages.as_mut_ptr().cast(), mapped(pages.len())) };
    }
}

impl fmt::Debug for Locked {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Locked").field("length", &self.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The flags that the kernel reports for the mapping around `address`.
    fn kernel_flags(address: usize) -> String {
        let maps = std::fs::read_to_string("/proc/self/smaps").unwrap();
        let mut inside = false;
        for line in maps.lines() {
            let range = line.split(' ').next().and_then(|word| word.split_once('-'));
            if let Some((start, end)) = range
                && let Ok(start) = usize::from_str_radix(start, 16)
                && let Ok(end) = usize::from_str_radix(end, 16)
            {
                inside = (start..end).contains(&address);
            }
            if inside && let Some(flags) = line.strip_prefix("VmFlags: ") {
                return flags.to_owned();
            }
        }
        panic!("no mapping at {address:#x}");
    }

    #[test]
    fn content_is_kept_until_wiped() {
        let mut locked = Locked::copy_of(b"a secret").unwrap();
        assert_eq!(&*locked, b"a secret");
        assert!(!format!("{locked:?}").contains("secret"));
        locked.wipe();
        assert_eq!(&*locked, [0; 8]);
    }

    #[test]
    fn the_kernel_knows_the_pages_as_locked_and_not_to_be_dumped() {
        let locked = Locked::copy_of(&[7; 10_000]).unwrap();
        let flags = kernel_flags(locked.as_ptr() as usize);
        for flag in ["lo", "dd", "wf"] {
            assert!(
                flags.split_whitespace().any(|word| word == flag),
                "{flag} is missing in {flags}"
            );
        }
    }

    #[test]
    fn nothing_is_fine() {
        assert!(Locked::copy_of(b"").unwrap().is_empty());
    }
}

//! How much memory this process had resident at most.
#![expect(unsafe_code, reason = "getrusage(2) fills a structure")]

use std::io;
use std::mem::zeroed;

/// In KiB. The kernel counts in steps, so it may be some pages behind. One system call,
/// `getrusage`; the kernel's lists of mappings are exact, and cost as much as reading twenty disks.
///
/// # Errors
///
/// Those of `getrusage(2)`: where a sandbox forbids it.
pub fn kib() -> io::Result<u64> {
    // SAFETY: a structure of numbers, for which zero is a value.
    let mut usage: libc::rusage = unsafe { zeroed() };
    // SAFETY: the structure is there to be written to.
    if unsafe { libc::getrusage(libc::RUSAGE_SELF, &raw mut usage) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(usage.ru_maxrss.cast_unsigned())
}

#[cfg(test)]
mod tests {
    use std::hint::black_box;

    use super::*;

    #[test]
    fn what_is_touched_counts() {
        let before = kib().unwrap();
        black_box(vec![1_u8; 64 << 20]);
        let after = kib().unwrap();
        assert!(after >= 64 << 10 && after >= before, "{before}, {after}");
    }
}
